#include "kvist/sweep/agent_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/deploy/until.h"
#include "kvist/loadgen/agents/agent.h"
#include "kvist/net/admin_listener.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/sha256.h"
#include "kvist/sweep/level_agents.h"
#include "kvist/workload/past_snapshot.h"

namespace kvist::sweep {
namespace {

constexpr Duration kOpenTimeout = std::chrono::seconds(120);  // texts of a large load take long
/// Longer than the lease of an agent whose coordinator was killed (loadgen::AgentOptions::lease).
constexpr Duration kBusyTimeout = std::chrono::seconds(45);
constexpr Duration kBusyPeriod = std::chrono::seconds(1);
constexpr Duration kReleaseTimeout = std::chrono::seconds(5);
constexpr std::chrono::milliseconds kReadySlice(20);  // the latency of an interrupt

/// "10.0.0.5" of "http://10.0.0.5:9400", "::1" of "http://[::1]:9400".
std::string host_of(std::string_view url) {
  url.remove_prefix(std::min(url.size(), url.find("://") + 3));
  if (url.starts_with('[')) return std::string(url.substr(1, url.find(']') - 1));
  return std::string(url.substr(0, url.find(':')));
}

Result<loadgen::RemoteLoadOptions> remote_options(const AgentLoadOptions& options) {
  const loadgen::LevelOrder& order = options.order;
  loadgen::RemoteLoadOptions remote;
  KVIST_TRY(remote.agents, loadgen::agent_urls(options.agents.urls));
  KVIST_TRY_VOID(check_reach(remote.agents, order.target));
  KVIST_TRY(remote.server, loadgen::agent_settings(remote.agents, options.agents.key_file, options.agents.ca));
  KVIST_TRY(const auto texts, workload::prepare_texts(order.workload, options.input, order.seed));
  loadgen::AgentOrder own;
  own.options.workload = order.workload;
  own.options.input = options.input;
  own.level = order.level;
  own.seed = order.seed;
  remote.load = {.name = {},
                 .order = loadgen::level_order_json(order),
                 .schedule = loadgen::schedule_digest(own, texts),
                 .watched = options.watch != nullptr};
  remote.workload = order.workload;
  remote.level = order.level;
  remote.seed = order.seed;
  return remote;
}

}  // namespace

Result<void> check_reach(const std::vector<std::string>& agents, const std::string& target) {
  if (!net::is_loopback(host_of(target))) return {};
  for (const std::string& agent : agents) {
    if (net::is_loopback(host_of(agent))) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("agent {} cannot reach {}, which is of this machine alone: give the gateway an address "
                            "that it can (deployment.gateway.http), or measure a target",
                            agent, target));
  }
  return {};
}

Result<std::unique_ptr<AgentLoad>> AgentLoad::create(AgentLoadOptions options) {
  std::unique_ptr<AgentLoad> load(new AgentLoad(std::move(options)));
  Result<loadgen::RemoteLoadOptions> remote = remote_options(load->options_);
  Result<void> opened = remote ? load->open(*remote) : std::unexpected(remote.error());
  if (!opened) return std::unexpected(std::move(opened).error().in("agents"));
  if (load->options_.watch) load->options_.watch->attach(load->thread_.loop(), *load->load_);
  return load;
}

AgentLoad::~AgentLoad() {
  if (options_.watch) options_.watch->detach();
  // Who is told now is free at once, and not only after its lease.
  (void)stop(false).wait_for(kReleaseTimeout);
  thread_.end([this] { load_.reset(); });
}

Result<void> AgentLoad::open(const loadgen::RemoteLoadOptions& remote) {
  const TimePoint busy_until = net::now() + kBusyTimeout;
  bool said = false;
  for (;;) {
    Result<void> opened = open_once(remote, net::now() + kOpenTimeout);
    const bool is_busy = !opened && opened.error().code == ErrorCode::kResourceExhausted;
    if (!is_busy || net::now() >= busy_until) return opened;
    if (!std::exchange(said, true)) options_.progress(fmt::format("waiting: {}", opened.error().message));
    if (!deploy::sleep_until(net::now() + kBusyPeriod, options_.stop)) {
      return fail(ErrorCode::kCancelled, "interrupted");
    }
  }
}

