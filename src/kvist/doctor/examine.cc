#include "kvist/doctor/examine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace kvist::doctor {
namespace {

using Kind = EngineFacts::Kind;
using gateway::TokenizerMatch;

constexpr double kMostClockError = 5;  // seconds; a Date field has whole ones

class Examination {
 public:
  /// `model`: whose the snapshot is, if there are several.
  explicit Examination(const Snapshot& snapshot, std::string model = {})
      : snapshot_(&snapshot), fleet_(model.empty() ? "fleet" : "fleet of " + model) {}

  [[nodiscard]] std::vector<Finding> run() {
    for (const auto& [setting, problem] : snapshot_->files)
      error("file_unusable", setting, problem, "a file that this user can read");
    for (const auto& [setting, problem] : snapshot_->profiles)
      error("profile_unusable", setting, problem, "names that there are, and settings that fit the GPU's memory");
    check_ports();
    check_dns();
    for (const ClusterFacts& cluster : snapshot_->clusters) check(cluster);
    for (const WorkerFacts& worker : snapshot_->workers) check(worker);
    check_fleet();
    check_machine();
    if (snapshot_->runs) check_gateway();
    return std::move(findings_);
  }

 private:
  void add(Severity severity, std::string_view id, std::string where, std::string what, std::string right) {
    findings_.push_back({severity, id, std::move(where), std::move(what), std::move(right)});
  }
  void error(std::string_view id, std::string where, std::string what, std::string right) {
    add(Severity::kError, id, std::move(where), std::move(what), std::move(right));
  }
  void warning(std::string_view id, std::string where, std::string what, std::string right) {
    add(Severity::kWarning, id, std::move(where), std::move(what), std::move(right));
  }
  void info(std::string_view id, std::string where, std::string what, std::string right) {
    add(Severity::kInfo, id, std::move(where), std::move(what), std::move(right));
  }
  /// What only matters where routing looks at caches.
  void of_events(std::string_view id, std::string where, std::string what, std::string right) {
    add(snapshot_->uses_events ? Severity::kError : Severity::kWarning, id, std::move(where), std::move(what),
        std::move(right));
  }

  void check_ports() {
    for (const PortFacts& port : snapshot_->ports) {
      if (port.problem.empty()) continue;
      if (port.by_gateway) {
        info("gateway_runs", port.what, fmt::format("a kvist gateway listens on {} already", port.address),
             "nothing, if it was started with this file: kvist doctor --gateway examines it; otherwise another port");
        continue;
      }
      error("port_in_use", port.what, fmt::format("cannot listen on {}: {}", port.address, port.problem),
            "a free port of an address of this machine, or end what listens there (ss -ltnp shows it)");
    }
  }

  void check_dns() {
    for (const DnsFacts& dns : snapshot_->dns) {
      const std::string where = "workers " + dns.group;
      if (!dns.problem.empty()) {
        error("dns_fails", where, fmt::format("{}: {}", dns.name, dns.problem),
              "a name with addresses; for SRV records `record: srv`, for another name server `server`");
      } else if (dns.unexamined > 0) {
        info("dns_many", where,
             fmt::format("{} leads to {} addresses, of which {} were not examined", dns.name, dns.addresses,
                         dns.unexamined),
             "examine the running gateway (--gateway), which has asked all of them");
      }
    }
  }

  void check(const ClusterFacts& cluster) {
    const std::string where = "workers " + cluster.group;
    if (!cluster.answers) {
      error("api_server_unreachable", where, cluster.problem,
            "a kubeconfig, or the service account of a pod, with which the API server answers");
    } else if (!cluster.forbidden.empty()) {
      error("api_forbidden", where,
            fmt::format("{} does not allow in {}: {}", cluster.server, cluster.name_space,
                        fmt::join(cluster.forbidden, ", ")),
            "a Role with list and watch of what is named, as docs/guide/kubernetes.md has it");
    } else if (!cluster.problem.empty()) {
      error("api_fails", where, cluster.problem, "an API server of version 1.21 or later");
    } else if (cluster.workers == 0) {
      warning("service_without_workers", where,
              fmt::format("{}/{} has {}, and no ready endpoint that is a worker", cluster.name_space, cluster.service,
                          cluster.objects),
              "the name of a Service or InferencePool whose pods are ready; its port; pods that `pods` selects");
    }
  }

  void check(const WorkerFacts& worker) {
    const std::string where = "worker " + worker.name;
    if (worker.seen) check_view(worker, *worker.seen, where);
    if (worker.seen && is_wanted(worker.seen->state)) return;
    if (!worker.problem.empty()) {
      // The gateway may reach what this machine does not.
      const bool seen_well = worker.seen && worker.seen->state == "healthy";
      add(seen_well ? Severity::kInfo : Severity::kError, "worker_unreachable", where,
          fmt::format("{} does not answer here: {}", worker.url, worker.problem),
          seen_well ? "the gateway reaches it; examine from the gateway's machine to see more"
                    : "start the worker, or correct its url");
    } else {
      check_answers(worker, where);
    }
    check_events(worker, where);
  }

