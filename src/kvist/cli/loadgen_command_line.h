// The options of `kvist loadgen`.
#pragma once

#include <string>
#include <utility>

#include "kvist/cli/action.h"
#include "kvist/cli/commands.h"

namespace CLI {
class App;
}

namespace kvist::cli {

/// Owns the arguments of `kvist loadgen` and of its subcommands, which the parser fills. Invariant: it stays where it
/// is while the parser and its action are used.
class LoadgenCommandLine {
 public:
  /// Adds the commands; one of them that is parsed sets `action`.
  void add_to(CLI::App& app, Action& action);
  /// What the user typed, for the record of a load.
  void set_command(std::string text) { arguments_.command = std::move(text); }

 private:
  void add_calibrate(CLI::App& command, Action& action);
  void add_reference(CLI::App& command, Action& action);
  void add_agent(CLI::App& command, Action& action);
  /// When requests are sent, and how many.
  void add_load(CLI::App& command);
  /// What requests say.
  void add_workload(CLI::App& command);

  LoadgenArguments arguments_;
  CalibrateArguments calibrate_;
  ReferenceArguments reference_;
  AgentArguments agent_;
};

/// Adds --agents, --agents-key-file and --agents-ca: machines that drive the load.
void add_agents_options(CLI::App& command, std::string& agents, std::string& key_file, std::string& ca);

/// What is wrong with the text of a whole number of 64 bits, empty if nothing: the parser would take what is below 0 or
/// beyond them for another number.
[[nodiscard]] std::string wrong_in_whole_number(const std::string& text);

}  // namespace kvist::cli
