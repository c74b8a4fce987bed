# Language level, warnings, sanitizers and the compiler cache, in one interface target every module links: kvist_compiler.

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

find_program(KVIST_CCACHE ccache)
if(KVIST_CCACHE)
  # Without the directory hash, builds in different folders share the cache. The sloppiness is what precompiled headers need: that
  # no macro defined before them, and none of __DATE__ and __TIME__, changes what they mean.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_NOHASHDIR=true;CCACHE_SLOPPINESS=pch_defines,time_macros;${KVIST_CCACHE}")
endif()

add_library(kvist_compiler INTERFACE)
target_compile_options(kvist_compiler INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual -Werror
  -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports false positives of these two inside libstdc++ at -O2.
  target_compile_options(kvist_compiler INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
  # GCC collects garbage from 128 MiB on, again and again where twenty sources are one; from 512 MiB on compiling takes a tenth less
  # time, for a quarter more memory (1.6 GiB in the largest step).
  target_compile_options(kvist_compiler INTERFACE "SHELL:--param ggc-min-heapsize=524288")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++'s stable_sort calls get_temporary_buffer, which libstdc++ deprecates.
  target_compile_options(kvist_compiler INTERFACE -Wno-deprecated-declarations)
endif()
target_include_directories(kvist_compiler INTERFACE "${CMAKE_SOURCE_DIR}/src")
target_compile_definitions(kvist_compiler INTERFACE
  BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED BOOST_BEAST_SEPARATE_COMPILATION
  SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL)

# Some ninety programs are linked from the same static libraries: mold takes a fraction of the time of GNU ld. Builds without it
# are the same, but slower.
find_program(KVIST_MOLD mold)
if(KVIST_MOLD AND NOT CMAKE_CROSSCOMPILING AND NOT KVIST_LIBFUZZER)
  target_link_options(kvist_compiler INTERFACE -fuse-ld=mold)
endif()

# kvist_compile_together(TARGET): KVIST_TOGETHER of its sources are one translation unit; those with options of their own stay alone.
# So names in anonymous namespaces have to be unique in a module; each file of tests has a namespace of its own, called like the file.
function(kvist_compile_together TARGET)
  if(KVIST_TOGETHER GREATER 1)
    set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${KVIST_TOGETHER})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # It takes a source that is included for a header, whose types should not use anonymous namespaces.
      target_compile_options(${TARGET} PRIVATE -Wno-subobject-linkage)
    endif()
  endif()
endfunction()

if(KVIST_SANITIZE)
  target_compile_options(kvist_compiler INTERFACE -fsanitize=${KVIST_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(kvist_compiler INTERFACE -fsanitize=${KVIST_SANITIZE})
  if(KVIST_SANITIZE MATCHES "thread")
    # The thread sanitizer of g++ does not understand stand-alone fences.
    target_compile_definitions(kvist_compiler INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
    target_compile_options(kvist_compiler INTERFACE -Wno-tsan)
  endif()
endif()
