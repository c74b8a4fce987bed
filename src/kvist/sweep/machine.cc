#include "kvist/sweep/machine.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <time.h>

#include <fstream>
#include <string_view>
#include <thread>

#include "kvist/base/check.h"

namespace kvist::sweep {
namespace {

/// The text after "key ... :" of the first line that begins with `key`.
std::string value_in(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const auto from = line.find_first_not_of(" \t", colon + 1);
    return from == std::string::npos ? "" : line.substr(from);
  }
  return "";
}

}  // namespace

std::map<std::string, std::string> describe_machine() {
  std::map<std::string, std::string> machine;
  if (auto processor = value_in("/proc/cpuinfo", "model name"); !processor.empty()) {
    machine["processor"] = std::move(processor);
  }
  if (auto memory = value_in("/proc/meminfo", "MemTotal"); !memory.empty()) machine["memory"] = std::move(memory);
  machine["cores"] = std::to_string(std::thread::hardware_concurrency());
  utsname system{};
  if (uname(&system) == 0) machine["kernel"] = fmt::format("{} {}", system.sysname, system.release);
  return machine;
}

double thread_cpu_seconds() {
  timespec used{};
  KVIST_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0, "every Linux has this clock");
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace kvist::sweep
