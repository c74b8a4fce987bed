#include <fmt/format.h>

#include <iterator>

#include "kvist/cli/command_tree.h"

namespace kvist::cli {
namespace {

/// Escapes text for troff: backslashes, hyphens that can be copied, and lines that look like a request.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (out.empty() && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\n') {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out;
}

class ManPage {
 public:
  ManPage(const Command& program, std::string_view version) : program_(program) {
    line(fmt::format(".TH KVIST 1 \"\" \"kvist {}\" \"User Commands\"", escaped(version)));
    section("NAME");
    line("kvist \\- " + escaped(program.description));
    section("SYNOPSIS");
    line(".B kvist");
    line(".I command");
    line(".RI [ options ]");
    line(".br");
    line("\\fBkvist\\fR [\\fIcommand\\fR] \\fB\\-\\-help\\fR");
    section("COMMANDS");
    for (const Command& command : program.commands) add(command, "kvist");
    add_rest();
  }

  std::string take() { return std::move(out_); }

 private:
  void line(std::string_view text) {
    out_ += text;
    out_ += '\n';
  }
  void section(std::string_view title) { line(fmt::format(".SH {}", title)); }

  // A command that only groups others, which has no options but that for help, is not listed by itself.
  void add(const Command& command, const std::string& before) {
    const std::string name = before + " " + command.name;
    bool runs_itself = command.commands.empty();
    for (const CommandOption& option : command.options) runs_itself = runs_itself || option.names.back() != "--help";
    if (runs_itself) {
      line(".SS " + escaped(name) + synopsis(command));
      line(escaped(command.description) + ".");
      for (const CommandOption& option : command.options)
        if (option.names.back() != "--help") add(option);
    }
    for (const Command& next : command.commands) add(next, name);
  }

  static std::string synopsis(const Command& command) {
    std::string text;
    for (const CommandOption& option : command.options) {
      if (!option.positional && !option.required) continue;
      const std::string argument =
          option.positional ? option.names.front() : option.names.back() + " " + value_of(option);
      text += option.required ? " " + argument : " [" + argument + "]";
    }
    return escaped(text);
  }

  static std::string value_of(const CommandOption& option) {
    return option.names.back() == "--file" ? "FILE" : "VALUE";
  }

  void add(const CommandOption& option) {
    line(".TP");
    std::string names;
    for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + name;
    if (!option.positional && option.takes_value) names += " " + value_of(option);
    line("\\fB" + escaped(names) + "\\fR");
    line(escaped(option.description) + (option.required && !option.positional ? " (required)" : ""));
  }

  void add_rest() {
    section("EXIT STATUS");
    for (const auto& [status, meaning] :
         {std::pair("0", "done"), std::pair("1", "failed; one line on standard error has the reason"),
          std::pair("2", "wrong usage")}) {
      line(".TP");
      line(status);
      line(meaning);
    }
    section("ENVIRONMENT");
    line(".TP");
    line("\\fBKVIST_ROUTER_MODE\\fR, \\fBDYN_ROUTER_MODE\\fR");
    line("routing mode of \\fBkvist gateway\\fR, instead of its file's");
    section("FILES");
    line(escaped(
        "What YAML files mean is described in the examples that are installed beside kvist, in share/kvist/examples."));
  }

  const Command& program_;
  std::string out_;
};

}  // namespace

std::string man_page(const Command& program, std::string_view version) {
  return ManPage(program, version).take();
}

}  // namespace kvist::cli
