// The options of `kvist plan` and `kvist what-if`.
#pragma once

#include "kvist/cli/action.h"
#include "kvist/cli/commands.h"

namespace CLI {
class App;
}

namespace kvist::cli {

/// Owns the arguments of the commands that predict, which the parser fills. Invariant: it stays where it is while the
/// parser and its action are used.
class PlanCommandLine {
 public:
  /// Adds the commands; one of them that is parsed sets `action`.
  void add_to(CLI::App& app, Action& action);

 private:
  void add_plan(CLI::App& app, Action& action);
  void add_profiles(CLI::App& command, Action& action);
  void add_capacity(CLI::App& command, Action& action);
  void add_what_if(CLI::App& app, Action& action);

  PlanProfilesArguments profiles_;
  PlanCapacityArguments capacity_;
  PlanMemoryArguments memory_;
  WhatIfArguments what_if_;
};

}  // namespace kvist::cli
