#include "kvist/cli/loadgen_command_line.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <limits>
#include <system_error>

namespace kvist::cli {

std::string wrong_in_whole_number(const std::string& text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stopped == end) return {};
  return text + ": want a whole number from 0 to " + std::to_string(std::numeric_limits<std::uint64_t>::max());
}

void LoadgenCommandLine::add_to(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("loadgen", "drive multi-turn chats at an OpenAI-compatible server");
  command->require_subcommand(0, 1);
  add_calibrate(*command->add_subcommand("calibrate", "find how much load this machine can measure well"), action);
  add_reference(*command->add_subcommand("reference", "serve streams of known times"), action);
  add_agent(*command->add_subcommand("agent", "drive parts of loads for a coordinator: kvist loadgen --agents"),
            action);
  command->add_option("--target", arguments_.target, "http://host:port or https://host:port");
  command->add_option("--model", arguments_.model, "model to ask for");
  command->add_option("-f,--file", arguments_.workload_file, "file with a `workload:` mapping");
  add_load(*command);
  add_workload(*command);
  command->add_option("--output", arguments_.output, "folder for every request and token, and a summary");
  command
      ->add_option("--export", arguments_.exports, "also as vllm, aiperf, guidellm, inference-perf (or all) write it")
      ->needs("--output");
  command->add_option("--progress", arguments_.progress, "how often a progress line is printed (5s); 0s: never");
  command->add_option("--path", arguments_.path, "path of the endpoint (/v1/chat/completions)");
  command->add_option("--header", arguments_.headers, "\"Name: value\", sent with every request; may be repeated")
      ->allow_extra_args(false);  // of two values the second would be no header, and in the record
  command->add_option("--api-key-file", arguments_.api_key_file, "file whose first line is the key to send");
  add_tls_options(*command, arguments_.tls, "the target");
  command->add_option("--threads", arguments_.threads, "threads that drive the load: conversations are divided (1)")
      ->check(CLI::Range(1U, 256U));
  command->add_option("--source-addresses", arguments_.source_addresses,
                      "addresses to connect from, in turn: 127.0.0.2-127.0.0.9, 10.0.0.8/29");
  command->add_option("--host", arguments_.host, "address of dashboard, metrics and control API");
  command->add_option("--port", arguments_.port, "port of dashboard, metrics and control API; 0: any");
  command->add_option("--gateway", arguments_.gateway,
                      "URL of the target's listener for administration, so that the dashboard shows its workers");
  command->add_option(
      "--baseline", arguments_.dashboard.baseline,
      "line of reference on the dashboard: results of a sweep, a report.json, a file of data/reference");
  command->add_option("--slo", arguments_.dashboard.slo, "lines of limits on the dashboard, such as ttft_p95=600ms");
  add_listen_options(*command, arguments_.dashboard.listen);
  command->add_flag("--no-dashboard", arguments_.dashboard.off, "metrics and control API alone")
      ->excludes(command->get_option("--slo"))
      ->excludes(command->get_option("--baseline"))
      ->excludes(command->get_option("--gateway"));
  add_agents_options(*command, arguments_.agents, arguments_.agents_key_file, arguments_.agents_ca);
  command->add_option("--calibration", arguments_.calibration,
                      "file of kvist loadgen calibrate that the load is held against; none");
  command->add_flag("--within-calibration", arguments_.within_calibration, "refuse a load that is beyond it");
  command->callback([this, command, &action] {
    if (!command->get_subcommands().empty()) return;
    const LoadgenArguments& a = arguments_;
    if (a.target.empty()) throw CLI::RequiredError("--target");
    if (a.model.empty()) throw CLI::RequiredError("--model");
    // A workload file may name a trace, which is seen when it is read.
    const bool has_load = a.concurrency || a.rate || !a.dataset.empty() || !a.workload_file.empty();
    const bool has_end = !a.duration.empty() || !a.warmup.empty() || a.requests || !a.output.empty();
    if (has_end && !has_load) throw CLI::RequiresError("--duration", "--concurrency, --rate or a trace as --dataset");
    action = [this] { return run_loadgen(arguments_); };
  });
}

