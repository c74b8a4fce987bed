# kvist_test_program(NAME LIBRARIES target... SOURCES source...): a program of GoogleTest with what all test programs share: the
# tests' folder, definitions, options and one precompiled header of what is slow to read and never changes. A test still includes
# what it needs; the header only makes that quick. A compiler takes it where options and definitions are the same, so they are said
# here and nowhere else; where they differ, the build fails (-Winvalid-pch). KVIST_PRECOMPILED=OFF builds without it.
function(kvist_test_program NAME)
  cmake_parse_arguments(ARG "" "" "LIBRARIES;SOURCES" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  target_link_libraries(${NAME} PRIVATE ${ARG_LIBRARIES})
  kvist_test_settings(${NAME})
  if(NOT KVIST_PRECOMPILED)
    return()
  endif()
  if(NOT TARGET kvist_test_header)
    set(source "${CMAKE_BINARY_DIR}/kvist_test_header.cc")
    file(CONFIGURE OUTPUT "${source}" CONTENT "// Made by cmake/KvistTestProgram.cmake: a precompiled header needs a target.\n")
    add_library(kvist_test_header OBJECT "${source}")
    kvist_test_settings(kvist_test_header)
    target_precompile_headers(kvist_test_header PRIVATE
      <algorithm> <array> <chrono> <cmath> <cstdint> <expected> <filesystem> <fstream> <functional> <map> <memory> <optional> <set>
      <span> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector> <fmt/format.h> <gmock/gmock.h>
      <gtest/gtest.h>)
  endif()
  target_precompile_headers(${NAME} REUSE_FROM kvist_test_header)
endfunction()

function(kvist_test_settings TARGET)
  # Tests look into JSON freely. simdjson's headers are inline code whose layout depends on its definitions: the modules and the
  # tests must agree.
  target_link_libraries(${TARGET} PRIVATE kvist_compiler GTest::gmock GTest::gtest_main simdjson::simdjson)
  target_include_directories(${TARGET} PRIVATE "${CMAKE_SOURCE_DIR}/tests")
  target_compile_definitions(${TARGET} PRIVATE KVIST_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_compile_options(${TARGET} PRIVATE ${KVIST_TEST_OPTIONS})
  if(KVIST_PRECOMPILED AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # What came out of a precompiled header GCC 12 no longer counts as a system's: these warn of std::string.
    target_compile_options(${TARGET} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
    if(KVIST_CCACHE)
      target_compile_options(${TARGET} PRIVATE -fpch-preprocess)  # tells ccache which precompiled header was used
    endif()
  endif()
endfunction()
