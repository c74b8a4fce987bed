#include "kvist/cli/usage_error.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kvist/base/closest_name.h"

namespace kvist::cli {
namespace {

std::vector<std::string> names_of(const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  return names;
}

std::string unknown_command(std::string_view name, const Command& parent) {
  const std::vector<std::string> known = names_of(parent.commands);
  const std::string meant = did_you_mean(name, known);
  return fmt::format("unknown command \"{}\"{} commands are: {}", name, meant.empty() ? "; the" : meant + " The",
                     fmt::join(known, ", "));
}

std::string unknown_option(std::string_view argument, const Command& at) {
  std::vector<std::string> known;
  for (const CommandOption& option : at.options) {
    if (!option.positional) known.insert(known.end(), option.names.begin(), option.names.end());
  }
  const std::string_view name = argument.substr(0, argument.find('='));  // what follows may be a secret
  return fmt::format("unknown option {}{}", name, did_you_mean(name, known));
}

std::string what_is_wrong(const Command& at, std::string_view message, const std::vector<std::string>& unexpected) {
  if (!unexpected.empty()) {
    const std::string& first = unexpected.front();
    if (first.starts_with('-')) return unknown_option(first, at);
    if (!at.commands.empty() && std::ranges::none_of(at.options, &CommandOption::positional))
      return unknown_command(first, at);
    return fmt::format("unexpected argument \"{}\"", first);
  }
  if (message == "A subcommand is required")
    return fmt::format("needs a command: {}", fmt::join(names_of(at.commands), ", "));
  return std::string(message);
}

}  // namespace

std::string usage_error(const Command& at, std::string_view typed, std::string_view message,
                        const std::vector<std::string>& unexpected) {
  return fmt::format("{}: {}\n{} --help says what there is.\n", typed, what_is_wrong(at, message, unexpected), typed);
}

Result<void> check_command(const Command& program, const std::vector<std::string>& names) {
  const Command* at = &program;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(at->commands, name, &Command::name);
    if (found == at->commands.end()) {
      return fail(ErrorCode::kInvalidArgument, at->commands.empty()
                                                   ? fmt::format("kvist {} has no commands of its own", at->name)
                                                   : unknown_command(name, *at));
    }
    at = &*found;
  }
  return {};
}

}  // namespace kvist::cli
