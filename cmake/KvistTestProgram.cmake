include(KvistPrecompiled)

# kvist_test_program(NAME LIBRARIES target... SOURCES source...): a program of GoogleTest with what all test programs share: the
# tests' folder, definitions, options, one precompiled header and a temporary folder of its own.
function(kvist_test_program NAME)
  cmake_parse_arguments(ARG "" "" "LIBRARIES;SOURCES" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  kvist_compile_together(${NAME})
  if(NOT TARGET kvist_test_temporary_folder)
    add_library(kvist_test_temporary_folder OBJECT "${CMAKE_SOURCE_DIR}/tests/temporary_folder.cc")
    target_link_libraries(kvist_test_temporary_folder PRIVATE kvist_compiler)
  endif()
  target_link_libraries(${NAME} PRIVATE ${ARG_LIBRARIES} kvist_test_temporary_folder)
  kvist_test_settings(${NAME})
  if(NOT KVIST_PRECOMPILED)
    return()
  endif()
  if(NOT TARGET kvist_test_header)
    kvist_precompiled_header(kvist_test_header
                             HEADERS ${KVIST_PRECOMPILED_HEADERS} <filesystem> <fstream> <thread> <gmock/gmock.h> <gtest/gtest.h>)
    kvist_test_settings(kvist_test_header)
  endif()
  kvist_precompiled_options(${NAME})
  target_precompile_headers(${NAME} REUSE_FROM kvist_test_header)
endfunction()

function(kvist_test_settings TARGET)
  # Tests look into JSON freely. simdjson's headers are inline code whose layout depends on its definitions: the modules and the
  # tests must agree, so without the checks that it has by default where nothing is optimised.
  target_link_libraries(${TARGET} PRIVATE kvist_compiler GTest::gmock GTest::gtest_main simdjson::simdjson)
  target_include_directories(${TARGET} PRIVATE "${CMAKE_SOURCE_DIR}/tests")
  target_compile_definitions(${TARGET} PRIVATE KVIST_SOURCE_DIR="${CMAKE_SOURCE_DIR}" SIMDJSON_DEVELOPMENT_CHECKS=0)
  target_compile_options(${TARGET} PRIVATE ${KVIST_TEST_OPTIONS})
endfunction()
