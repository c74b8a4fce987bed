#include "kvist/sweep/output_folder.h"

#include <fmt/format.h>

#include <filesystem>

#include "kvist/base/version.h"
#include "kvist/net/time_of_day.h"
#include "kvist/sweep/machine.h"

namespace kvist::sweep {

Result<std::string> make_output_folder(const std::string& parent, const std::string& name) {
  const std::string base = (std::filesystem::path(parent) / fmt::format("{}-{}", name, net::utc_stamp())).string();
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  constexpr int kMostTries = 100;
  for (int i = 1; i <= kMostTries && !error; ++i) {
    std::string path = i == 1 ? base : fmt::format("{}-{}", base, i);
    if (std::filesystem::create_directory(path, error)) return path;
  }
  return fail(ErrorCode::kInternal,
              fmt::format("cannot make {}: {}", base, error ? error.message() : "it exists already"));
}

results::RunRecord run_head(const spec::SweepSpec& sweep) {
  results::RunRecord run;
  run.name = sweep.name;
  run.started_utc = net::utc_now();
  run.kvist_version = kVersion;
  run.spec_yaml = spec::to_yaml(sweep);
  run.machine = describe_machine();
  return run;
}

}  // namespace kvist::sweep
