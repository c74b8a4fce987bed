# kvist_dashboard_page(TARGET): builds the dashboard's page (web/) with npm and makes its files part of TARGET. The source that it
# writes defines kvist::dashboard::assets(). Without KVIST_DASHBOARD_PAGE the page only says that this build has none.
function(kvist_dashboard_page TARGET)
  set(web "${CMAKE_SOURCE_DIR}/web")
  set(work "${CMAKE_BINARY_DIR}/web")
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${TARGET}_assets.cc")
  set(script "${CMAKE_SOURCE_DIR}/cmake/embed_page.py")
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  if(NOT KVIST_DASHBOARD_PAGE)
    add_custom_command(OUTPUT "${source}" COMMAND Python3::Interpreter "${script}" --none "${source}" DEPENDS "${script}" VERBATIM)
    target_sources(${TARGET} PRIVATE "${source}")
    return()
  endif()
  find_program(KVIST_NPM npm)
  if(NOT KVIST_NPM)
    message(FATAL_ERROR "npm is missing, which builds the dashboard's page: scripts/install-dependencies installs it; "
                        "-DKVIST_DASHBOARD_PAGE=OFF builds kvist without the page")
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${web}/src/*")
  set(packages "${web}/package.json" "${web}/package-lock.json")
  # In a folder of this build, so that several builds do not disturb each other.
  add_custom_command(OUTPUT "${work}/installed"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${work}"
    COMMAND "${CMAKE_COMMAND}" -E copy ${packages} "${work}"
    COMMAND "${KVIST_NPM}" --prefix "${work}" ci --no-audit --no-fund --loglevel error
    COMMAND "${CMAKE_COMMAND}" -E touch "${work}/installed"
    DEPENDS ${packages} COMMENT "npm ci for the dashboard's page" VERBATIM)
  add_custom_command(OUTPUT "${source}"
    COMMAND "${CMAKE_COMMAND}" -E rm -rf "${work}/src"
    COMMAND "${CMAKE_COMMAND}" -E copy_directory "${web}/src" "${work}/src"
    COMMAND "${CMAKE_COMMAND}" -E copy "${web}/build.mjs" "${web}/tsconfig.json" "${work}"
    COMMAND "${KVIST_NPM}" --prefix "${work}" run --silent build
    COMMAND Python3::Interpreter "${script}" "${work}/dist" "${source}"
    DEPENDS "${work}/installed" ${sources} "${web}/build.mjs" "${web}/tsconfig.json" "${script}"
    COMMENT "Building the dashboard's page" VERBATIM)
  target_sources(${TARGET} PRIVATE "${source}")
endfunction()
