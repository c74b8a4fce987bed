// The command line.
#pragma once

namespace kvist::cli {

/// Runs `kvist <command> ...` and returns the exit status: 0 done, 1 failed (the reason is on standard error), 2 wrong
/// usage.
[[nodiscard]] int run(int argc, char** argv);

}  // namespace kvist::cli
