// The program kvist-laboratory.
#pragma once

namespace kvist::laboratory {

/// `kvist-laboratory experiments --results DIR`, `kvist-laboratory routing --results DIR`. Writes what it made to
/// standard output and errors to standard error. The exit status: 0, 1 where the command failed, 2 for wrong usage.
[[nodiscard]] int run(int argc, const char* const* argv);

}  // namespace kvist::laboratory
