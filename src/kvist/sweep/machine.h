// The machine on which a run was measured.
#pragma once

#include <map>
#include <string>

namespace kvist::sweep {

/// Processor, cores, memory, kernel. Values that cannot be read are left out.
[[nodiscard]] std::map<std::string, std::string> describe_machine();

/// The processor time of the calling thread in seconds, which does not depend on other load on the machine.
[[nodiscard]] double thread_cpu_seconds();

}  // namespace kvist::sweep