  void check_view(const WorkerFacts& worker, const GatewayView& view, const std::string& where) {
    if (is_wanted(view.state)) {
      info("worker_leaves", where, fmt::format("the gateway has it as {}", view.state),
           "nothing, if that was asked for: /admin/workers, the file or DNS");
    } else if (view.state != "healthy" && view.state != "other_model") {
      add(view.state == "suspect" || view.state == "trial" ? Severity::kWarning : Severity::kError,
          state_id(view.state), where,
          fmt::format("the gateway has it as {}{}{}", view.state, view.last_problem.empty() ? "" : ": ",
                      view.last_problem),
          "see ejection, failures and last_problem in /admin/status");
    }
    if (view.model_match == "other" && !worker.problem.empty())
      error("model_differs", where, fmt::format("it does not serve {}", snapshot_->model), "one model for all workers");
    if (view.events_silent) {
      of_events("events_silent", where, "it stores blocks, but its KV events have stopped",
                "look at the worker's log for its event publisher; restart the worker if it does not recover");
    }
    if (view.gaps > 0 && view.resets > view.gaps / 2) {
      warning("replay_refused", where,
              fmt::format("its event stream had {:.0f} gaps, and its index was forgotten {:.0f} times: replays do not "
                          "bring back what was lost",
                          view.gaps, view.resets),
              "kv_replay with the address of the worker's replay_endpoint, and enough buffer_steps there");
    }
    if (view.unreadable > 0) {
      of_events("events_unreadable", where,
                fmt::format("{:.0f} batches of its KV events cannot be read", view.unreadable),
                "a worker with vLLM's KV events as in docs/formats/kv-events.md; the gateway's log has the reason");
    }
    if (!worker.events.address.empty() && !view.events_whole && !view.events_silent && view.state == "healthy") {
      of_events("index_not_whole", where, "what its cache holds is not known exactly",
                "kv_events, kv_replay, block size and tokenizer have to be right; it heals with time if they are");
    }
    check_tokenizer(view.tokenizer == "different"  ? TokenizerMatch::kDifferent
                    : view.tokenizer == "not_told" ? TokenizerMatch::kNotTold
                                                   : TokenizerMatch::kSame,
                    where);
  }

  /// Whether somebody has asked for that state.
  static bool is_wanted(std::string_view state) {
    return state == "cordoned" || state == "draining" || state == "leaving";
  }

  /// The words of states are few and fixed; so are the ids.
  static std::string_view state_id(const std::string& state) {
    if (state == "unhealthy") return "worker_unhealthy";
    if (state == "stalled") return "worker_stalled";
    if (state == "ejected") return "worker_ejected";
    return "worker_in_doubt";
  }

  void check_tokenizer(TokenizerMatch match, const std::string& where) {
    if (match == TokenizerMatch::kDifferent) {
      of_events("tokenizer_differs", where, "it makes other tokens of a text or chat than the gateway",
                "tokenizer: the directory of the model that the worker serves, with its chat template");
    } else if (match == TokenizerMatch::kNotTold) {
      info("tokenizer_unknown", where, "it has no /tokenize, so nobody can tell whether it tokenizes as the gateway",
           "compare usage.prompt_tokens of both, or give the worker the endpoint");
    }
  }

  void check_answers(const WorkerFacts& worker, const std::string& where) {
    constexpr int kOk = 200;
    if (worker.health_status != kOk) {
      error("worker_unhealthy", where, fmt::format("GET /health answers {}", worker.health_status),
            "200; the gateway gives it no requests");
    }
    if (worker.models_status == 401 || worker.models_status == 403) {
      // A running gateway's keys are not told, so that its workers are asked without one.
      const bool seen_well = worker.seen && worker.seen->state == "healthy";
      add(seen_well ? Severity::kInfo : Severity::kError, "key_refused", where,
          fmt::format("GET /v1/models answers {}", worker.models_status),
          seen_well ? "the gateway has the key; examine its file to see more"
                    : "worker_api_key_file, or api_key_file of the worker, with the key that it asks for");
    } else if (worker.models_status != kOk) {
      warning("no_model_list", where, fmt::format("GET /v1/models answers {}", worker.models_status),
              "a list; without it nobody notices a worker with another model");
    } else if (std::ranges::find(worker.models, snapshot_->model) == worker.models.end()) {
      std::string names;
      for (const std::string& name : worker.models) names += (names.empty() ? "" : ", ") + name;
      error("model_differs", where,
            fmt::format("it serves {}, not {}", names.empty() ? "nothing" : names, snapshot_->model),
            "the same name in the gateway's `model` and at all workers (vLLM: --served-model-name)");
    }
    check_engine(worker, where);
    if (worker.tokenizer) check_tokenizer(*worker.tokenizer, where);
    check_clock(worker.clock_ahead_s, where);
  }

