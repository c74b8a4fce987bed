#include "kvist/spec/sweep.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kvist/spec/agents_yaml.h"
#include "kvist/spec/comparison_yaml.h"
#include "kvist/spec/endpoint.h"
#include "kvist/spec/fields.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {
namespace {

constexpr std::uint32_t kMaxLevel = 100'000;

constexpr std::array kBetweenLevelsWords = {Word{"drain", BetweenLevels::kDrain},
                                            Word{"continue", BetweenLevels::kContinue}};

Result<void> read_limit(const YamlNode& node, std::string_view key, std::optional<Duration>& limit) {
  if (!node.get(key)) return {};
  return read_field(node, key, limit.emplace(), std::chrono::microseconds(1));
}

Result<GoodputSpec> read_goodput(const YamlNode& node) {
  GoodputSpec goodput;
  KVIST_TRY_VOID(read_limit(node, "ttft", goodput.ttft));
  KVIST_TRY_VOID(read_limit(node, "tpot", goodput.tpot));
  KVIST_TRY_VOID(read_limit(node, "latency", goodput.latency));
  KVIST_TRY_VOID(node.finish());
  if (!goodput.is_given()) return std::unexpected(node.error("at least one of ttft, tpot and latency is needed"));
  return goodput;
}

void write_goodput(YamlWriter& out, const GoodputSpec& goodput) {
  if (!goodput.is_given()) return;
  out.begin_map("goodput");
  if (goodput.ttft) out.field("ttft", *goodput.ttft);
  if (goodput.tpot) out.field("tpot", *goodput.tpot);
  if (goodput.latency) out.field("latency", *goodput.latency);
  out.end_map();
}

Result<MethodSpec> read_method(const YamlNode& node) {
  MethodSpec m;
  KVIST_TRY_VOID(read_field(node, "warmup", m.warmup, Duration(0)));
  KVIST_TRY_VOID(read_field(node, "snapshots", m.snapshots, 1, 1'000));
  KVIST_TRY_VOID(read_field(node, "snapshot_interval", m.snapshot_interval, std::chrono::milliseconds(10)));
  KVIST_TRY_VOID(read_field(node, "window", m.window, std::chrono::milliseconds(10)));
  KVIST_TRY_VOID(read_field(node, "drain_timeout", m.drain_timeout, std::chrono::milliseconds(10)));
  KVIST_TRY_VOID(read_field(node, "max_error_pct", m.max_error_pct, 0.0, 100.0));
  KVIST_TRY_VOID(read_field(node, "repetitions", m.repetitions, 1, 10'000));
  KVIST_TRY_VOID(read_word(node, "between_levels", kBetweenLevelsWords, m.between_levels));
  if (const auto goodput = node.get("goodput")) {
    KVIST_TRY(m.goodput, read_goodput(*goodput));
  }
  KVIST_TRY_VOID(node.finish());
  if (m.window > m.snapshot_interval) {
    const auto given = node.get("window") ? node.get("window") : node.get("snapshot_interval");
    return std::unexpected(given->error(
        fmt::format("window ({}) is longer than snapshot_interval ({}): the first window would reach into the warm-up "
                    "and the others would overlap",
                    seconds_text(m.window), seconds_text(m.snapshot_interval))));
  }
  return m;
}

template <class T>
std::optional<T> if_given(const YamlNode& map, std::string_view key, const T& value) {
  return map.get(key) ? std::optional(value) : std::nullopt;
}

Result<WorkerChange> read_change(const YamlNode& node, const DeploymentSpec& deployment) {
  WorkerChange change;
  double slowness = 1;
  std::uint32_t max_num_tokens = 0;
  Duration restart{};
  KVIST_TRY_VOID(node.require("at"));
  KVIST_TRY_VOID(node.require("worker"));
  KVIST_TRY_VOID(read_field(node, "at", change.at, Duration(0)));
  KVIST_TRY_VOID(read_name(node, "worker", change.worker));
  KVIST_TRY_VOID(read_field(node, "slowness", slowness, 0.001, 1'000.0));
  KVIST_TRY_VOID(read_field(node, "max_num_tokens", max_num_tokens, 1, kMaxCount));
  KVIST_TRY_VOID(read_field(node, "restart", restart, std::chrono::milliseconds(1)));
  KVIST_TRY_VOID(node.finish());
  change.slowness = if_given(node, "slowness", slowness);
  change.max_num_tokens = if_given(node, "max_num_tokens", max_num_tokens);
  change.restart = if_given(node, "restart", restart);
  if (int{change.slowness.has_value()} + int{change.max_num_tokens.has_value()} + int{change.restart.has_value()} != 1)
    return std::unexpected(node.error("expected one of slowness, max_num_tokens and restart"));
  const auto worker = std::ranges::find(deployment.workers, change.worker, &WorkerSpec::name);
  if (worker == deployment.workers.end())
    return std::unexpected(node.get("worker")->error(fmt::format("no worker is called \"{}\"", change.worker)));
  // An engine with fewer tokens a step than sequences in its batch leaves some of them without their next token.
  if (change.max_num_tokens && *change.max_num_tokens < worker->max_batch_size) {
    return std::unexpected(node.get("max_num_tokens")
                               ->error(fmt::format("{} is below the max_batch_size of {}, which is {}", max_num_tokens,
                                                   worker->name, worker->max_batch_size)));
  }
  return change;
}

Result<SimulatedGatewaysSpec> read_gateways(const YamlNode& node) {
  constexpr std::uint32_t kMost = 64;
  SimulatedGatewaysSpec gateways;
  KVIST_TRY_VOID(read_field(node, "count", gateways.count, 1, kMost));
  KVIST_TRY_VOID(read_field(node, "exchange", gateways.exchange));
  KVIST_TRY_VOID(read_field(node, "hop", gateways.hop, Duration(0)));
  KVIST_TRY_VOID(read_field(node, "loss", gateways.loss, 0.0, 1.0));
  KVIST_TRY_VOID(node.finish());
  if (!gateways.exchange && gateways.loss > 0) {
    return std::unexpected(
        node.get("loss")->error("is of the messages between gateways, and with exchange: false there are none"));
  }
  return gateways;
}

void write_gateways(YamlWriter& out, const SimulatedGatewaysSpec& gateways) {
  if (gateways == SimulatedGatewaysSpec()) return;
  out.begin_map("gateways").field("count", gateways.count).field("exchange", gateways.exchange);
  out.field("hop", gateways.hop).field("loss", gateways.loss).end_map();
}

Result<SimulationSpec> read_simulation(const YamlNode& node, const DeploymentSpec& deployment) {
  SimulationSpec s;
  KVIST_TRY_VOID(read_field(node, "client_hop", s.client_hop, Duration(0)));
  KVIST_TRY_VOID(read_field(node, "gateway_time", s.gateway_time, Duration(0)));
  KVIST_TRY_VOID(read_field(node, "worker_hop", s.worker_hop, Duration(0)));
  KVIST_TRY_VOID(read_field(node, "kv_event_delay", s.kv_event_delay, Duration(0)));
  KVIST_TRY_VOID(read_field(node, "timeline_period", s.timeline_period, Duration(0)));
  KVIST_TRY_VOID(read_field(node, "keep_token_gaps", s.keep_token_gaps));
  KVIST_TRY_VOID(read_field(node, "unstreamed_share", s.unstreamed_share, 0.0, 1.0));
  if (const auto gateways = node.get("gateways")) {
    KVIST_TRY(s.gateways, read_gateways(*gateways));
  }
  if (const auto changes = node.get("changes")) {
    KVIST_TRY(const auto elements, changes->elements());
    for (const YamlNode& element : elements) {
      KVIST_TRY(WorkerChange change, read_change(element, deployment));
      s.changes.push_back(std::move(change));
    }
  }
  KVIST_TRY_VOID(node.finish());
  if (s.timeline_period > Duration(0) && s.timeline_period < std::chrono::milliseconds(1)) {
    return std::unexpected(node.get("timeline_period")->error("must be 0 (no timeline) or at least 1 ms"));
  }
  return s;
}

void write_simulation(YamlWriter& out, const SimulationSpec& s) {
  out.begin_map("simulation").field("client_hop", s.client_hop).field("gateway_time", s.gateway_time);
  out.field("worker_hop", s.worker_hop).field("kv_event_delay", s.kv_event_delay);
  out.field("timeline_period", s.timeline_period).field("keep_token_gaps", s.keep_token_gaps);
  if (s.unstreamed_share != 0) out.field("unstreamed_share", s.unstreamed_share);
  write_gateways(out, s.gateways);
  if (!s.changes.empty()) {
    out.begin_list("changes");
    for (const WorkerChange& change : s.changes) {
      out.begin_item().field("at", change.at).field("worker", change.worker);
      if (change.slowness) out.field("slowness", *change.slowness);
      if (change.max_num_tokens) out.field("max_num_tokens", *change.max_num_tokens);
      if (change.restart) out.field("restart", *change.restart);
      out.end_map();
    }
    out.end_list();
  }
  out.end_map();
}

Result<std::vector<RoutingMode>> read_modes(const YamlNode& sweep) {
  if (const auto arms = sweep.get("arms")) {
    if (!sweep.get("modes")) return std::vector<RoutingMode>{};
    return std::unexpected(arms->error("give modes or arms, not both: an arm may name its mode"));
  }
  KVIST_TRY(const YamlNode node, sweep.require("modes"));
  KVIST_TRY(const auto elements, node.elements());
  std::vector<RoutingMode> modes;
  for (const YamlNode& element : elements) {
    RoutingMode mode{};
    KVIST_TRY_VOID(read_routing_mode(element, mode));
    if (std::ranges::find(modes, mode) != modes.end()) {
      return std::unexpected(element.error(fmt::format("mode {} occurs twice", to_string(mode))));
    }
    modes.push_back(mode);
  }
  if (modes.empty()) return std::unexpected(node.error("at least one mode is needed"));
  return modes;
}

/// `most` is the most conversations at once, if a level is a number of conversations.
Result<std::vector<std::uint32_t>> read_levels(const YamlNode& sweep, std::uint32_t most) {
  KVIST_TRY(const YamlNode node, sweep.require("levels"));
  KVIST_TRY(const auto elements, node.elements());
  std::vector<std::uint32_t> levels;
  for (const YamlNode& element : elements) {
    KVIST_TRY(const std::int64_t number, element.as_int(1, kMaxLevel));
    const auto level = static_cast<std::uint32_t>(number);
    if (!levels.empty() && level <= levels.back()) {
      return std::unexpected(
          element.error(fmt::format("levels must ascend: {} does not come after {}", level, levels.back())));
    }
    if (level > most) {
      return std::unexpected(
          element.error(fmt::format("{} conversations at once exceed the gateway's max_in_flight of {}", level, most)));
    }
    levels.push_back(level);
  }
  if (levels.empty()) return std::unexpected(node.error("at least one level is needed"));
  return levels;
}

Result<DeploymentSpec> read_deployment_or_path(const YamlNode& sweep, const std::string& base_directory) {
  KVIST_TRY(const YamlNode node, sweep.require("deployment"));
  if (node.is_map() || node.is_null()) return read_deployment(node, base_directory);
  KVIST_TRY(const std::string path, node.as_string());
  const std::string file = (std::filesystem::path(base_directory) / path).string();
  auto root = YamlNode::load(file);
  if (!root) return std::unexpected(node.error(root.error().message));
  KVIST_TRY(const YamlNode deployment, root->require("deployment"));
  KVIST_TRY_VOID(root->finish());
  return read_deployment(deployment, std::filesystem::path(file).parent_path().string());
}

/// A sweep compares what is done with one load, which is for one model.
Result<void> check_one_model(const YamlNode& sweep, const DeploymentSpec& deployment) {
  if (deployment.gateway.models.empty()) return {};
  return std::unexpected(sweep.get("deployment")
                             .value_or(sweep)
                             .error("the gateway serves several models: a sweep measures one, so describe that one "
                                    "alone, without `models`"));
}

/// Levels of open arrivals are rates; the number of conversations at once has its own limit.
Result<std::vector<std::uint32_t>> read_levels(const YamlNode& sweep, const SweepSpec& spec) {
  const std::uint32_t max_in_flight = spec.deployment.gateway.max_in_flight;
  const ArrivalSpec& arrivals = spec.workload.arrivals;
  if (!arrivals.is_open()) return read_levels(sweep, max_in_flight);
  if (arrivals.max_conversations > max_in_flight) {
    const YamlNode workload = sweep.get("workload").value_or(sweep);
    return std::unexpected(workload.get("max_conversations")
                               .value_or(workload)
                               .error(fmt::format("max_conversations ({}) exceeds the gateway's max_in_flight of {}",
                                                  arrivals.max_conversations, max_in_flight)));
  }
  return read_levels(sweep, kMaxLevel);
}

/// Only a number of conversations at once can be raised while they run.
Result<void> check_between_levels(const YamlNode& sweep, const SweepSpec& spec) {
  if (spec.method.between_levels == BetweenLevels::kDrain) return {};
  const bool replays = !spec.workload.trace.file.empty();
  if (!replays && !spec.workload.arrivals.is_open()) return {};
  return std::unexpected(
      sweep.get("method")
          ->get("between_levels")
          ->error(fmt::format("\"continue\" raises the number of conversations at once, which {} does not know",
                              replays ? "a replayed trace" : "a load of open arrivals")));
}

/// Refuses arms that nothing could make.
Result<void> check_arms(const YamlNode& sweep, const SweepSpec& spec) {
  const YamlNode place = sweep.get("arms").value_or(sweep.get("modes").value_or(sweep));
  for (const ArmSpec& arm : arms_of(spec)) {
    const auto refuse = [&](const char* what) {
      return std::unexpected(place.error(fmt::format("arm {}: {}", arm.arm.name(), what)));
    };
    if (!spec.target.is_given()) {
      if (!arm.url.empty() || !arm.command.empty()) return refuse("url and command are for a running target");
      if (!arm.mode) return refuse("it needs a mode");
    } else if (arm.mode && spec.target.admin.empty() && !spec.target.dynamo && arm.command.empty()) {
      return refuse(
          "its mode cannot be switched: target.admin names no gateway, target.dynamo no graph, and the arm "
          "no command");
    }
  }
  return {};
}

/// Refuses a rule that waits for a figure which the sweep does not have.
Result<void> check_stop_rule(const YamlNode& sweep, const SweepSpec& spec) {
  if (!spec.comparison.stop_when) return {};
  const std::optional<Headline> figure = find_figure(spec.comparison.stop_when->metric);
  if (!figure) return {};
  const auto missing = missing_for(*figure, spec);
  if (!missing) return {};
  return std::unexpected(sweep.get("comparison")->get("stop_when")->error(*missing));
}

/// Refuses proofs that the target cannot give.
Result<void> check_comparison(const YamlNode& sweep, const SweepSpec& spec) {
  const auto node = sweep.get("comparison");
  const auto refuse = [&](const char* what) { return std::unexpected(node.value_or(sweep).error(what)); };
  if (!spec.target.is_given()) return {};
  if (spec.comparison.caches == CacheProof::kRestart) {
    return refuse("caches: restart is for deployments that the sweep starts; say reset, nonce or none");
  }
  if (spec.comparison.caches == CacheProof::kReset && spec.target.workers.empty()) {
    return refuse("caches: reset needs target.workers, whose caches it empties");
  }
  return {};
}

/// A change after the last answer of a level changes nothing.
Result<void> check_changes(const YamlNode& sweep, const SweepSpec& spec) {
  const MethodSpec& method = spec.method;
  const auto loads =
      method.between_levels == BetweenLevels::kContinue ? std::max<std::size_t>(1, spec.levels.size()) : 1;
  const Duration measured = method.warmup + method.snapshots * method.snapshot_interval;
  const Duration end = static_cast<Duration::rep>(loads) * measured + method.drain_timeout;
  for (std::size_t i = 0; i < spec.simulation.changes.size(); ++i) {
    const WorkerChange& change = spec.simulation.changes[i];
    if (change.at < end) continue;
    return std::unexpected(
        sweep.get("simulation")
            ->get("changes")
            ->error(fmt::format("change {} of {} comes at {}, and the load has ended by {} (warm-up, "
                                "measurement and drain)",
                                i + 1, change.worker, seconds_text(change.at), seconds_text(end))));
  }
  return {};
}

/// A nonce has to come before the conversation's own text, which only drawn conversations have room for; so have frozen
/// replies.
Result<void> check_texts(const YamlNode& sweep, const SweepSpec& spec) {
  const bool changes = spec.comparison.caches == CacheProof::kNonce || spec.comparison.replies == ArmReplies::kFrozen;
  if (!changes || spec.workload.trace.file.empty()) return {};
  return std::unexpected(sweep.get("comparison")
                             .value_or(sweep)
                             .error("the prompts of a trace are as it says: neither a nonce nor frozen replies go "
                                    "into them; say caches: restart, reset or none, and replies: live"));
}

/// Refuses requests that are too large for every worker, which would fail in every level, before anything is started.
Result<void> check_lengths(const YamlNode& sweep, const SweepSpec& spec) {
  if (!spec.workload.trace.file.empty()) return {};  // its requests have lengths of their own
  const std::uint64_t longest = longest_request_tokens(spec.workload);
  for (const WorkerSpec& worker : spec.deployment.workers) {
    if (longest <= worker.max_model_len) continue;
    const auto& w = spec.workload;
    return std::unexpected(
        sweep.get("workload")
            .value_or(sweep)
            .error(fmt::format("a conversation can come to {} tokens (starter {}, {} answers of {}, {} follow-ups of "
                               "{}, chat template), but "
                               "max_model_len of {} is {}",
                               longest, w.starter_tokens_max, w.turns_max, w.max_tokens, w.turns_max - 1,
                               w.follow_up_tokens_max, worker.name, worker.max_model_len)));
  }
  return {};
}

}  // namespace

Result<SweepSpec> read_sweep(const YamlNode& node, const std::string& base_directory) {
  SweepSpec sweep;
  KVIST_TRY_VOID(read_name(node, "name", sweep.name));
  for (const char* part : {"deployment", "workload", "method", "simulation", "modes", "arms", "levels", "comparison",
                           "target", "agents"}) {
    (void)node.get(part);  // asked for before finish(), so that a misspelt key is reported before a missing one
  }
  KVIST_TRY_VOID(read_field(node, "output_directory", sweep.output_directory));
  KVIST_TRY_VOID(node.finish());
  if (const auto target = node.get("target")) {
    KVIST_TRY(sweep.target, read_target(*target, base_directory));
  }
  if (const auto agents = node.get("agents")) {
    KVIST_TRY(sweep.agents, read_agents(*agents, base_directory));
  }
  if (!sweep.target.is_given() || node.get("deployment")) {
    KVIST_TRY(sweep.deployment, read_deployment_or_path(node, base_directory));
  }
  KVIST_TRY_VOID(check_one_model(node, sweep.deployment));
  if (const auto workload = node.get("workload")) {
    KVIST_TRY(sweep.workload, read_workload(*workload, base_directory));
  }
  if (const auto method = node.get("method")) {
    KVIST_TRY(sweep.method, read_method(*method));
  }
  if (const auto simulation = node.get("simulation")) {
    KVIST_TRY(sweep.simulation, read_simulation(*simulation, sweep.deployment));
  }
  KVIST_TRY(sweep.modes, read_modes(node));
  if (const auto arms = node.get("arms")) {
    KVIST_TRY(sweep.arms, read_arms(*arms));
  }
  const CacheProof usual = sweep.target.is_given() ? CacheProof::kNonce : CacheProof::kRestart;
  sweep.comparison.caches = usual;
  if (const auto comparison = node.get("comparison")) {
    KVIST_TRY(sweep.comparison, read_comparison(*comparison, usual));
  }
  KVIST_TRY_VOID(check_arms(node, sweep));
  KVIST_TRY_VOID(check_comparison(node, sweep));
  KVIST_TRY_VOID(check_stop_rule(node, sweep));
  KVIST_TRY_VOID(check_texts(node, sweep));
  KVIST_TRY(sweep.levels, read_levels(node, sweep));
  KVIST_TRY_VOID(check_lengths(node, sweep));
  KVIST_TRY_VOID(check_changes(node, sweep));
  KVIST_TRY_VOID(check_between_levels(node, sweep));
  if (sweep.agents.are_given()) {
    if (const auto unfit = unfit_for_agents(sweep)) return std::unexpected(node.get("agents")->error(*unfit));
  }
  return sweep;
}

std::optional<std::string> unfit_for_agents(const SweepSpec& sweep) {
  const bool tls = std::ranges::any_of(sweep.agents.urls, [](const auto& url) { return url.starts_with("https://"); });
  if (!sweep.agents.ca.empty() && !tls) return "ca is for agents with https://";
  if (!sweep.workload.trace.file.empty())
    return "a trace is driven by one process: agents divide conversations; leave out agents or workload.trace";
  if (sweep.method.between_levels == BetweenLevels::kContinue)
    return "agents drive each level as a load of its own: leave out agents, or method.between_levels: continue";
  return std::nullopt;
}

bool has_schedule(const WorkloadSpec& workload) {
  return workload.trace.file.empty() ? workload.arrivals.is_open() : workload.trace.loop == TraceLoop::kOpen;
}

std::optional<std::string> missing_for(Headline figure, const SweepSpec& sweep) {
  if (needs_limits(figure) && !sweep.method.goodput.is_given()) {
    return fmt::format("{} needs the limits of a good turn: method.goodput", key_of(figure));
  }
  if (needs_schedule(figure) && !has_schedule(sweep.workload)) {
    return fmt::format("{} needs turns that are due by a schedule: workload.arrivals, or an open trace",
                       key_of(figure));
  }
  return std::nullopt;
}

std::vector<ArmSpec> arms_of(const SweepSpec& sweep) {
  if (!sweep.arms.empty()) return sweep.arms;
  std::vector<ArmSpec> arms;
  for (const RoutingMode mode : sweep.modes) arms.push_back({.arm = mode, .mode = mode});
  return arms;
}

std::string to_yaml(const SweepSpec& sweep) {
  YamlWriter out(0);
  out.field("name", sweep.name);
  write_target(out, sweep.target);
  write_agents(out, sweep.agents);
  out.begin_map("deployment").lines(to_yaml(sweep.deployment, out.indent())).end_map();
  out.begin_map("workload").lines(to_yaml(sweep.workload, out.indent())).end_map();
  out.begin_map("method").field("warmup", sweep.method.warmup).field("snapshots", sweep.method.snapshots);
  out.field("snapshot_interval", sweep.method.snapshot_interval).field("window", sweep.method.window);
  out.field("drain_timeout", sweep.method.drain_timeout).field("max_error_pct", sweep.method.max_error_pct);
  out.field("repetitions", sweep.method.repetitions);
  out.field("between_levels", word_of(kBetweenLevelsWords, sweep.method.between_levels));
  write_goodput(out, sweep.method.goodput);
  out.end_map();
  write_simulation(out, sweep.simulation);
  if (sweep.comparison != ComparisonSpec{}) write_comparison(out, sweep.comparison);
  if (sweep.arms.empty()) {
    std::vector<std::string_view> modes;
    modes.reserve(sweep.modes.size());
    for (const RoutingMode mode : sweep.modes) modes.push_back(to_string(mode));
    out.raw("modes", fmt::format("[{}]", fmt::join(modes, ", ")));
  } else {
    write_arms(out, sweep.arms);
  }
  out.raw("levels", fmt::format("[{}]", fmt::join(sweep.levels, ", ")));
  out.field("output_directory", sweep.output_directory);
  return out.take();
}

}  // namespace kvist::spec
