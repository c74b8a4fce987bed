#include "kvist/gateway/dns_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

constexpr Duration kLeastPause = std::chrono::seconds(1);

}  // namespace

std::vector<spec::UpstreamSpec> workers_of(const spec::WorkerGroupSpec& group,
                                           const std::vector<net::DnsEndpoint>& endpoints) {
  std::vector<spec::UpstreamSpec> workers;
  workers.reserve(endpoints.size());
  for (const net::DnsEndpoint& endpoint : endpoints) {
    const bool is_v6 = endpoint.address.contains(':');
    const std::string host = is_v6 ? fmt::format("[{}]", endpoint.address) : endpoint.address;
    // A name has no colons.
    std::string name = fmt::format("{}-{}-{}", group.name, endpoint.address, endpoint.port);
    std::ranges::replace(name, ':', '_');
    const auto zmq = [&](std::uint16_t port) { return port == 0 ? "" : fmt::format("tcp://{}:{}", host, port); };
    workers.push_back({.name = std::move(name),
                       .url = fmt::format("{}://{}:{}", group.https ? "https" : "http", host, endpoint.port),
                       .kv_events = zmq(group.kv_events_port),
                       .kv_replay = zmq(group.kv_replay_port),
                       .limits = group.limits,
                       .api_key_file = group.api_key_file,
                       .tls = group.tls});
  }
  return workers;
}

net::DnsQuestion question_of(const spec::WorkerGroupSpec& group) {
  return {.name = group.dns_name, .services = group.services, .port = group.port, .server = group.dns_server};
}

DnsGroups::DnsGroups(net::EventLoop& loop, const std::vector<spec::WorkerGroupSpec>& groups, FleetChanges& changes)
    : changes_(&changes) {
  for (const spec::WorkerGroupSpec& group : groups)
    if (!group.kubernetes) groups_.push_back(std::make_unique<Group>(loop, group));
  if (!groups_.empty()) lookups_ = std::make_unique<net::DnsLookups>(loop);
}

void DnsGroups::start() {
  for (const auto& group : groups_) ask(*group);
}

void DnsGroups::stop() {
  stopped_ = true;
  for (const auto& group : groups_) group->timer.cancel();
}

void DnsGroups::ask(Group& group) {
  ++open_;
  lookups_->ask(question_of(group.spec),
                [this, &group](const Result<net::DnsAnswer>& answer) { on_answer(group, answer); });
}

void DnsGroups::on_answer(Group& group, const Result<net::DnsAnswer>& answer) {
  --open_;
  if (stopped_) return;
  Duration pause = group.spec.interval;
  if (answer) {
    pause = std::min(pause, std::max(answer->ttl, kLeastPause));
    std::vector<spec::UpstreamSpec> workers = workers_of(group.spec, answer->endpoints);
    const FleetPlan plan = plan_of(group.workers, workers);
    if (!plan.empty())
      telemetry::log_info("dns", fmt::format("{} ({}): {} addresses; {} are new, {} are gone", group.spec.name,
                                             group.spec.dns_name, workers.size(), plan.add.size(), plan.drain.size()));
    group.workers = std::move(workers);
    group.problem.clear();
    changes_->carry_out(plan, WorkerSource::kDns);
  } else if (std::exchange(group.problem, answer.error().message) != answer.error().message) {
    telemetry::log_warning("dns", fmt::format("{}: its {} workers stay as they are: {}", group.spec.name,
                                              group.workers.size(), group.problem));
  }
  group.timer.arm(net::now() + pause, [this, &group] { ask(group); });
}

}  // namespace kvist::gateway
