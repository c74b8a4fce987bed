include(KvistPrecompiled)
include(KvistTestProgram)

# kvist_module(NAME [OWN_OPTIONS] [FOLDERS folder...] [DEPENDS module...] [TEST_DEPENDS module...] [LIBRARIES target...])
#
# Declares the folder src/kvist/NAME as a module: one static library `kvist_NAME` of all its *.cc files (a folder without any
# becomes an interface library), and, where tests/NAME holds *_test.cc files, one test program `NAME_test`.
#   OWN_OPTIONS  it is compiled with options that the others do not have, so without their precompiled header
#   FOLDERS    folders inside of it whose sources, and tests, are the module's too
#   DEPENDS    the modules it may include; tests/architecture checks every #include against this list and against the layers
#   TEST_DEPENDS  further modules that its tests need, of any layer
#   LIBRARIES  libraries from outside, private to the module
function(kvist_module NAME)
  cmake_parse_arguments(ARG "OWN_OPTIONS" "" "FOLDERS;DEPENDS;TEST_DEPENDS;LIBRARIES" ${ARGN})
  string(REPLACE "/" "_" id "${NAME}")
  set(target "kvist_${id}")

  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/kvist/${NAME}/*.cc")
  foreach(folder IN LISTS ARG_FOLDERS)
    file(GLOB more CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/kvist/${NAME}/${folder}/*.cc")
    list(APPEND sources ${more})
  endforeach()
  set(dependencies "")
  foreach(dependency IN LISTS ARG_DEPENDS)
    string(REPLACE "/" "_" dependency_id "${dependency}")
    list(APPEND dependencies "kvist_${dependency_id}")
  endforeach()

  if(sources)
    add_library(${target} STATIC ${sources})
    if(NOT ARG_OWN_OPTIONS)
      kvist_compile_together(${target})
    endif()
    target_link_libraries(${target} PUBLIC kvist_compiler ${dependencies} PRIVATE ${ARG_LIBRARIES})
    # The header contains fmt, whose definitions a module without it lacks.
    if(KVIST_PRECOMPILED AND "fmt::fmt" IN_LIST ARG_LIBRARIES AND NOT ARG_OWN_OPTIONS)
      if(NOT TARGET kvist_module_header)
        kvist_precompiled_header(kvist_module_header LIBRARIES fmt::fmt HEADERS ${KVIST_PRECOMPILED_HEADERS})
      endif()
      kvist_precompiled_options(${target})
      target_precompile_headers(${target} REUSE_FROM kvist_module_header)
    endif()
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE kvist_compiler ${dependencies} ${ARG_LIBRARIES})
  endif()

  if(KVIST_BUILD_TESTS)
    file(GLOB tests CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/${NAME}/*_test.cc")
    foreach(folder IN LISTS ARG_FOLDERS)
      file(GLOB more CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/${NAME}/${folder}/*_test.cc")
      list(APPEND tests ${more})
    endforeach()
    if(tests)
      set(libraries ${target})
      foreach(dependency IN LISTS ARG_TEST_DEPENDS)
        string(REPLACE "/" "_" dependency_id "${dependency}")
        list(APPEND libraries "kvist_${dependency_id}")
      endforeach()
      kvist_test_program(${id}_test LIBRARIES ${libraries} SOURCES ${tests})
      include(GoogleTest)
      math(EXPR timeout "300 * ${KVIST_TIMEOUT_FACTOR}")
      gtest_discover_tests(${id}_test DISCOVERY_MODE PRE_TEST PROPERTIES LABELS ${id} TIMEOUT ${timeout})
    endif()
  endif()
endfunction()
