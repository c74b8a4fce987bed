// The machine a run was measured on.
#pragma once

#include <map>
#include <string>

namespace kvist::sweep {

/// processor, cores, memory, kernel; what cannot be read is left out.
[[nodiscard]] std::map<std::string, std::string> describe_machine();

}  // namespace kvist::sweep
