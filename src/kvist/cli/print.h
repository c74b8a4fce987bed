// Output for the user.
#pragma once

#include <string_view>

namespace kvist::cli {

/// Writes one line to standard output and flushes it, because it may be a pipe that somebody waits for. Control
/// characters but line breaks and tabs become spaces, so that nothing read from elsewhere commands the terminal.
void print_line(std::string_view line);

}  // namespace kvist::cli
