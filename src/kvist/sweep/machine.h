// The machine a run was measured on.
#pragma once

#include <map>
#include <string>

namespace kvist::sweep {

/// processor, cores, memory, kernel; what cannot be read is left out.
[[nodiscard]] std::map<std::string, std::string> describe_machine();

/// Seconds of processor time that the calling thread has used: what work costs, whoever else uses the machine.
[[nodiscard]] double thread_cpu_seconds();

}  // namespace kvist::sweep
