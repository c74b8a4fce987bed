# kvist_embed(TARGET DIRECTORY): puts every *.yaml below DIRECTORY into TARGET as text. The source it writes defines
# kvist::perfmodel::embedded_profiles(). A changed or added file makes the next build reconfigure.
function(kvist_embed TARGET DIRECTORY)
  file(GLOB_RECURSE paths CONFIGURE_DEPENDS "${DIRECTORY}/*.yaml")
  list(SORT paths)
  list(LENGTH paths count)
  set(entries "")
  foreach(path IN LISTS paths)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
    file(READ "${path}" text)
    file(RELATIVE_PATH name "${DIRECTORY}" "${path}")
    string(APPEND entries "    EmbeddedFile{\"${name}\", R\"kvist_embed(${text})kvist_embed\"},\n")
  endforeach()
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${TARGET}_embedded.cc")
  # Written only if the content changed.
  file(CONFIGURE OUTPUT "${source}" CONTENT "// Made by cmake/KvistEmbed.cmake from data/profiles.
#include <array>

#include \"kvist/perfmodel/profile_library.h\"

namespace kvist::perfmodel {
namespace {

constexpr std::array<EmbeddedFile, ${count}> kFiles = {
${entries}};

}  // namespace

std::span<const EmbeddedFile> embedded_profiles() {
  return kFiles;
}

}  // namespace kvist::perfmodel
" @ONLY)
  target_sources(${TARGET} PRIVATE "${source}")
endfunction()
