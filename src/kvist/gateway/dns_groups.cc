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
    : loop_(&loop), changes_(&changes) {
  for (const spec::WorkerGroupSpec& group : groups)
    if (!group.kubernetes) groups_.push_back(std::make_shared<Group>(loop, group));
}

void DnsGroups::start() {
  for (const auto& group : groups_) ask(group);
}

void DnsGroups::stop() {
  stopped_ = true;
  for (const auto& group : groups_) group->timer.cancel();
}

DnsGroups::Groups::iterator DnsGroups::find(const std::string& name) {
  return std::ranges::find(groups_, name, [](const auto& group) { return group->spec.name; });
}

void DnsGroups::carry_out(const GroupPlan& plan) {
  for (const std::string& name : plan.remove) {
    const auto group = find(name);
    if (group == groups_.end()) continue;
    changes_->carry_out(plan_of((*group)->workers, {}), WorkerSource::kDns);
    groups_.erase(group);
  }
  for (const spec::WorkerGroupSpec& spec : plan.replace) {
    const auto group = find(spec.name);
    if (group == groups_.end()) continue;
    std::vector<spec::UpstreamSpec> workers = std::move((*group)->workers);
    *group = std::make_shared<Group>(*loop_, spec);
    (*group)->workers = std::move(workers);
    ask(*group);
  }
  for (const spec::WorkerGroupSpec& spec : plan.add)
    if (!spec.kubernetes) ask(groups_.emplace_back(std::make_shared<Group>(*loop_, spec)));
}

void DnsGroups::ask(const std::shared_ptr<Group>& group) {
  if (!lookups_) lookups_ = std::make_unique<net::DnsLookups>(*loop_);
  ++open_;
  lookups_->ask(question_of(group->spec), [this, asked = std::weak_ptr(group)](const Result<net::DnsAnswer>& answer) {
    --open_;
    if (const auto still = asked.lock(); still && !stopped_) on_answer(still, answer);
  });
}

void DnsGroups::on_answer(const std::shared_ptr<Group>& asked, const Result<net::DnsAnswer>& answer) {
  Group& group = *asked;
  Duration pause = group.spec.interval;
  if (answer) {
    pause = std::min(pause, std::max(answer->ttl, kLeastPause));
    std::vector<spec::UpstreamSpec> workers = workers_of(group.spec, answer->endpoints);
    const FleetPlan plan = plan_of(group.workers, workers);
    if (!plan.empty())
      telemetry::log_info("dns", fmt::format("{} ({}): {} addresses; {} are new, {} have changed, {} are gone",
                                             group.spec.name, group.spec.dns_name, workers.size(), plan.add.size(),
                                             plan.replace.size() + plan.limits.size(), plan.drain.size()));
    group.workers = std::move(workers);
    group.problem.clear();
    changes_->carry_out(plan, WorkerSource::kDns);
  } else if (std::exchange(group.problem, answer.error().message) != answer.error().message) {
    telemetry::log_warning("dns", fmt::format("{}: its {} workers stay as they are: {}", group.spec.name,
                                              group.workers.size(), group.problem));
  }
  group.timer.arm(net::now() + pause, [this, again = std::weak_ptr(asked)] {
    if (const auto due = again.lock()) ask(due);
  });
}

}  // namespace kvist::gateway
