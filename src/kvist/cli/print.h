// Output for the user.
#pragma once

#include <string_view>

namespace kvist::cli {

/// Writes one line to standard output and flushes it, because it may be a pipe that somebody waits for.
void print_line(std::string_view line);

}  // namespace kvist::cli
