// The version of kvist: in `kvist --version` and in every stored run.
#pragma once

#include <string_view>

namespace kvist {

/// The same as in CMakeLists.txt (a test compares them).
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace kvist
