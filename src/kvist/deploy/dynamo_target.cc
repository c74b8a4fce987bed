#include "kvist/deploy/dynamo_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/deploy/dynamo_graph.h"
#include "kvist/net/event_loop.h"

namespace kvist::deploy {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(500);

Result<std::int64_t> generation_of(const std::string& object) {
  KVIST_TRY(const GraphReadiness readiness, read_graph_readiness(object));
  return readiness.generation;
}

}  // namespace

Result<std::unique_ptr<DynamoTarget>> DynamoTarget::create(const spec::TargetSpec& target) {
  const spec::DynamoTargetSpec& dynamo = *target.dynamo;
  KVIST_TRY(std::unique_ptr<RunningTarget> running, RunningTarget::create(target));
  KVIST_TRY(
      ClusterSession session,
      ClusterSession::create(dynamo.kubeconfig, dynamo.name_space,
                             {.name = dynamo.field_manager, .force = dynamo.force, .setting = "target.dynamo.force"}));
  return std::unique_ptr<DynamoTarget>(new DynamoTarget(dynamo, std::move(running), std::move(session)));
}

DynamoTarget::DynamoTarget(spec::DynamoTargetSpec dynamo, std::unique_ptr<RunningTarget> target, ClusterSession session)
    : dynamo_(std::move(dynamo)), target_(std::move(target)), session_(std::move(session)) {}

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
  const auto before = session_.get(kubernetes::kDynamoGraphDeployments, dynamo_.name);
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
  KVIST_TRY(const std::string manifest, dynamo_manifest(dynamo_, deployment_, session_.name_space(), mode, 0));
  return session_.apply(kubernetes::kDynamoGraphDeployments, dynamo_.name, manifest, until);
}

Result<void> DynamoTarget::await_graph(const Until& until) const {
  std::string last = "nothing is known of it yet";
  while (true) {
    const auto object = session_.get(kubernetes::kDynamoGraphDeployments, dynamo_.name);
    if (object) {
      KVIST_TRY(const GraphReadiness readiness, read_graph_readiness(*object));
      if (readiness.done()) return {};
      last = fmt::format("generation {} of {}, {} {}", readiness.observed, readiness.generation, readiness.reason,
                         readiness.message);
      if (readiness.observed >= readiness.generation && readiness.state == "failed")
        return fail(ErrorCode::kUnavailable,
                    fmt::format("DynamoGraphDeployment {} has failed: {}", dynamo_.name, last));
    } else if (ClusterSession::is_temporary(object.error())) {
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
