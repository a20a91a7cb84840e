# How everything of ours is compiled: C17, no extensions, Linux; warnings the compiler knows.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

option(RS_WERROR "Warnings are errors (dev and CI)" OFF)
set(RS_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=")
option(RS_FUZZ "Build the libFuzzer programs (needs clang)" OFF)
option(RS_TESTS "Build the tests" ON)
option(RS_ASCEND "The Ascend wing: torch_npu, MindSpore, cluster tables and recipes" ON)

include(CheckCCompilerFlag)
add_library(rs_flags INTERFACE)
target_include_directories(rs_flags INTERFACE ${PROJECT_SOURCE_DIR})
# Generated code is not ours to warn about, nor are its macros.
target_include_directories(rs_flags SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/generated)
target_compile_definitions(rs_flags INTERFACE _GNU_SOURCE RS_PROGRAM_VERSION="${PROJECT_VERSION}")
target_compile_options(rs_flags INTERFACE -fno-omit-frame-pointer)

add_library(rs_warnings INTERFACE)
foreach(flag -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wundef -Wstrict-prototypes -Wmissing-prototypes
        -Wold-style-definition -Wwrite-strings -Wcast-qual -Wcast-align -Wpointer-arith -Wformat=2
        -Wswitch-enum -Wimplicit-fallthrough -Wdouble-promotion -Wconversion -Wsign-conversion
        -Wnull-dereference -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wcomma
        -Wunreachable-code)
    string(MAKE_C_IDENTIFIER "RS_HAS${flag}" known)
    check_c_compiler_flag(${flag} ${known})
    if(${known})
        target_compile_options(rs_warnings INTERFACE ${flag})
    endif()
endforeach()
# clang shows what protobuf-c's own macros cast, gcc (which looks at all else that we cast) does not.
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    target_compile_options(rs_warnings INTERFACE -Wno-cast-qual)
endif()
if(RS_WERROR)
    target_compile_options(rs_warnings INTERFACE -Werror)
endif()

if(RS_SANITIZE)
    target_compile_options(rs_flags INTERFACE -fsanitize=${RS_SANITIZE} -fno-sanitize-recover=all)
    target_link_options(rs_flags INTERFACE -fsanitize=${RS_SANITIZE})
    if(RS_SANITIZE MATCHES thread)
        target_compile_definitions(rs_flags INTERFACE RS_TSAN=1)
    endif()
elseif(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo" OR CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_definitions(rs_flags INTERFACE _FORTIFY_SOURCE=2)
    target_compile_options(rs_flags INTERFACE -fstack-protector-strong)
    target_link_options(rs_flags INTERFACE -Wl,-z,relro,-z,now)
endif()

# What users run is optimised over the borders of files and rooms. Objects keep plain code beside it (fat), so that
# only the program takes the time to link that way; tests and the small library link the plain code.
if((CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo" OR CMAKE_BUILD_TYPE STREQUAL "Release") AND NOT RS_SANITIZE
        AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    option(RS_LTO "Optimise the program as a whole (gcc)" ON)
else()
    set(RS_LTO OFF)
endif()
add_library(rs_lto INTERFACE)
if(RS_LTO)
    target_compile_options(rs_flags INTERFACE -flto=auto -ffat-lto-objects)
    target_link_options(rs_lto INTERFACE -flto=auto -O2)
endif()
