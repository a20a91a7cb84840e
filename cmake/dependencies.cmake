# Libraries, all of them Debian 12 packages; deploy/packages.txt lists their names.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(LZMA REQUIRED IMPORTED_TARGET liblzma)
find_package(BZip2 REQUIRED) # Debian's has no pkg-config file
add_library(PkgConfig::BZIP2 ALIAS BZip2::BZip2)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
pkg_check_modules(EXPAT REQUIRED IMPORTED_TARGET expat)
pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd)
pkg_check_modules(GNUTLS REQUIRED IMPORTED_TARGET gnutls)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
find_program(PROTOC_C NAMES protoc-c REQUIRED)
# gRPC is linked by name: its pkg-config file drags in some sixty absl libraries.
# xxhash is used inline, header only.
add_library(xxhash INTERFACE)
