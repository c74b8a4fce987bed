#include "kvist/deploy/cluster_session.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <utility>

#include "kvist/net/event_loop.h"

namespace kvist::deploy {
namespace {

constexpr Duration kApiTimeout = std::chrono::seconds(30);
/// Between attempts where the server names no time.
constexpr Duration kPause = std::chrono::seconds(1);
constexpr std::uint32_t kPage = 500;

std::optional<std::string> variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

Result<ClusterSession> ClusterSession::create(const std::string& kubeconfig, const std::string& name_space,
                                              Manager manager) {
  KVIST_TRY(kubernetes::ClusterAccess access, kubernetes::find_access(kubeconfig, variable));
  std::string within = name_space.empty() ? access.name_space : name_space;
  KVIST_TRY(kubernetes::BlockingClient client, kubernetes::BlockingClient::create(std::move(access)));
  return ClusterSession(std::move(client), std::move(within), std::move(manager));
}

// A busy server, or one that makes its store of a new kind.
bool ClusterSession::is_temporary(const kubernetes::ApiError& error) {
  using Kind = kubernetes::ApiErrorKind;
  return error.kind == Kind::kThrottled || error.kind == Kind::kUnreachable || error.kind == Kind::kServerError;
}

kubernetes::ApiResult<std::string> ClusterSession::get(const kubernetes::Resource& resource,
                                                       const std::string& name) const {
  return client_.call(kubernetes::get(all(resource), name), kApiTimeout);
}

kubernetes::ApiResult<std::string> ClusterSession::list(const kubernetes::Collection& collection) const {
  return client_.call(kubernetes::list(collection, kPage, {}), kApiTimeout);
}

kubernetes::ApiResult<std::string> ClusterSession::patiently(const net::HttpRequest& request,
                                                             const Until& until) const {
  while (true) {
    auto answer = client_.call(request, kApiTimeout);
    if (answer || !is_temporary(answer.error())) return answer;
    const TimePoint next = net::now() + answer.error().retry_after.value_or(kPause);
    if (next >= until.deadline || !sleep_until(next, until.stop)) return answer;
  }
}

Result<std::string> ClusterSession::apply(const kubernetes::Resource& resource, const std::string& name,
                                          const std::string& manifest, const Until& until) const {
  auto applied = patiently(kubernetes::apply(all(resource), name, manifest, manager_.name, manager_.force), until);
  if (applied) return *std::move(applied);
  if (until.stop.stop_requested()) return fail(ErrorCode::kCancelled, "interrupted");
  Error error = to_error(applied.error()).in(fmt::format("{} {}/{}", resource.plural, name_space_, name));
  if (applied.error().kind == kubernetes::ApiErrorKind::kFieldManagerConflict)
    error.message += fmt::format("; let that manager give the field up, or say {}: true to take it", manager_.setting);
  return std::unexpected(std::move(error));
}

Result<void> ClusterSession::remove(const kubernetes::Resource& resource, const std::string& name,
                                    const Until& until) const {
  const auto removed = patiently(kubernetes::remove(all(resource), name), until);
  if (removed || removed.error().kind == kubernetes::ApiErrorKind::kNotFound) return {};
  return std::unexpected(to_error(removed.error()).in(fmt::format("{} {}/{}", resource.plural, name_space_, name)));
}

}  // namespace kvist::deploy