  void check_engine(const WorkerFacts& worker, const std::string& where) {
    const EngineFacts& engine = worker.engine;
    if (engine.block_size != 0 && engine.block_size != snapshot_->block_size) {
      of_events("block_size_differs", where,
                fmt::format("its KV blocks have {} tokens, the gateway's {}: its events are refused", engine.block_size,
                            snapshot_->block_size),
                fmt::format("block_size: {} in the gateway's file, or --block-size {} at the worker", engine.block_size,
                            snapshot_->block_size));
    }
    if (engine.prefix_caching == false) {
      of_events("prefix_caching_off", where, "it has no prefix cache: nothing is gained from routing by prefix",
                "--enable-prefix-caching at the worker");
    }
    if (engine.kind == Kind::kUnknown) {
      info("engine_unknown", where,
           worker.metrics_status == 200 ? "its /metrics has no names that are known here"
                                        : fmt::format("GET /metrics answers {}", worker.metrics_status),
           "metrics tell the gateway block size, slots and load; `limits` of the worker can say them instead");
    }
  }

  void check_events(const WorkerFacts& worker, const std::string& where) {
    if (worker.seen) return;  // the gateway's view has it
    if (worker.events.address.empty()) {
      if (snapshot_->uses_events) {
        warning("no_events", where,
                fmt::format("mode {} without kv_events: its cache is only guessed", snapshot_->mode),
                "kv_events and kv_replay, and --kv-events-config at the worker (docs/guide/gateway.md)");
      }
      return;
    }
    if (!worker.events.problem.empty()) {
      of_events("events_unreachable", where,
                fmt::format("kv_events {}: {}", worker.events.address, worker.events.problem),
                "the address that the worker's event publisher binds");
    }
    if (worker.events.address.starts_with("tcp://*")) {
      warning(
          "events_listen", where,
          fmt::format("kv_events {}: the gateway listens there, so the worker would have to connect to it",
                      worker.events.address),
          "tcp://HOST:PORT with the worker's host, unless its publisher connects (an engine with tcp://* listens too)");
    }
    if (worker.replay.address.empty()) {
      warning("no_replay", where, "without kv_replay, one lost message makes its index incomplete for long",
              "the worker's replay_endpoint");
    } else if (!worker.replay.problem.empty()) {
      of_events("replay_refused", where, fmt::format("kv_replay {}: {}", worker.replay.address, worker.replay.problem),
                "the address of the worker's replay_endpoint");
    }
  }

  void check_clock(const std::optional<double>& ahead, const std::string& where) {
    if (!ahead || std::abs(*ahead) <= kMostClockError) return;
    warning(
        "clock_differs", where,
        fmt::format("its clock is {:.0f} s {} this machine's", std::abs(*ahead), *ahead > 0 ? "ahead of" : "behind"),
        "clocks kept by NTP: logs, traces and certificates need them; routing does not");
  }

  void check_fleet() {
    std::set<std::uint32_t> contexts;
    std::size_t unseeded = 0;
    for (const WorkerFacts& worker : snapshot_->workers) {
      if (worker.max_model_len != 0) contexts.insert(worker.max_model_len);
      if (worker.engine.kind == Kind::kVllm) ++unseeded;
    }
    if (contexts.size() > 1) {
      warning("context_differs", fleet_,
              fmt::format("workers have contexts of {} to {} tokens: long prompts fit only some of them",
                          *contexts.begin(), *contexts.rbegin()),
              "one --max-model-len for all");
    }
    check_adapters();
    if (unseeded > 1) {
      info("hash_seed", fleet_,
           "vLLM names KV blocks differently in each process, unless all have the same PYTHONHASHSEED",
           "nothing for this gateway, which names blocks by their tokens; set it (0, for instance) where other routers "
           "or "
           "shared KV stores compare the names");
    }
  }

  void check_adapters() {
    std::map<std::string, std::size_t> at;  // how many workers have it
    std::size_t lists = 0;
    for (const WorkerFacts& worker : snapshot_->workers) {
      // Another model's adapters are none of this one's, and it is a finding of its own that a worker serves another.
      if (std::ranges::find(worker.models, snapshot_->model) == worker.models.end()) continue;
      ++lists;
      for (const std::string& adapter : worker.adapters) ++at[adapter];
    }
    std::string some;
    for (const auto& [adapter, workers] : at)
      if (workers < lists) some += fmt::format("{}{} at {}", some.empty() ? "" : ", ", adapter, workers);
    if (some.empty()) return;
    info("adapters_differ", fleet_, fmt::format("of {} workers, not all have each adapter: {}", lists, some),
         "nothing, if it is meant so: requests for an adapter go to the workers that have it");
  }

