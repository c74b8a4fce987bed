// Parses the arguments. CLI11 takes long to compile, so only this file and those of loadgen and plan include it.
#include "kvist/cli/main.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/version.h"
#include "kvist/cli/command_tree.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/loadgen_command_line.h"
#include "kvist/cli/loadgen_options.h"
#include "kvist/cli/plan_command_line.h"
#include "kvist/cli/usage_error.h"

namespace kvist::cli {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

CommandOption option_of(const CLI::Option& option) {
  CommandOption made{.description = option.get_description(),
                     .positional = option.get_positional(),
                     .takes_value = option.get_items_expected_max() > 0,
                     .required = option.get_required()};
  if (made.positional) {
    made.names = {option.get_name(true)};
  } else {
    for (const std::string& name : option.get_snames()) made.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) made.names.push_back("--" + name);
  }
  return made;
}

Command command_of(const CLI::App& app) {
  Command made{.name = app.get_name(), .description = app.get_description()};
  for (const CLI::Option* option : app.get_options({})) made.options.push_back(option_of(*option));
  for (const CLI::App* next : app.get_subcommands({})) made.commands.push_back(command_of(*next));
  return made;
}

/// All commands; a parsed command sets `action`.
class CommandLine {
 public:
  CommandLine() {
    app_.set_version_flag("--version", "kvist " + std::string(kVersion));
    app_.require_subcommand(1);
    add_worker();
    add_gateway();
    add_epp();
    add_model();
    add_key();
    loadgen_.add_to(app_, action_);
    add_up();
    add_dashboard();
    add_sweep();
    add_simulate();
    add_report();
    add_trace();
    plan_.add_to(app_, action_);
    add_explain();
    add_doctor();
    add_fit();
    add_completion();
    add_help();
    app_.add_subcommand("man", "print the manual page, as troff")->callback([this] {
      action_ = [this] { return print(man_page(command_of(app_), kVersion)); };
    });
  }

