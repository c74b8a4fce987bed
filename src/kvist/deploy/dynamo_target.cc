#include "kvist/deploy/dynamo_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "kvist/deploy/dynamo_graph.h"
#include "kvist/net/event_loop.h"

namespace kvist::deploy {
namespace {

constexpr Duration kApiTimeout = std::chrono::seconds(30);
constexpr Duration kLook = std::chrono::milliseconds(500);
/// Between attempts where the server names no time.
constexpr Duration kPause = std::chrono::seconds(1);

std::optional<std::string> variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Result<std::int64_t> generation_of(const std::string& object) {
  KVIST_TRY(const GraphReadiness readiness, read_graph_readiness(object));
  return readiness.generation;
}

/// Whether to ask again: the server is busy, or makes its store of a new kind.
bool is_temporary(const kubernetes::ApiError& error) {
  using Kind = kubernetes::ApiErrorKind;
  return error.kind == Kind::kThrottled || error.kind == Kind::kUnreachable || error.kind == Kind::kServerError;
}

}  // namespace

Result<std::unique_ptr<DynamoTarget>> DynamoTarget::create(const spec::TargetSpec& target) {
  KVIST_TRY(std::unique_ptr<RunningTarget> running, RunningTarget::create(target));
  KVIST_TRY(kubernetes::ClusterAccess access, kubernetes::find_access(target.dynamo->kubeconfig, variable));
  std::string name_space = target.dynamo->name_space.empty() ? access.name_space : target.dynamo->name_space;
  KVIST_TRY(kubernetes::BlockingClient client, kubernetes::BlockingClient::create(std::move(access)));
  return std::unique_ptr<DynamoTarget>(
      new DynamoTarget(*target.dynamo, std::move(name_space), std::move(running), std::move(client)));
}

DynamoTarget::DynamoTarget(spec::DynamoTargetSpec dynamo, std::string name_space, std::unique_ptr<RunningTarget> target,
                           kubernetes::BlockingClient client)
    : dynamo_(std::move(dynamo)),
      name_space_(std::move(name_space)),
      target_(std::move(target)),
      client_(std::move(client)) {}

kubernetes::Collection DynamoTarget::graphs() const {
  return {.resource = kubernetes::kDynamoGraphDeployments, .name_space = name_space_};
}

Result<void> DynamoTarget::apply(const spec::DeploymentSpec& deployment, const Until& until) {
  deployment_ = deployment;
  KVIST_TRY_VOID(target_->apply(deployment, until));
  return switch_to(deployment.gateway.mode, until);
}

Result<void> DynamoTarget::enter(const spec::ArmSpec& arm, const Until& until) {
  if (arm.mode) KVIST_TRY_VOID(switch_to(*arm.mode, until));
  spec::ArmSpec rest = arm;
  rest.mode.reset();
  return target_->enter(rest, until);
}

Result<void> DynamoTarget::set_routing_mode(spec::RoutingMode mode) {
  return switch_to(mode, {.deadline = net::now() + dynamo_.ready_timeout, .stop = {}});
}

Result<void> DynamoTarget::switch_to(spec::RoutingMode mode, const Until& until) {
  if (mode_ == mode) return {};
  const Until patient{.deadline = std::max(until.deadline, net::now() + dynamo_.ready_timeout), .stop = until.stop};
  mode_.reset();
  const auto before = client_.call(get(graphs(), dynamo_.name), kApiTimeout);
  std::int64_t generation = 0;
  if (before) {
    KVIST_TRY(generation, generation_of(*before));
  }
  KVIST_TRY(const std::string applied, apply_manifest(mode, patient));
  KVIST_TRY(const std::int64_t now, generation_of(applied));
  if (now != generation) ++redeployments_;
  KVIST_TRY_VOID(await_graph(patient));
  for (std::uint32_t i = 0; i < dynamo_.warm_up_requests; ++i) KVIST_TRY_VOID(target_->await_ready(patient));
  mode_ = mode;
  return {};
}

Result<std::string> DynamoTarget::apply_manifest(spec::RoutingMode mode, const Until& until) const {
  KVIST_TRY(const std::string manifest, dynamo_manifest(dynamo_, deployment_, name_space_, mode, 0));
  while (true) {
    auto applied = client_.call(
        kubernetes::apply(graphs(), dynamo_.name, manifest, dynamo_.field_manager, dynamo_.force), kApiTimeout);
    if (applied) return *std::move(applied);
    Error error = to_error(applied.error()).in(fmt::format("DynamoGraphDeployment {}/{}", name_space_, dynamo_.name));
    if (applied.error().kind == kubernetes::ApiErrorKind::kFieldManagerConflict)
      error.message += "; let that manager give the field up, or say target.dynamo.force: true to take it";
    const TimePoint next = net::now() + applied.error().retry_after.value_or(kPause);
    if (!is_temporary(applied.error()) || next >= until.deadline) return std::unexpected(std::move(error));
    if (!sleep_until(next, until.stop)) return fail(ErrorCode::kCancelled, "interrupted");
  }
}

Result<void> DynamoTarget::await_graph(const Until& until) const {
  std::string last = "nothing is known of it yet";
  while (true) {
    const auto object = client_.call(get(graphs(), dynamo_.name), kApiTimeout);
    if (object) {
      KVIST_TRY(const GraphReadiness readiness, read_graph_readiness(*object));
      if (readiness.done()) return {};
      last = fmt::format("generation {} of {}, {} {}", readiness.observed, readiness.generation, readiness.reason,
                         readiness.message);
      if (readiness.observed >= readiness.generation && readiness.state == "failed")
        return fail(ErrorCode::kUnavailable,
                    fmt::format("DynamoGraphDeployment {} has failed: {}", dynamo_.name, last));
    } else if (is_temporary(object.error())) {
      last = to_error(object.error()).message;
    } else {
      return std::unexpected(to_error(object.error()));
    }
    if (net::now() + kLook >= until.deadline)
      return fail(ErrorCode::kDeadlineExceeded,
                  fmt::format("DynamoGraphDeployment {} is not ready: {}", dynamo_.name, last));
    if (!sleep_until(net::now() + kLook, until.stop)) return fail(ErrorCode::kCancelled, "interrupted");
  }
}

}  // namespace kvist::deploy
