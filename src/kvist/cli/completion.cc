#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "kvist/cli/command_tree.h"

namespace kvist::cli {
namespace {

/// Calls the function with each command and its path ("kvist report compare"), the program first.
void for_each_command(const Command& command, const std::string& path,
                      const std::function<void(const std::string&, const Command&)>& visit) {
  visit(path, command);
  for (const Command& next : command.commands) for_each_command(next, path + " " + next.name, visit);
}

/// Text within single quotes. For a quote in it, bash and zsh have to end them, fish uses a backslash.
std::string quoted(std::string_view text, std::string_view quote) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += quote;
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string option_names(const Command& command, bool with_value_only) {
  std::string names;
  for (const CommandOption& option : command.options) {
    if (option.positional || (with_value_only && !option.takes_value)) continue;
    for (const std::string& name : option.names) names += (names.empty() ? "" : " ") + name;
  }
  return names;
}

std::string command_names(const Command& command) {
  std::string names;
  for (const Command& next : command.commands) names += (names.empty() ? "" : " ") + next.name;
  return names;
}

std::string bash_completion(const Command& program) {
  std::string paths;
  std::string cases;
  for_each_command(program, program.name, [&](const std::string& path, const Command& command) {
    if (path != program.name) paths += (paths.empty() ? "" : " | ") + quoted(path, "");
    fmt::format_to(std::back_inserter(cases),
                   "    '{}')\n      commands='{}'\n      options='{}'\n      values='{}'\n      ;;\n", path,
                   command_names(command), option_names(command, false), option_names(command, true));
  });
  return fmt::format(R"(# bash completion for {0}, made by `{0} completion bash`.
_{0}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
  local path={0} word commands options values
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path $word" in
      {1}) path="$path $word" ;;
    esac
  done
  case $path in
{2}  esac
  COMPREPLY=()
  if [[ -n $previous && " $values " != *" $previous "* ]]; then
    if [[ $current == -* ]]; then
      mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
      return
    fi
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
    [[ ${{#COMPREPLY[@]}} -gt 0 ]] && return
  fi
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$current")
}}
complete -F _{0} {0}
)",
                     program.name, paths, cases);
}

/// A description for zsh's _arguments, where brackets and colons have a meaning.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

constexpr std::string_view kShellQuote = R"('\'')";

enum class Positionals : bool { kLeaveOut, kGive };

std::string zsh_arguments(const Command& command, Positionals positionals) {
  std::string out;
  for (const CommandOption& option : command.options) {
    if (option.positional && positionals == Positionals::kLeaveOut) continue;
    const std::string value = option.takes_value ? ":value:_files" : "";
    const std::string description = zsh_text(option.description);
    if (option.positional) {
      out += " \\\n    " + quoted(fmt::format("*:{}:_files", description), kShellQuote);
      continue;
    }
    for (const std::string& name : option.names) {
      out += " \\\n    " + quoted(fmt::format("*{}[{}]{}", name, description, value), kShellQuote);
    }
  }
  return out;
}

std::string zsh_function_name(std::string path) {
  for (char& c : path) c = c == ' ' || c == '-' ? '_' : c;
  return "_" + path;
}

std::string zsh_completion(const Command& program) {
  std::string functions;
  for_each_command(program, program.name, [&](const std::string& path, const Command& command) {
    auto to = std::back_inserter(functions);
    fmt::format_to(to, "{}() {{\n", zsh_function_name(path));
    if (command.commands.empty()) {
      fmt::format_to(to, "  _arguments -s{}\n}}\n", zsh_arguments(command, Positionals::kGive));
      return;
    }
    fmt::format_to(to, "  local context state state_descr line\n  typeset -A opt_args\n  local -a commands=(");
    std::string cases;
    const bool takes_files = std::ranges::any_of(command.options, &CommandOption::positional);
    for (const Command& next : command.commands) {
      fmt::format_to(to, "\n    {}", quoted(next.name + ":" + zsh_text(next.description), kShellQuote));
      fmt::format_to(std::back_inserter(cases), "        {}) {} ;;\n", next.name,
                     zsh_function_name(path + " " + next.name));
    }
    fmt::format_to(to,
                   "\n  )\n  _arguments -C{} \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n"
                   "  case $state in\n    command)\n      _describe command commands\n{}      ;;\n"
                   "    argument)\n      case $line[1] in\n{}      esac\n      ;;\n  esac\n}}\n",
                   zsh_arguments(command, Positionals::kLeaveOut), takes_files ? "      _files\n" : "", cases);
  });
  return fmt::format("#compdef {0}\n# zsh completion for {0}, made by `{0} completion zsh`.\n{1}_{0} \"$@\"\n",
                     program.name, functions);
}

std::string fish_completion(const Command& program) {
  constexpr std::string_view kQuote = R"(\')";
  std::string paths;
  std::string lines;
  for_each_command(program, program.name, [&](const std::string& path, const Command& command) {
    if (path != program.name) paths += " '" + path + "'";
    const std::string at = fmt::format("complete -c {} -n \"__{}_at '{}'\"", program.name, program.name, path);
    for (const Command& next : command.commands) {
      lines += fmt::format("{} -f -a {} -d {}\n", at, next.name, quoted(next.description, kQuote));
    }
    for (const CommandOption& option : command.options) {
      if (option.positional) continue;
      lines += at;
      for (const std::string& name : option.names)
        lines += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      lines += fmt::format("{} -d {}\n", option.takes_value ? " -r -F" : "", quoted(option.description, kQuote));
    }
  });
  return fmt::format(R"(# fish completion for {0}, made by `{0} completion fish`.
function __{0}_at
    set -l path {0}
    for word in (commandline -opc)[2..-1]
        contains -- "$path $word"{1}; and set path "$path $word"
    end
    test "$path" = "$argv[1]"
end
{2})",
                     program.name, paths, lines);
}

}  // namespace

Result<std::string> completion(const Command& program, std::string_view shell) {
  if (shell == "bash") return bash_completion(program);
  if (shell == "zsh") return zsh_completion(program);
  if (shell == "fish") return fish_completion(program);
  return fail(ErrorCode::kInvalidArgument, fmt::format("no completion for {}; known: bash, zsh, fish", shell));
}

}  // namespace kvist::cli
