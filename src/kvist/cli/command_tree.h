// The commands and their options as plain values, from which the manual page and shell completions are made.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::cli {

struct CommandOption {
  std::vector<std::string> names = {};  ///< "-f", "--file"; of a positional argument its one name, "database"
  std::string description = {};
  bool positional = false;
  bool takes_value = false;  ///< always true for a positional argument
  bool required = false;
};

struct Command {
  std::string name = {};
  std::string description = {};
  std::vector<CommandOption> options = {};
  std::vector<Command> commands = {};  ///< its subcommands
};

/// kvist(1) as troff.
[[nodiscard]] std::string man_page(const Command& program, std::string_view version);

/// A script that completes commands, options and file names. `shell`: bash, zsh or fish; kInvalidArgument for another.
[[nodiscard]] Result<std::string> completion(const Command& program, std::string_view shell);

}  // namespace kvist::cli
