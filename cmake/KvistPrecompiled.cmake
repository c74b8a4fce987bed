# What is slow to read, never changes, and is read by nearly every source: read once for all modules, and once for
# all tests. A source still includes what it needs; the precompiled header only makes that quick. Builds without it
# (KVIST_PRECOMPILED=OFF: the presets aarch64 and fuzz) show an include that is missing. A compiler takes the header where
# options and definitions are the same, so that modules and tests say them in one place each; where they differ, the build fails
# (-Winvalid-pch).
set(KVIST_PRECOMPILED_HEADERS
  <algorithm> <array> <chrono> <cmath> <cstdint> <expected> <functional> <map> <memory> <optional> <set> <span> <string> <string_view>
  <unordered_map> <utility> <variant> <vector> <fmt/format.h>)

# kvist_precompiled_header(NAME LIBRARIES target... HEADERS header...): an object library NAME whose precompiled
# header others take with target_precompile_headers(... REUSE_FROM NAME). It needs a source, which is made here.
function(kvist_precompiled_header NAME)
  cmake_parse_arguments(ARG "" "" "LIBRARIES;HEADERS" ${ARGN})
  set(source "${CMAKE_BINARY_DIR}/${NAME}.cc")
  file(CONFIGURE OUTPUT "${source}" CONTENT "// Made by cmake/KvistPrecompiled.cmake: a precompiled header needs a target.\n")
  add_library(${NAME} OBJECT "${source}")
  target_link_libraries(${NAME} PRIVATE kvist_compiler ${ARG_LIBRARIES})
  kvist_precompiled_options(${NAME})
  target_precompile_headers(${NAME} PRIVATE ${ARG_HEADERS})
endfunction()

# The options with which g++ makes and takes a precompiled header.
function(kvist_precompiled_options TARGET)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # What came out of a precompiled header GCC 12 no longer counts as a system's: these warn of std::string.
    target_compile_options(${TARGET} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
    if(KVIST_CCACHE)
      target_compile_options(${TARGET} PRIVATE -fpch-preprocess)  # tells ccache which precompiled header was used
    endif()
  endif()
endfunction()