Result<void> AgentLoad::open_once(const loadgen::RemoteLoadOptions& remote, TimePoint deadline) {
  const auto promise = std::make_shared<std::promise<Result<void>>>();
  std::future<Result<void>> ready = promise->get_future();
  KVIST_TRY(Result<void> made,
            thread_.ask([this, promise, remote = loadgen::RemoteLoadOptions(remote)]() mutable -> Result<void> {
              remote.load.name = net::random_text(18);
              KVIST_TRY(load_, loadgen::RemoteLoad::create(thread_.loop(), std::move(remote)));
              load_->open([promise](Result<void> opened) { promise->set_value(std::move(opened)); });
              return {};
            }));
  KVIST_TRY_VOID(std::move(made));
  while (ready.wait_for(kReadySlice) != std::future_status::ready) {
    if (options_.stop.stop_requested()) return fail(ErrorCode::kCancelled, "interrupted");
    if (net::now() >= deadline) {
      return fail(ErrorCode::kDeadlineExceeded,
                  fmt::format("not all were ready after {:g} s", to_seconds(kOpenTimeout)));
    }
  }
  return ready.get();
}

Result<std::optional<TimePoint>> AgentLoad::start(std::uint32_t concurrency, std::uint64_t seed) {
  using Begins = Result<std::optional<TimePoint>>;
  KVIST_TRY(Begins begins, thread_.ask([=, this]() -> Begins {
    KVIST_TRY_VOID(load_->start(concurrency, seed));
    return load_->begins_at();
  }));
  return begins;
}

Result<void> AgentLoad::raise(std::uint32_t /*concurrency*/) {
  return fail(ErrorCode::kUnsupported, "agents drive each level as a load of its own");
}

std::future<void> AgentLoad::stop(bool drain) {
  const auto promise = std::make_shared<std::promise<void>>();
  thread_.loop().post([this, promise, drain] {
    if (!load_) return promise->set_value();
    load_->stop(drain, [promise] { promise->set_value(); });
  });
  return promise->get_future();
}

Result<std::uint32_t> AgentLoad::in_flight() {
  return thread_.ask([this] { return load_->in_flight(); });
}

Result<workload::Snapshot> AgentLoad::snapshot() {
  return thread_.ask([this] { return load_->progress({}).window; });
}

Result<loadgen::ClientLoad> AgentLoad::client_load() {
  return thread_.ask([this] {
    loadgen::ClientLoad load = load_->client_load();
    load.refused_starts.reset();  // is one agent's; complete() has that of all
    return load;
  });
}

Result<std::vector<workload::TurnSample>> AgentLoad::take_samples() {
  return thread_.ask([this] { return load_->take_samples(); });
}

Result<void> AgentLoad::check_alive() {
  KVIST_TRY(Result<void> alive, thread_.ask([this]() -> Result<void> {
    for (const loadgen::AgentDialogue& agent : load_->coordination().agents()) {
      if (agent.phase() != loadgen::AgentPhase::kLost) continue;
      return fail(ErrorCode::kUnavailable,
                  fmt::format("agent {} was lost ({}): the level is not kept", agent.name(), agent.error()->message));
    }
    return {};
  }));
  return alive;
}

Result<void> AgentLoad::complete(results::LevelRecord& record) {
  for (workload::Snapshot& snapshot : record.snapshots) {
    snapshot = workload::past_snapshot(record.turns, snapshot.at, options_.window);
  }
  struct Told {
    std::vector<loadgen::AgentDialogue> agents;
    workload::HeldBack held_back;
    std::uint64_t refused = 0;
  };
  KVIST_TRY(const Told told, thread_.ask([this] {
    return Told{.agents = load_->coordination().agents(),
                .held_back = load_->held_back(),
                .refused = load_->coordination().samples_refused()};
  }));
  add_agents(told.agents, record);
  const auto begun = static_cast<std::uint64_t>(std::ranges::count(record.turns, 0U, &workload::TurnSample::turn));
  if (auto remark =
          workload::refused_starts(options_.order.workload, told.held_back.not_sent, told.held_back.sent_late, begun)) {
    record.remarks.push_back(*std::move(remark));
  }
  if (told.refused > 0) {
    record.remarks.push_back(fmt::format("{} turns found no room in memory and are in no figure", told.refused));
  }
  return {};
}

}  // namespace kvist::sweep
