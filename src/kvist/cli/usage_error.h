// What is said of a wrong command line: what was not understood, and what may have been meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvist/cli/command_tree.h"

namespace kvist::cli {

/// `at`: the command as far as it was understood, `typed` what the user typed of it ("kvist report check").
/// `unexpected`: arguments that it does not take; if there are any, the first is what is wrong, otherwise what
/// `message` says.
[[nodiscard]] std::string usage_error(const Command& at, std::string_view typed, std::string_view message,
                                      const std::vector<std::string>& unexpected);

/// Whether these names lead to a command, as `report check` does; an error names the one that there is not.
[[nodiscard]] Result<void> check_command(const Command& program, const std::vector<std::string>& names);

}  // namespace kvist::cli
