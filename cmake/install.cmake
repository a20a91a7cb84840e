# What is installed where, and the Debian package (cpack -G DEB in the build folder).
#
# One package holds the program, the small library with its header, the units of both daemons, man pages,
# completion and a settings file in which every line is commented out. The man pages and the completion are
# written by the program itself from its option tables, so they cannot say anything else than --help.
include(GNUInstallDirs)

install(TARGETS rankscope RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS rankscope_shared rankscope_static
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES collector/lib/rankscope.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# pkg-config and find_package(rankscope) for programs that link the library.
configure_file(deploy/package/rankscope.pc.in ${PROJECT_BINARY_DIR}/package/rankscope.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/rankscope.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
include(CMakePackageConfigHelpers)
configure_package_config_file(deploy/package/rankscope-config.cmake.in
    ${PROJECT_BINARY_DIR}/package/rankscope-config.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rankscope
    PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/rankscope-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/rankscope-config.cmake
    ${PROJECT_BINARY_DIR}/package/rankscope-config-version.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rankscope)

# At install time, so that no other build waits for it. A cross build runs its own program under
# CMAKE_CROSSCOMPILING_EMULATOR (qemu-user). Installations of one build folder that run at the same time take turns until the end
# of each (a package's parts are installed by one process, which has its turn already).
set(generated_texts ${PROJECT_BINARY_DIR}/package/texts)
install(CODE "
    file(LOCK \"${generated_texts}.lock\" GUARD PROCESS TIMEOUT 600 RESULT_VARIABLE its_turn)
    file(REMOVE_RECURSE \"${generated_texts}\")
    execute_process(COMMAND ${CMAKE_COMMAND} -E env RANKSCOPE_CONFIG= ${CMAKE_CROSSCOMPILING_EMULATOR} \"$<TARGET_FILE:rankscope>\" completion --all \"${generated_texts}\"
        COMMAND_ERROR_IS_FATAL ANY)")
install(DIRECTORY ${generated_texts}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
install(FILES ${generated_texts}/rankscope.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME rankscope)
install(FILES ${generated_texts}/rankscope.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _rankscope)
install(FILES ${generated_texts}/rankscope.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
# The program reads /etc/rankscope and the user's folder, wherever it is installed itself.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    install(FILES ${generated_texts}/rankscope.conf DESTINATION /etc/rankscope)
else()
    install(FILES ${generated_texts}/rankscope.conf DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
endif()
install(FILES README.md CHANGELOG.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES deploy/package/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})

foreach(daemon aggregator collector)
    configure_file(deploy/systemd/rankscope-${daemon}.service ${PROJECT_BINARY_DIR}/package/rankscope-${daemon}.service @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/package/rankscope-${daemon}.service DESTINATION lib/systemd/system)
endforeach()
install(PROGRAMS deploy/slurm/prolog.sh deploy/slurm/epilog.sh deploy/slurm/task-prolog.sh DESTINATION share/rankscope/slurm)
# `rankscope run` finds it there, and in a build folder.
install(FILES deploy/kineto/libkineto.conf DESTINATION share/rankscope)
configure_file(deploy/kineto/libkineto.conf ${PROJECT_BINARY_DIR}/share/rankscope/libkineto.conf COPYONLY)
install(FILES deploy/slurm/rankscope.env DESTINATION share/rankscope/slurm)
install(FILES deploy/systemd/rankscope.tmpfiles DESTINATION lib/tmpfiles.d RENAME rankscope.conf)
install(FILES deploy/systemd/rankscope.sysusers DESTINATION lib/sysusers.d RENAME rankscope.conf)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME rankscope)
set(CPACK_PACKAGE_VENDOR "The Rankscope maintainers")
set(CPACK_PACKAGE_CONTACT "The Rankscope maintainers <maintainers@rankscope.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "profiles all ranks of a training job and names who holds them up")
set(CPACK_PACKAGE_DESCRIPTION "A collector on every node triggers and reads profiles of unmodified PyTorch, torch_npu,
MindSpore and native programs, reduces them and streams them to an aggregator, which joins the ranks and
writes tables and a report that names the culprit and says how sure it is. The same works offline on trace files.")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# What is opened late is not seen by it.
foreach(file ${RS_GRPC_FILE} ${RS_CURL_FILE} ${RS_MICROHTTPD_FILE} ${RS_GNUTLS_FILE})
    file(REAL_PATH ${file} real)
    execute_process(COMMAND dpkg-query -S ${real} OUTPUT_VARIABLE package ERROR_QUIET RESULT_VARIABLE unknown)
    if(package MATCHES "^([^:]+):")
        list(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ${CMAKE_MATCH_1})
    endif()
endforeach()
list(JOIN CPACK_DEBIAN_PACKAGE_DEPENDS ", " CPACK_DEBIAN_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "procps")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/deploy/package/conffiles ${PROJECT_SOURCE_DIR}/deploy/package/postinst
    ${PROJECT_SOURCE_DIR}/deploy/package/prerm ${PROJECT_SOURCE_DIR}/deploy/package/postrm)
include(CPack)