  void check_machine() {
    const MachineFacts& machine = snapshot_->machine;
    const std::string where = "this machine";
    if (snapshot_->connections == 0) return;
    // Each client may need a connection to a worker too.
    const std::uint64_t needed = 2 * snapshot_->connections + 64;
    if (machine.descriptors != 0 && machine.descriptors < needed) {
      warning(
          "few_descriptors", where,
          fmt::format("a process may open {} files; {} clients may need {}", machine.descriptors,
                      snapshot_->connections, needed),
          fmt::format("LimitNOFILE={} in the service's unit, or ulimit -Hn; or fewer http_limits.connections", needed));
    }
    constexpr std::uint64_t kBacklog = 1'024;
    if (machine.somaxconn != 0 && machine.somaxconn < kBacklog) {
      warning("small_backlog", where,
              fmt::format("net.core.somaxconn is {}: bursts of new connections are refused", machine.somaxconn),
              "sysctl net.core.somaxconn=4096");
    }
    constexpr std::uint64_t kFewPorts = 8'192;
    if (machine.local_ports != 0 && machine.local_ports < kFewPorts) {
      warning("few_local_ports", where,
              fmt::format("net.ipv4.ip_local_port_range has {} ports for connections to workers", machine.local_ports),
              "sysctl net.ipv4.ip_local_port_range=\"32768 60999\"");
    }
  }

  void check_peers(const std::string& where) {
    if (snapshot_->peers_connected == false) {
      warning("peers_cut_off", where, "there is no connection to NATS: it routes as if it were the only gateway",
              "a NATS server at gateway.peers.nats; the gateway's log says why there is none");
    } else if (snapshot_->peers_share_decisions == false) {
      warning("peers_decide_alone", where, "routing modes, cordons and drains are not shared with the other gateways",
              "a NATS server with JetStream (nats-server --jetstream)");
    }
    if (snapshot_->peer_namesakes > 0) {
      error("peers_same_name", where,
            fmt::format("{:.0f} messages came from another gateway of its name and were not used",
                        snapshot_->peer_namesakes),
            "a gateway.peers.name of its own for each");
    }
    if (snapshot_->peer_other_keys > 0) {
      error("peers_differ", where,
            "a gateway of its group has another block_size or model: they cannot share what caches hold",
            "the same block_size and model at all gateways of a group");
    }
    if (snapshot_->peer_parts_wanted > 0) {
      info("peers_lack_caches", where,
           fmt::format("events of {:.0f} workers were missed, and no other gateway has told what their caches hold",
                       snapshot_->peer_parts_wanted),
           "kv_replay with enough buffer_steps at the workers; GET /admin/peers has the last reason");
    }
    if (snapshot_->peer_elsewhere > 0) {
      info("peers_other_workers", where,
           fmt::format("other gateways have {:.0f} requests at workers that are not known here",
                       snapshot_->peer_elsewhere),
           "the same workers, under the same names, at all gateways of a group");
    }
  }

  void check_gateway() {
    const std::string where = "gateway";
    check_clock(snapshot_->clock_ahead_s, where);
    constexpr double kMuch = 0.8;
    if (snapshot_->max_descriptors > 0 && snapshot_->open_descriptors > kMuch * snapshot_->max_descriptors) {
      error("few_descriptors", where,
            fmt::format("{:.0f} of {:.0f} file descriptors are in use", snapshot_->open_descriptors,
                        snapshot_->max_descriptors),
            "a greater LimitNOFILE in its unit");
    }
    if (snapshot_->exhaustions > 0) {
      warning("sockets_exhausted", where,
              fmt::format("{:.0f} calls to workers found no descriptor, port or memory", snapshot_->exhaustions),
              "more descriptors or local ports, or fewer connections");
    }
    check_peers(where);
    if (snapshot_->lost_lines > 0) {
      warning("lines_lost", where,
              fmt::format("{:.0f} requests are missing from access log or record", snapshot_->lost_lines),
              "a disk that is fast enough and has room");
    }
  }

  const Snapshot* snapshot_;
  std::string fleet_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> examine(const Snapshot& snapshot) {
  const bool several = !snapshot.further.empty();
  std::vector<Finding> findings = Examination(snapshot, several ? snapshot.model : "").run();
  for (const Snapshot& model : snapshot.further) {
    for (Finding& finding : Examination(model, model.model).run()) findings.push_back(std::move(finding));
  }
  std::ranges::stable_sort(findings, std::ranges::greater(), &Finding::severity);
  return findings;
}

}  // namespace kvist::doctor
