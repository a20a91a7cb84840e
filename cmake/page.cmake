# The page (dashboards/web) inside the program, and the script of report.html out of the same sources: built with npm where it is
# there, else left out, and the build says so (report.html is then the report as text, with one picture).
# Nothing is written among the sources: npm works on a copy in the build folder.
set(RS_PAGE AUTO CACHE STRING "The page: ON, OFF, or AUTO (where npm is there and can fetch what the lock file names)")
set_property(CACHE RS_PAGE PROPERTY STRINGS AUTO ON OFF)

set(page_generated ${PROJECT_BINARY_DIR}/generated/page/page_files.c)
set(report_generated ${PROJECT_BINARY_DIR}/generated/page/report_script.c)
set(page_mode ${RS_PAGE})
if(NOT RS_PAGE STREQUAL OFF)
    find_program(RS_NPM npm)
    find_program(RS_NODE NAMES node nodejs)
    if(NOT RS_NPM OR NOT RS_NODE)
        if(RS_PAGE STREQUAL ON)
            message(FATAL_ERROR "RS_PAGE=ON needs node (18 or newer) and npm")
        endif()
        message(STATUS "The page is left out, and so are the pictures of report.html: there is no npm (RS_PAGE=ON insists on it)")
        set(page_mode OFF)
    endif()
endif()
file(GLOB_RECURSE page_sources CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/dashboards/web/src/*.ts ${PROJECT_SOURCE_DIR}/dashboards/web/src/*.css
    ${PROJECT_SOURCE_DIR}/dashboards/web/public/*)
foreach(name index.html package.json package-lock.json tsconfig.json vite.config.ts vite.report.config.ts)
    list(APPEND page_sources ${PROJECT_SOURCE_DIR}/dashboards/web/${name})
endforeach()
add_custom_command(
    OUTPUT ${page_generated} ${report_generated}
    COMMAND ${CMAKE_COMMAND} -DMODE=${page_mode} -DNPM=${RS_NPM} -DSOURCE=${PROJECT_SOURCE_DIR}/dashboards/web
        -DWORK=${PROJECT_BINARY_DIR}/page -DOUTPUT=${page_generated} -DREPORT=${report_generated} -P ${PROJECT_SOURCE_DIR}/cmake/page_build.cmake
    DEPENDS ${page_sources} ${PROJECT_SOURCE_DIR}/cmake/page_build.cmake
    COMMENT "The page (RS_PAGE=${page_mode})" VERBATIM)
# One command for two rooms: neither may begin it while the other's is under way.
add_custom_target(page_files DEPENDS ${page_generated} ${report_generated})
foreach(room aggregator_http aggregator_output)
    add_dependencies(rs_${room} page_files)
endforeach()
target_sources(rs_aggregator_http PRIVATE ${page_generated})
target_sources(rs_aggregator_output PRIVATE ${report_generated})
