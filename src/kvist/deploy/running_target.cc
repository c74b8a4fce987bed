#include "kvist/deploy/running_target.h"

#include <fmt/format.h>

#include <fstream>
#include <utility>

#include "kvist/deploy/command.h"
#include "kvist/net/event_loop.h"

namespace kvist::deploy {
namespace {

Result<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return fail(ErrorCode::kNotFound, path + ": no key on its first line");
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  if (line.empty()) return fail(ErrorCode::kInvalidArgument, path + ": no key on its first line");
  return line;
}

Addresses addresses_of(const spec::TargetSpec& target, const std::string& key) {
  Addresses addresses{.models = {target.model},
                      .gateway = {.name = "the target", .url = target.url, .admin = target.admin, .api_key = key},
                      .workers = {}};
  for (const spec::TargetWorkerSpec& worker : target.workers) {
    addresses.workers.push_back({.name = worker.name,
                                 .url = worker.url,
                                 .admin = worker.admin.empty() ? worker.url : worker.admin,
                                 .model = target.model});
  }
  return addresses;
}

}  // namespace

Result<std::unique_ptr<RunningTarget>> RunningTarget::create(const spec::TargetSpec& target) {
  std::string key;
  if (!target.api_key_file.empty()) {
    KVIST_TRY(key, first_line(target.api_key_file));
  }
  return std::unique_ptr<RunningTarget>(new RunningTarget(target, addresses_of(target, key)));
}

RunningTarget::RunningTarget(spec::TargetSpec target, Addresses addresses)
    : target_(std::move(target)), client_(std::move(addresses), [] { return Result<void>{}; }) {}

Result<void> RunningTarget::apply(const spec::DeploymentSpec& /*deployment*/, const Until& /*until*/) {
  client_.set_endpoint(target_.url);
  return {};
}

Result<void> RunningTarget::await_ready(const Until& until) {
  return client_.await_answer(until);
}

Result<void> RunningTarget::set_routing_mode(spec::RoutingMode mode) {
  return client_.set_routing_mode(mode);
}

Result<void> RunningTarget::enter(const spec::ArmSpec& arm, const Until& until) {
  if (!arm.command.empty()) {
    KVIST_TRY_VOID(run_command(arm.command, until));
    if (!sleep_until(std::min(net::now() + target_.settle, until.deadline), until.stop)) {
      return fail(ErrorCode::kCancelled, "interrupted");
    }
  }
  client_.set_endpoint(arm.url.empty() ? target_.url : arm.url);
  if (arm.mode && !target_.admin.empty()) KVIST_TRY_VOID(client_.set_routing_mode(*arm.mode));
  return client_.await_answer(until);
}

Result<void> RunningTarget::empty_caches(const Until& until) {
  return client_.empty_caches(until);
}

Result<void> RunningTarget::await_idle(const Until& until) {
  if (!target_.admin.empty() || !target_.workers.empty()) return client_.await_idle(until);
  if (sleep_until(std::min(net::now() + target_.settle, until.deadline), until.stop)) return {};
  return fail(ErrorCode::kCancelled, "interrupted");
}

}  // namespace kvist::deploy
