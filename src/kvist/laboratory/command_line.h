// The program kvist-laboratory.
#pragma once

namespace kvist::laboratory {

/// `kvist-laboratory experiments --results DIR`, `kvist-laboratory routing --results DIR`. Writes its results to
/// standard output and errors to standard error. Returns the exit status: 0, 1 if the command failed, 2 for wrong
/// usage.
[[nodiscard]] int run(int argc, const char* const* argv);

}  // namespace kvist::laboratory
