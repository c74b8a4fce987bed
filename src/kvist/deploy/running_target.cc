#include "kvist/deploy/running_target.h"

#include <string>
#include <utility>

#include "kvist/deploy/command.h"
#include "kvist/net/bearer_key.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/tls.h"

namespace kvist::deploy {
namespace {

/// What the parts behind one kind of listener are told.
Result<net::ServerSettings> settings_of(const spec::TargetSpec& target, const std::string& key_file) {
  net::ServerSettings settings;
  if (!key_file.empty()) {
    KVIST_TRY(settings.bearer_key, net::read_bearer_key(key_file));
  }
  const spec::ClientTlsSpec& tls = target.tls;
  if (tls == spec::ClientTlsSpec{}) return settings;
  KVIST_TRY(settings.tls,
            net::TlsClient::load(
                {.ca = tls.ca, .server_name = tls.server_name, .certificate = tls.certificate, .key = tls.key}));
  return settings;
}

Result<Addresses> addresses_of(const spec::TargetSpec& target) {
  KVIST_TRY(const net::ServerSettings server, settings_of(target, target.api_key_file));
  KVIST_TRY(const net::ServerSettings administration,
            settings_of(target, target.admin_api_key_file.empty() ? target.api_key_file : target.admin_api_key_file));
  Addresses addresses{.models = {target.model},
                      .gateway = {.name = "the target",
                                  .url = target.url,
                                  .admin = target.admin,
                                  .server = server,
                                  .administration = administration},
                      .workers = {}};
  for (const spec::TargetWorkerSpec& worker : target.workers) {
    addresses.workers.push_back({.name = worker.name,
                                 .url = worker.url,
                                 .admin = worker.admin.empty() ? worker.url : worker.admin,
                                 .model = target.model,
                                 .server = server,
                                 .administration = administration});
  }
  return addresses;
}

}  // namespace

Result<std::unique_ptr<RunningTarget>> RunningTarget::create(const spec::TargetSpec& target) {
  KVIST_TRY(Addresses addresses, addresses_of(target));
  return std::unique_ptr<RunningTarget>(new RunningTarget(target, std::move(addresses)));
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
