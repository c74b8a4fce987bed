#include "kvist/laboratory/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <string>

#include "kvist/base/input_file.h"
#include "kvist/base/output_file.h"
#include "kvist/base/version.h"
#include "kvist/laboratory/experiments.h"
#include "kvist/laboratory/plot_sheet.h"

namespace kvist::laboratory {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

template <class Outcome>
void print_outcome(const Outcome& outcome, const std::string& document) {
  fmt::print("{}\n{} bars met, {} missed, {} open: {}\n", outcome.table, outcome.met, outcome.missed, outcome.open,
             document);
}

/// The commands; a parsed one sets `action`.
class CommandLine {
 public:
  CommandLine() {
    app_.set_version_flag("--version", "kvist-laboratory " + std::string(kVersion));
    app_.require_subcommand(1);
    add_experiments();
    add_plots();
  }

  void parse(int argc, const char* const* argv) { app_.parse(argc, argv); }
  [[nodiscard]] int explain(const CLI::ParseError& error) const { return app_.exit(error); }
  [[nodiscard]] Result<void> act() const { return action_(); }
  [[nodiscard]] std::string command() const { return app_.get_subcommands().front()->get_name(); }

 private:
  void add_experiments() {
    CLI::App* command = app_.add_subcommand("experiments", "all published experiments beside their simulated runs");
    ExperimentsOptions& o = experiments_;
    command->add_option("--results", o.results, "folder that scripts/run-experiments has filled")->required();
    command->add_option("--manifest", o.manifest, "list of experiments")->capture_default_str();
    command->add_option("--references", o.references, "folder of published figures")->capture_default_str();
    command->add_option("--document", o.document, "Markdown file to write")->capture_default_str();
    command->add_option("--images", o.images, "folder for its plots")->capture_default_str();
    command->callback([this] {
      action_ = [this]() -> Result<void> {
        KVIST_TRY(const ExperimentsOutcome outcome, write_experiments(experiments_));
        print_outcome(outcome, experiments_.document);
        return {};
      };
    });
  }

  void add_plots() {
    CLI::App* command = app_.add_subcommand("plots", "plots that are described as JSON, as one SVG");
    command->add_option("data", plots_.data, "JSON (laboratory/plot_sheet.h)")->required();
    command->add_option("-o,--output", plots_.output, "SVG file to write")->required();
    command->callback([this] {
      action_ = [this]() -> Result<void> {
        constexpr std::uint64_t kMostBytes = 256UL << 20;
        KVIST_TRY(const std::string json, read_file(plots_.data, kMostBytes));
        KVIST_TRY(const std::string svg, plot_sheet(json));
        KVIST_TRY_VOID(write_file(plots_.output, svg));
        return {};
      };
    });
  }

  CLI::App app_{"kvist's own laboratory: published experiments held against their bars, and plots for its scripts",
                "kvist-laboratory"};
  std::function<Result<void>()> action_;
  ExperimentsOptions experiments_;
  struct {
    std::string data;
    std::string output;
  } plots_;
};

}  // namespace

int run(int argc, const char* const* argv) {
  CommandLine line;
  try {
    line.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return line.explain(error) == 0 ? kDone : kWrongUsage;
  }
  const Result<void> done = line.act();
  if (done) return kDone;
  fmt::print(stderr, "kvist-laboratory {}: {}\n", line.command(), done.error().message);
  return kFailed;
}

}  // namespace kvist::laboratory
