# librankscope as users link it (shared and static: libc only, the client's files alone), and the
# training loop of the demo. The room rs_collector_lib holds the same files and the reading side.
set(rankscope_client_sources
    collector/lib/clock.c collector/lib/connect.c collector/lib/itt.c collector/lib/metadata.c
    collector/lib/names.c collector/lib/rankscope.c collector/lib/record.c collector/lib/rings.c)

add_library(rankscope_shared SHARED ${rankscope_client_sources})
add_library(rankscope_static STATIC ${rankscope_client_sources})
foreach(target rankscope_shared rankscope_static)
    target_link_libraries(${target} PUBLIC rs_flags Threads::Threads PRIVATE rs_warnings) # glibc before 2.34: a library of its own
    set_target_properties(${target} PROPERTIES OUTPUT_NAME rankscope
        ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endforeach()
target_link_options(rankscope_shared PRIVATE
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/collector/lib/rankscope.map -Wl,-z,defs)
set_target_properties(rankscope_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/collector/lib/rankscope.map)

file(GLOB minitrain_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/deploy/demo/*.c)
if(minitrain_sources)
    add_executable(minitrain ${minitrain_sources})
    target_link_libraries(minitrain PRIVATE rankscope_static rs_flags rs_warnings m)
    target_compile_options(minitrain PRIVATE -O3) # it stands for a user's program, in every preset
    set_target_properties(minitrain PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endif()

# A sanitizer adds libraries of its own, so its builds cannot say what users will link.
if(RS_TESTS AND NOT RS_SANITIZE)
    add_test(NAME lint_lib_symbols
        COMMAND ${PROJECT_SOURCE_DIR}/tests/lint/lib_symbols.sh $<TARGET_FILE:rankscope_shared>)
    set_tests_properties(lint_lib_symbols PROPERTIES LABELS "lint")
endif()
