// Lines for the user.
#pragma once

#include <string_view>

namespace kvist::cli {

/// One line on standard output, at once: it may be a pipe that somebody waits on.
void print_line(std::string_view line);

}  // namespace kvist::cli