void LoadgenCommandLine::add_calibrate(CLI::App& command, Action& action) {
  CalibrateArguments& a = calibrate_;
  command.add_option("--output", a.output, "file to write; without it, in the user's state folder");
  command.add_option("--max-streams", a.most_streams, "do not try more (10000)")->check(CLI::Range(1U, 100'000U));
  command.add_option("--step", a.measure, "how long each number of streams is measured (2s)");
  command.add_option("--first", a.first, "from a request to the reference server's first token (50ms)");
  command.add_option("--gap", a.gap, "between two of its tokens (20ms)");
  command.add_option("--tokens", a.tokens, "of an answer (50)")->check(CLI::Range(2U, 10'000U));
  command.callback([this, &action] { action = [this] { return run_calibrate(calibrate_); }; });
}

void LoadgenCommandLine::add_reference(CLI::App& command, Action& action) {
  ReferenceArguments& a = reference_;
  command.add_option("--first", a.first, "from a request to its first token (50ms)");
  command.add_option("--gap", a.gap, "between two tokens (20ms)");
  command.add_option("--jitter", a.jitter, "each token is up to so much later (0ms)");
  command.add_option("--host", a.host, "address to listen on");
  command.add_option("--port", a.port, "0: any");
  command.callback([this, &action] { action = [this] { return serve_reference(reference_); }; });
}

void LoadgenCommandLine::add_agent(CLI::App& command, Action& action) {
  AgentArguments& a = agent_;
  command.add_option("--host", a.host, "address to listen on; other than the loopback's it needs --listen-key-file");
  command.add_option("--port", a.port, "0: any");
  add_listen_options(command, a.listen);
  command.add_option("--listen-key-file", a.listen_key_file,
                     "keys, one a line, of which a coordinator has to send one");
  command.add_option("--threads", a.threads, "threads that drive loads (1)")->check(CLI::Range(1U, 256U));
  auto* target = command.add_option("--target", a.target, "the one server that loads may be sent to; without it, any");
  command.add_option("--api-key-file", a.api_key_file, "file whose first line is the key for the target")
      ->needs(target);
  add_tls_options(command, a.tls, "the target");
  command.add_option("--source-addresses", a.source_addresses,
                     "addresses to connect from, in turn: 127.0.0.2-127.0.0.9, 10.0.0.8/29");
  command.callback([this, &action] { action = [this] { return serve_agent(agent_); }; });
}

void LoadgenCommandLine::add_load(CLI::App& command) {
  LoadgenArguments& a = arguments_;
  auto* closed =
      command.add_option("--concurrency", a.concurrency,
                         "closed loop: conversations at once; without it and --rate, idle until POST /start");
  command
      .add_option("--concurrency-of", a.concurrency_of,
                  "conversations (default), or requests: who thinks (--think-time) leaves the place to others")
      ->needs(closed);
  auto* rate = command.add_option("--rate", a.rate, "open loop: starts per second, whatever is in flight");
  rate->excludes(closed);
  command.add_option("--arrivals", a.arrivals, "poisson (default), constant, gamma, bursts")->needs(rate);
  command.add_option("--variation", a.variation, "gamma: standard deviation of the gaps over their mean (2)")
      ->needs(rate);
  command.add_option("--burst-size", a.burst_size, "bursts: starts at one instant (10)")->needs(rate);
  command
      .add_option("--rate-profile", a.profile,
                  "ramps and steps: multiples of --rate over time, linear between (0s:0.1,60s:1,60s:2)")
      ->needs(rate);
  command.add_option("--max-in-flight", a.max_in_flight, "open loop: beyond it starts are sent late (20000)")
      ->needs(rate);
  command.add_option("--max-start-rate", a.max_start_rate, "closed loop: starts per second, at most")->needs(closed);
  command.add_option("--requests", a.requests, "end after so many requests")->check(wrong_in_whole_number);
  command.add_option("--duration", a.duration, "how long, with a unit (30s); without it, until Ctrl-C");
  command.add_option("--warmup", a.warmup, "turns sent so early are not in the summary (5s)");
  command.add_option("--seed", a.seed, "of texts, lengths and arrivals")->check(wrong_in_whole_number);
  command.add_option("--timeout", a.timeout, "a request is given up after this (120s)");
}

void LoadgenCommandLine::add_workload(CLI::App& command) {
  LoadgenArguments& a = arguments_;
  command.add_option("--dataset", a.dataset, "ShareGPT JSON, chats (.jsonl) or a Mooncake trace (.jsonl) to send");
  command
      .add_option("--mix", a.mix,
                  "3:FILE: three parts of conversations as in FILE (workload: or chats); may be repeated")
      ->allow_extra_args(false);
  command.add_option("--input-tokens", a.input_tokens, "of a first message: 512, 100-900, lognormal:512/300");
  command.add_option("--output-tokens", a.output_tokens, "limit of an answer: 128, 50-200, list:64*3,512");
  command.add_flag("--ignore-eos", a.ignore_eos, "answers run to their limit");
  command.add_option("--turns", a.turns, "of a conversation: 1, 3-5, geometric:4:1-20");
  command.add_option("--follow-up-tokens", a.follow_up_tokens, "of a later message of a conversation");
  command.add_option("--follow-ups", a.follow_ups, "file whose lines are the later messages, drawn by the seed");
  command.add_option("--replies", a.replies, "in the history: live (default), or recorded (the data set's, or seeded)");
  command.add_option("--think-time", a.think_time, "pause before each turn but the first: 2s, or 1s-5s");
  command.add_option("--prefixes", a.prefixes, "first messages shared by conversations; 0: none is shared");
  auto* groups = command.add_option("--prefix-groups", a.prefix_groups,
                                    "groups of conversations whose first messages begin with the same text");
  auto* length = command.add_option("--prefix-tokens", a.prefix_tokens, "length of that beginning")->needs(groups);
  groups->needs(length);
  command.add_option("--prefix-skew", a.prefix_skew, "group k is drawn with weight 1 / k^skew (0: all alike)")
      ->needs(groups);
  command.add_option("--prompt-ids", a.prompt_ids,
                     "prompts are token ids, to /v1/completions: of a range (1000-30000), or encoded by --tokenizer");
  command.add_option("--tokenizer", a.tokenizer,
                     "the target's tokenizer.json, or its folder: lengths are in its tokens, exactly");
  command.add_option("--characters-per-token", a.characters_per_token,
                     "of the target's tokenizer (about 4.5 for English), for lengths in its tokens");
  command.add_option("--speed", a.speed, "of a trace: 2 sends it twice as fast");
}

void add_agents_options(CLI::App& command, std::string& agents, std::string& key_file, std::string& ca) {
  CLI::Option* const given = command.add_option(
      "--agents", agents,
      "agents (kvist loadgen agent) that drive the load, each a part: host:port, https://host:port, with "
      "commas between");
  command.add_option("--agents-key-file", key_file, "file whose first line is the key for the agents")->needs(given);
  command.add_option("--agents-ca", ca, "PEM file of the authorities of the agents' certificates")->needs(given);
}

}  // namespace kvist::cli