  /// Nothing if a command has to run; otherwise the exit status.
  std::optional<int> parse(int argc, const char* const* argv) {
    loadgen_.set_command(command_text(argc, argv));
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return app_.exit(error);  // --help, --version
      const CLI::App& at = last_parsed();
      const std::string name = command();
      const std::string typed = name.empty() ? "kvist" : "kvist " + name;
      std::fputs(usage_error(command_of(at), typed, error.what(), at.remaining()).c_str(), stderr);
      return kWrongUsage;
    }
    return std::nullopt;
  }

  /// "report check": the parsed command, as the user typed it.
  [[nodiscard]] std::string command() const {
    std::string name;
    for (const CLI::App* at = &app_; !at->get_subcommands().empty();) {
      at = at->get_subcommands().front();
      name += (name.empty() ? "" : " ") + at->get_name();
    }
    return name;
  }
  [[nodiscard]] const Action& action() const { return action_; }

 private:
  /// The innermost command of those that were typed.
  [[nodiscard]] const CLI::App& last_parsed() const {
    const CLI::App* at = &app_;
    while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
    return *at;
  }

  void add_help() {
    CLI::App* command = app_.add_subcommand("help", "print what a command does, and its options");
    command->add_option("command", help_, "as it is typed, such as report check; without it, all commands");
    command->callback([this] {
      action_ = [this]() -> Result<void> {
        KVIST_TRY_VOID(check_command(command_of(app_), help_));
        // As if it had been typed the other way; what is parsed already would be part of the usage line.
        std::vector<const char*> typed = {"kvist"};
        for (const std::string& name : help_) typed.push_back(name.c_str());
        typed.push_back("--help");
        (void)CommandLine().parse(static_cast<int>(typed.size()), typed.data());
        return {};
      };
    });
  }

  void add_log_options(CLI::App* command, LogArguments& log) {
    command->add_option("--log-format", log.format, "text or json, instead of the file's");
    command->add_option("--log-level", log.level, "debug, info, warning or error, instead of the file's");
  }

  void add_epp() {
    CLI::App* command =
        app_.add_subcommand("epp", "serve the gateway's routing as an endpoint picker for Envoy (ext_proc)");
    command->add_option("-f,--file", epp_.file, "file with a `gateway:` mapping; gRPC is at its `http`")->required();
    add_log_options(command, epp_.log);
    command->callback([this] { action_ = [this] { return serve_epp(epp_); }; });
  }

  void add_gateway() {
    CLI::App* command = app_.add_subcommand("gateway", "serve the gateway");
    command->add_option("-f,--file", gateway_.file, "file with a `gateway:` mapping")->required();
    add_log_options(command, gateway_.log);
    command->callback([this] { action_ = [this] { return serve_gateway(gateway_); }; });
  }

  void add_worker() {
    CLI::App* command = app_.add_subcommand("worker", "serve one worker");
    auto* file = command->add_option("-f,--file", worker_.file, "file with a `worker:` mapping");
    auto* engine = command->add_option("--engine", worker_.engine, "without a file: cpu")->excludes(file);
    const auto option = [&](const char* name, auto& value, const char* description) {
      command->add_option(name, value, description)->needs(engine);
    };
    option("--model", worker_.model, "directory of a Hugging Face checkpoint of the Llama family");
    option("--served-name", worker_.served_name, "what clients call the model; without it, the directory's name");
    option("--host", worker_.host, "address to listen on");
    option("--port", worker_.port, "port of the API; 0: any, as for the other three");
    option("--admin-port", worker_.admin_port, "port on 127.0.0.1 of paths that change the worker or show its inside");
    option("--kv-events-port", worker_.kv_events_port, "port of KV events");
    option("--kv-replay-port", worker_.kv_replay_port, "port of their replay");
    option("--kv-events-topic", worker_.kv_events_topic, "ZeroMQ topic of KV events; without it, the empty one");
    option("--threads", worker_.threads, "that compute; without it, one per core");
    option("--weights", worker_.weights, "bf16 or f32 in memory; without it, as the checkpoint has them");
    option("--kv-dtype", worker_.kv_dtype, "keys and values: bf16, f16 or f32; without it, as the weights in memory");
    option("--memory", worker_.memory, "for weights, activations and KV blocks, with a unit (4 GiB)");
    option("--draft-tokens", worker_.draft_tokens, "speculation by prompt look-up: at most so many drafts a step");
    option("--tool-parser", worker_.tool_parser, "how the model writes calls of tools: hermes, llama3_json or mistral");
    option("--api-key-file", worker_.api_key_file, "file with the keys that requests must have, one in each line");
    add_log_options(command, worker_.log);
    command->callback([this] { action_ = [this] { return serve_worker(worker_); }; });
  }

  void add_up() {
    CLI::App* command = app_.add_subcommand("up", "start a deployment and keep it up until Ctrl-C");
    command->add_option("-f,--file", up_.file, "file with a `deployment:` mapping")->required();
    command->add_option("--directory", up_.directory,
                        "folder for settings and logs of the parts, kept; without it, one in TMPDIR for the run");
    command->add_option("--workload", up_.workload_file, "of the load generator: file with a `workload:`, or a sweep");
    command->add_option("--concurrency", up_.concurrency, "conversations at once that the page begins with (12)")
        ->check(CLI::Range(1U, 4'096U));
    command->add_option("--api-key-file", up_.api_key_file,
                        "file whose first line is the key, if the gateway wants one");
    command->add_flag("--dry-run", up_.dry_run, "print the manifests of a deployment in Kubernetes, and do nothing");
    command->add_option("--host", up_.host, "address of the dashboard");
    command->add_option("--port", up_.port, "port of the dashboard; 0: any");
    add_dashboard_options(command, up_.dashboard);
    command->callback([this] { action_ = [this] { return run_up(up_); }; });
  }

  void add_dashboard_options(CLI::App* command, DashboardArguments& a, bool can_be_off = true) {
    command->add_option("--baseline", a.baseline,
                        "line of reference: results of a sweep, a report.json, a file of data/reference");
    command->add_option("--slo", a.slo, "lines of limits, such as ttft_p95=600ms,tpot_p95=60ms,error=1%");
    add_listen_options(*command, a.listen);
    if (!can_be_off) return;
    command->add_flag("--no-dashboard", a.off, "without the dashboard")
        ->excludes(command->get_option("--listen-certificate"))
        ->excludes(command->get_option("--slo"))
        ->excludes(command->get_option("--baseline"));
  }

  void add_dashboard() {
    CLI::App* command = app_.add_subcommand("dashboard", "stored runs, or a running gateway, in a browser");
    DashboardCommandArguments& a = dashboard_;
    command->add_option("results", a.results, "results of sweeps: databases, or folders that hold one");
    command->add_option("--gateway", a.gateway, "URL of a running gateway's listener for administration");
    command->add_option("--api-key-file", a.api_key_file, "file whose first line is the key for administration");
    add_tls_options(*command, a.tls, "the gateway");
    command->add_option("--host", a.host, "address to listen on");
    command->add_option("--port", a.port, "0: any");
    add_dashboard_options(command, a.dashboard, false);
    command->callback([this] { action_ = [this] { return run_dashboard(dashboard_); }; });
  }

  void add_model() {
    CLI::App* model = app_.add_subcommand("model", "model directories");
    model->require_subcommand(1);
    CLI::App* command = model->add_subcommand("create", "write a model with random weights, for tests and demos");
    command->add_option("directory", model_create_.directory, "folder to make")->required();
    command->add_option("--size", model_create_.size, "tiny, small or base");
    command->add_option("--seed", model_create_.seed, "of weights and tokenizer")->check(wrong_in_whole_number);
    command->add_option("--vocabulary", model_create_.vocabulary, "tokens")->check(CLI::Range(300, 1'500));
    command->add_option("--dtype", model_create_.dtype, "bf16, f16 or f32");
    command->callback([this] { action_ = [this] { return create_model(model_create_); }; });
  }

  void add_key() {
    CLI::App* key = app_.add_subcommand("key", "API keys of the gateway's clients");
    key->require_subcommand(1);
    CLI::App* command = key->add_subcommand("create", "print a new key, and its line for the gateway's file of keys");
    KeyCreateArguments& a = key_create_;
    command->add_option("--name", a.name, "of the key, in logs and metrics")->required();
    command->add_option("--class", a.key_class, "a label in the metrics");
    command->add_option("--requests-per-minute", a.requests_per_minute, "without it, any number")
        ->check(CLI::PositiveNumber);
    command->add_option("--tokens-per-minute", a.tokens_per_minute, "of prompts and answers; without it, any number")
        ->check(CLI::PositiveNumber);
    command->add_option("--concurrency", a.concurrency, "requests at once; without it, any number")
        ->check(CLI::PositiveNumber);
    command->callback([this] { action_ = [this] { return create_key(key_create_); }; });
  }

  void add_sweep() {
    CLI::App* command = app_.add_subcommand("sweep", "measure routing modes against each other, write a report");
    CLI::Option* file = command->add_option("-f,--file", sweep_.file, "sweep file");
    CLI::Option* output =
        command->add_option("--output", sweep_.output, "folder for results, instead of the file's output_directory");
    const CLI::Option* resume = add_resume(*command, sweep_.resume, *file, {output});
    command->add_flag("--dry-run", sweep_.dry_run, "print the manifests that would be applied, and do nothing")
        ->excludes("--resume");
    add_agents_options(*command, sweep_.agents, sweep_.agents_key_file, sweep_.agents_ca);
    command->add_option("--host", sweep_.host, "address of the dashboard");
    command->add_option("--port", sweep_.port, "port of the dashboard; 0: any");
    add_dashboard_options(command, sweep_.dashboard);
    command->callback([this, file, resume] {
      require_either(*file, *resume);
      action_ = [this] { return run_sweep(sweep_); };
    });
  }

  /// --resume in place of a file; the options of a new sweep are not for it.
  static CLI::Option* add_resume(CLI::App& command, std::string& folder, CLI::Option& file,
                                 const std::vector<CLI::Option*>& of_a_new_one) {
    CLI::Option* resume = command.add_option(
        "--resume", folder, "results folder of a sweep that was interrupted: measures what is missing in it");
    resume->excludes(&file);
    for (CLI::Option* option : of_a_new_one) resume->excludes(option);
    return resume;
  }

  static void require_either(const CLI::Option& file, const CLI::Option& resume) {
    if (file.count() + resume.count() == 0) throw CLI::RequiredError("-f or --resume");
  }

  void add_simulate() {
    CLI::App* command = app_.add_subcommand("simulate", "the same sweep in virtual time");
    CLI::Option* file = command->add_option("-f,--file", simulate_.file, "sweep file");
    command->add_option("--threads", simulate_.threads, "levels at once; without it, one per core");
    const std::vector<CLI::Option*> of_a_new_one = {
        command->add_option("--output", simulate_.output, "folder for results, instead of the file's output_directory"),
        command->add_option("--level", simulate_.levels, "this level instead of the file's; may be repeated"),
        command->add_option("--mode", simulate_.modes, "this routing mode instead of the file's; may be repeated"),
        command->add_option("--repetitions", simulate_.repetitions, "seeds per level, instead of the file's")
            ->check(CLI::Range(1, 10'000))};
    const CLI::Option* resume = add_resume(*command, simulate_.resume, *file, of_a_new_one);
    command->callback([this, file, resume] {
      require_either(*file, *resume);
      action_ = [this] { return run_simulate(simulate_); };
    });
  }

  void add_report() {
    CLI::App* command = app_.add_subcommand("report", "make the report of a stored run again; check it");
    command->add_option("database", report_.database, "results.sqlite of a sweep, or its folder");
    command->add_option("--run", report_.run, "number of the run; without it, the last");
    command->add_option("--output", report_.output, "folder for the report; without it, the database's");
    command->add_option("--exclude", report_.exclude,
                        "ARM:LEVEL or ARM:LEVEL:REPETITION: leave this measurement out; may be repeated");
    command->require_subcommand(0, 1);
    add_report_compare(command->add_subcommand("compare", "routing modes against a baseline, paired over seeds"));
    add_report_plot(command->add_subcommand("plot", "the figures over the levels as a picture"));
    add_report_merge(command->add_subcommand("merge", "several runs as one, without measuring again"));
    add_report_regression(command->add_subcommand("regression", "fail if a run is worse than an earlier one"));
    add_report_check(command->add_subcommand("check", "hold a stored run against published figures"));
    command->callback([this, command] {
      if (!command->get_subcommands().empty()) return;
      if (report_.database.empty()) throw CLI::RequiredError("database");
      action_ = [this] { return run_report(report_); };
    });
  }

  void add_report_plot(CLI::App* command) {
    command->add_option("results", plot_.results, "results of a sweep: a database, or a folder that holds one")
        ->required();
    command->add_option("--output", plot_.output, "file to write, *.svg or *.png")->required();
    command->callback([this] { action_ = [this] { return run_report_plot(plot_); }; });
  }

  void add_report_merge(CLI::App* command) {
    command->add_option("results", merge_.results, "results of sweeps: databases, or folders that hold one")
        ->required();
    command->add_option("--output", merge_.output, "folder for the merged results and their report")->required();
    command->callback([this] { action_ = [this] { return run_report_merge(merge_); }; });
  }

  void add_report_check(CLI::App* command) {
    ReportCheckArguments& a = check_;
    command->add_option("database", a.database, "results.sqlite of a sweep, or a folder that holds one")->required();
    command->add_option("--reference", a.reference, "published figures: a file of data/reference")->required();
    command->add_option("--bars", a.bars, "file that says how far the run may be from them");
    command->add_option("--run", a.run, "number of the run; without it, the last");
    command->add_option("--markdown", a.markdown, "file to write the comparison to");
    command->add_option("--json", a.json, "the same as JSON");
    command->callback([this] { action_ = [this] { return run_report_check(check_); }; });
  }

  void add_report_regression(CLI::App* command) {
    ReportRegressionArguments& a = regression_;
    command->add_option("before", a.before, "results of a sweep, or of loadgen --output")->required();
    command->add_option("after", a.after, "the same of the later run")->required();
    command->add_option("--tolerance", a.tolerance_pct, "percent (of a hit rate: points) that count as no change (5)");
    command->add_option("--error-tolerance", a.error_tolerance_points,
                        "points of the share of errors that count as no change (0.5)");
    command->callback([this] { action_ = [this] { return run_report_regression(regression_); }; });
  }

  void add_report_compare(CLI::App* command) {
    command->add_option("results", compare_.results, "sweeps' databases or folders, or NAME=PLACE")->required();
    command->add_option("--baseline", compare_.baseline, "routing mode to compare with; without it, each run's first");
    command->add_option("--mode", compare_.modes, "only this mode against it; may be repeated");
    command->add_flag("--runs", compare_.runs, "later results against the first, not modes within each");
    command->add_option("--json", compare_.json, "file to write the comparison to as JSON");
    command->add_option("--markdown", compare_.markdown, "implies --runs: file for the last run's report and changes");
    command->add_option("--html", compare_.html, "implies --runs: file for a page with the runs' curves");
    command->callback([this] { action_ = [this] { return run_report_compare(compare_); }; });
  }

  void add_trace() {
    CLI::App* trace = app_.add_subcommand("trace", "traces to replay");
    trace->require_subcommand(1);
    CLI::App* command = trace->add_subcommand("generate", "write a trace in Mooncake's format");
    command->add_option("-o,--output", trace_.output, "file to write, *.jsonl")->required();
    command->add_option("-f,--file", trace_.workload_file, "file with a `workload:` mapping");
    command->add_option("--conversations", trace_.conversations, "how many chats (1000)");
    command->add_option("--seed", trace_.seed, "instead of the workload's")->check(wrong_in_whole_number);
    command->add_option("--think-time", trace_.think_time, "of chats: mean pause before the next turn (10 s)");
    command->add_option("--kind", trace_.kind,
                        "instead of chats: long_prompts, retrieval, retrieval_question_first, agents, code_completion, "
                        "short_answers, reasoning or documents");
    command->add_option("--rate", trace_.rate, "with --kind: starts a second (1)");
    command->add_option("--duration", trace_.duration, "with --kind: how long, with a unit (10 min)");
    command->callback([this] { action_ = [this] { return run_trace_generate(trace_); }; });
  }

  void add_explain() {
    CLI::App* command = app_.add_subcommand("explain", "recorded routing decisions, each decided again");
    command->add_option("file", explain_.file, "what GET /admin/decisions gave; -: standard input")->required();
    command->add_option("--request", explain_.request, "X-Request-Id of the one to show in full");
    command->callback([this] { action_ = [this] { return run_explain(explain_); }; });
  }

  void add_doctor() {
    CLI::App* command = app_.add_subcommand("doctor", "what is wrong with a file or a running deployment");
    auto* file =
        command->add_option("-f,--file", doctor_.file, "file with a `gateway:`, `deployment:` or `worker:` mapping");
    auto* gateway =
        command->add_option("--gateway", doctor_.gateway, "URL of a running gateway's listener for administration")
            ->excludes(file);
    command->add_option("--api-key-file", doctor_.api_key_file, "file whose first line is the key for administration");
    add_tls_options(*command, doctor_.tls, "the gateway");
    command->add_option("--timeout", doctor_.timeout, "of each question to a peer, with a unit; without it, 5 s");
    auto* json = command->add_flag("--json", doctor_.json, "for programs");
    command->add_flag("--alive", doctor_.alive, "only whether the gateway takes requests, by its /health; needs no key")
        ->needs(gateway)
        ->excludes(json);
    command->callback([this] { action_ = [this] { return run_doctor(doctor_); }; });
  }

  void add_fit() {
    FitArguments& a = fit_;
    CLI::App* command = app_.add_subcommand("fit", "fit a profile's coefficients to measurements");
    command->add_option("--profile", a.profile, "engine behaviour to start from (trtllm), or a profile file (*.yaml)");
    command->add_option("--reference", a.reference, "published figures: a file of data/reference");
    command->add_option("--database", a.database, "or results.sqlite of a sweep of your own");
    command->add_option("--run", a.run, "number of the run in it; without it, the last");
    command->add_option("--sweep", a.sweep, "sweep file that describes what was measured");
    command->add_option("--free", a.free, "coefficients to fit; without it, those the profile marks")->delimiter(',');
    command->add_option("--fit-levels", a.fit_levels, "levels to fit to; without it, all others")->delimiter(',');
    command->add_option("--hold-out", a.hold_out, "levels to test the fit with")->delimiter(',');
    command->add_option("--seeds", a.seeds, "seeds per level");
    command->add_option("--threads", a.threads, "levels at once; without it, one per core");
    command->add_option("--out", a.out, "profile file to write")->required();
    command->add_option("--json", a.json, "file to write the fit to as JSON");
    command->callback([this] { action_ = [this] { return run_fit(fit_); }; });
  }

  void add_completion() {
    CLI::App* command = app_.add_subcommand("completion", "print a script that completes commands in a shell");
    command->add_option("shell", shell_, "bash, zsh or fish")->required();
    command->callback([this] {
      action_ = [this]() -> Result<void> {
        KVIST_TRY(const std::string script, completion(command_of(app_), shell_));
        return print(script);
      };
    });
  }

  static Result<void> print(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return {};
    return fail(ErrorCode::kInternal, "standard output cannot be written");
  }

  CLI::App app_{"KV-cache-aware serving for large language models, and the laboratory that measures it", "kvist"};
  Action action_;
  std::string shell_;
  std::vector<std::string> help_;
  WorkerArguments worker_;
  GatewayArguments gateway_;
  GatewayArguments epp_;
  DoctorArguments doctor_;
  UpArguments up_;
  DashboardCommandArguments dashboard_;
  SweepArguments sweep_;
  ModelCreateArguments model_create_;
  KeyCreateArguments key_create_;
  LoadgenCommandLine loadgen_;
  SimulateArguments simulate_;
  ReportArguments report_;
  ReportCheckArguments check_;
  ReportMergeArguments merge_;
  ReportPlotArguments plot_;
  ReportCompareArguments compare_;
  ReportRegressionArguments regression_;
  TraceGenerateArguments trace_;
  ExplainArguments explain_;
  FitArguments fit_;
  PlanCommandLine plan_;
};

// A path that cannot be looked at (a name that is too long, a folder without permission) is the user's to correct.
Result<void> act(const Action& action) {
  try {
    return action();
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(ErrorCode::kInvalidArgument, error.path1().string() + ": " + error.code().message());
  }
}

}  // namespace

int run(int argc, char** argv) {
  CommandLine line;
  if (const std::optional<int> status = line.parse(argc, argv)) return *status;
  const Result<void> done = act(line.action());
  if (done) return kDone;
  std::fprintf(stderr, "kvist %s: %s\n", line.command().c_str(), done.error().message.c_str());
  return kFailed;
}

}  // namespace kvist::cli
