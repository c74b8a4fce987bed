#include "kvist/deploy/local_deployer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <ranges>

#include "kvist/base/check.h"
#include "kvist/base/output_file.h"
#include "kvist/deploy/ready_line.h"
#include "kvist/deploy/upstreams.h"
#include "kvist/net/event_loop.h"

namespace kvist::deploy {
namespace {

/// Somebody waits for the end of a deployment on this machine, so its answers get no more time than this to end.
constexpr Duration kLongestDrain = std::chrono::seconds(5);

/// Routing modes come from the specification alone, so that a variable of the user's shell does not change one half of
/// a comparison.
const std::vector<std::string> kUnsetVariables = {"KVIST_ROUTER_MODE", "DYN_ROUTER_MODE"};

/// The address at which a service that listens on `host` can be reached.
std::string reachable(const std::string& host, std::uint16_t port) {
  if (host == "0.0.0.0") return fmt::format("127.0.0.1:{}", port);
  if (host == "::") return fmt::format("[::1]:{}", port);
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

spec::UpstreamSpec upstream_of(const spec::WorkerSpec& worker, const ReadyPorts& ports) {
  spec::UpstreamSpec upstream;
  upstream.name = worker.name;
  upstream.url = "http://" + reachable(worker.http.host, ports.http);
  if (ports.kv_events != 0) upstream.kv_events = "tcp://" + reachable(worker.http.host, ports.kv_events);
  if (ports.kv_replay != 0) upstream.kv_replay = "tcp://" + reachable(worker.http.host, ports.kv_replay);
  return upstream;
}

PartAddress address_of(const std::string& name, const spec::Endpoint& http, const spec::Endpoint& admin,
                       const ReadyPorts& ports) {
  return {.name = name,
          .url = "http://" + reachable(http.host, ports.http),
          .admin = "http://" + reachable(admin.host, ports.admin)};
}

Result<ReadyPorts> await_ports(ChildProcess& child, const Until& until) {
  KVIST_TRY(const std::string line, child.read_line(until));
  auto ports = parse_ready_line(line);
  if (!ports) return std::unexpected(std::move(ports).error().in(child.name()));
  return *ports;
}

}  // namespace

Result<void> LocalDeployer::apply(const spec::DeploymentSpec& deployment, const Until& until) {
  stop();
  std::error_code error;
  std::filesystem::create_directories(options_.run_directory, error);
  if (error) return fail(ErrorCode::kInternal, fmt::format("{}: {}", options_.run_directory, error.message()));
  auto started = start_all(deployment, until);
  if (!started) stop();
  return started;
}

Result<void> LocalDeployer::start_all(const spec::DeploymentSpec& deployment, const Until& until) {
  // Starts all workers, then waits for their lines one by one, so that they start in parallel.
  for (spec::WorkerSpec worker : deployment.workers) {
    worker.drain_timeout = std::min(worker.drain_timeout, kLongestDrain);
    if (worker.name == kGatewayName) return fail(ErrorCode::kInvalidArgument, "a worker must not be called gateway");
    KVIST_TRY_VOID(start_part(worker.name, "worker", "worker:\n" + spec::to_yaml(worker, 2)));
  }
  spec::GatewaySpec gateway = without_upstreams(deployment.gateway);
  gateway.drain_timeout = std::min(gateway.drain_timeout, kLongestDrain);
  Addresses addresses;
  for (const spec::ServedModelSpec& model : spec::served_models(gateway)) addresses.models.push_back(model.model);
  for (std::size_t i = 0; i < deployment.workers.size(); ++i) {
    KVIST_TRY(const ReadyPorts ports, await_ports(children_[i], until));
    const spec::WorkerSpec& worker = deployment.workers[i];
    fleet_of(gateway, worker.model).push_back(upstream_of(worker, ports));
    addresses.workers.push_back(address_of(worker.name, worker.http, worker.admin, ports));
    addresses.workers.back().model = worker.model;
  }
  KVIST_TRY_VOID(start_part(std::string(kGatewayName), "gateway", "gateway:\n" + spec::to_yaml(gateway, 2)));
  KVIST_TRY(const ReadyPorts ports, await_ports(children_.back(), until));
  addresses.gateway = address_of(std::string(kGatewayName), gateway.http, gateway.admin, ports);
  client_.emplace(std::move(addresses), [this] { return check_alive(); });
  return {};
}

Result<void> LocalDeployer::start_part(const std::string& name, const std::string& kind, const std::string& yaml) {
  const std::string stem = (std::filesystem::path(options_.run_directory) / name).string();
  KVIST_TRY_VOID(write_file(stem + ".yaml", yaml));
  KVIST_TRY(ChildProcess child, ChildProcess::start({.name = name,
                                                     .executable = options_.executable,
                                                     .arguments = {kind, "-f", stem + ".yaml"},
                                                     .log_path = stem + ".log",
                                                     .unset = kUnsetVariables}));
  children_.push_back(std::move(child));
  return {};
}

Result<const DeploymentClient*> LocalDeployer::running() const {
  if (!client_) return fail(ErrorCode::kUnavailable, "no deployment is running");
  return &*client_;
}

Result<void> LocalDeployer::await_ready(const Until& until) {
  KVIST_TRY(const DeploymentClient* client, running());
  return client->await_ready(until);
}

Result<void> LocalDeployer::set_routing_mode(spec::RoutingMode mode) {
  KVIST_TRY(const DeploymentClient* client, running());
  return client->set_routing_mode(mode);
}

Result<void> LocalDeployer::empty_caches(const Until& until) {
  KVIST_TRY(const DeploymentClient* client, running());
  return client->empty_caches(until);
}

Result<std::vector<WorkerMetrics>> LocalDeployer::collect() {
  KVIST_TRY(const DeploymentClient* client, running());
  KVIST_TRY_VOID(check_alive());
  return client->collect();
}

Result<void> LocalDeployer::await_idle(const Until& until) {
  KVIST_TRY(const DeploymentClient* client, running());
  return client->await_idle(until);
}

Result<void> LocalDeployer::check_alive() {
  for (ChildProcess& child : children_) KVIST_TRY_VOID(child.check_running());
  return {};
}

const Addresses& LocalDeployer::addresses() const {
  KVIST_CHECK(client_.has_value(), "addresses() before apply()");
  return client_->addresses();
}

void LocalDeployer::stop() {
  client_.reset();
  if (children_.empty()) return;
  // The gateway is stopped first, so that it does not count the ends of its workers as failures.
  const bool has_gateway = children_.back().name() == kGatewayName;
  if (has_gateway) {
    children_.back().terminate();
    children_.back().wait(net::now() + options_.stop_timeout);
  }
  for (ChildProcess& child : children_) child.terminate();
  const TimePoint deadline = net::now() + options_.stop_timeout;
  for (ChildProcess& child : children_) child.wait(deadline);
  children_.clear();
}

}  // namespace kvist::deploy
