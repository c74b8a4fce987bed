#include "kvist/deploy/deployment_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kvist/base/json.h"
#include "kvist/net/tls.h"
#include "kvist/openai/codec.h"

namespace kvist::deploy {
namespace {

/// The time-out of a call that should be answered at once.
constexpr Duration kCallTimeout = std::chrono::seconds(5);

/// A first token may take all the time that is left, but even the last attempt gets as much as a local call needs,
/// because the user sees its error.
Duration token_timeout(const Until& until) {
  return std::max<Duration>(until.left(std::chrono::hours(1)), std::chrono::seconds(1));
}

enum class Listener : std::uint8_t { kPublic, kAdministration };

/// One call to one of the part's two listeners, whose answer must be 200. Returns the body.
Result<std::string> call(const PartAddress& part, Listener listener, const char* method, const char* path,
                         std::string body, Duration timeout) {
  const std::string& url = listener == Listener::kPublic ? part.url : part.admin;
  const net::ServerSettings& settings = listener == Listener::kPublic ? part.server : part.administration;
  net::Headers headers;
  // Without a body too: no state is changed by a request that a web page's form could send.
  if (method != std::string_view("GET")) headers.add("Content-Type", "application/json");
  if (!settings.bearer_key.empty()) headers.add("Authorization", "Bearer " + settings.bearer_key);
  auto answer = net::fetch_blocking(method, url + path, std::move(body), timeout, std::move(headers), settings.tls);
  if (!answer) return std::unexpected(std::move(answer).error().in(part.name + ": " + path));
  if (answer->status != 200) {
    constexpr std::size_t kQuoted = 300;
    return fail(ErrorCode::kUnavailable,
                fmt::format("{}: {}: status {}: {}", part.name, path, answer->status, answer->body.substr(0, kQuoted)));
  }
  return std::move(answer->body);
}

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

Result<GatewayWorkerStatus> read_worker(const JsonValue& value) {
  KVIST_TRY(const JsonObject worker, value.as_object());
  GatewayWorkerStatus status;
  KVIST_TRY(status.name, worker.require_string("name"));
  KVIST_TRY(status.healthy, worker.require_bool("healthy"));
  KVIST_TRY(status.in_flight, worker.require_unsigned("in_flight", 0, kMost));
  KVIST_TRY(status.indexed_blocks, worker.require_unsigned("indexed_blocks", 0, kMost));
  return status;
}

/// Adds the workers of one model.
Result<void> read_model(const JsonObject& model, GatewayStatus& status) {
  KVIST_TRY(const std::string_view mode, model.require_string("mode"));
  if (status.mode.empty()) status.mode = mode;
  KVIST_TRY(const JsonArray workers, model.require_array("workers"));
  for (const JsonValue item : workers) {
    KVIST_TRY(GatewayWorkerStatus worker, read_worker(item));
    status.workers.push_back(std::move(worker));
  }
  return {};
}

}  // namespace

Result<GatewayStatus> parse_gateway_status(std::string_view json) {
  JsonDocument document({.name = "/admin/status"});
  KVIST_TRY(const JsonObject root, document.parse_object(json));
  GatewayStatus status;
  KVIST_TRY(status.in_flight, root.require_unsigned("in_flight", 0, kMost));
  if (!root.peek("models")) {
    KVIST_TRY_VOID(read_model(root, status));
    return status;
  }
  KVIST_TRY(const JsonArray models, root.require_array("models"));
  for (const JsonValue item : models) {
    KVIST_TRY(const JsonObject model, item.as_object());
    KVIST_TRY_VOID(read_model(model, status));
  }
  return status;
}

Result<void> DeploymentClient::ask_for_token(const PartAddress& part, const std::string& model,
                                             Duration timeout) const {
  openai::ClientChatRequest request;
  request.model = model;
  request.messages = {{"user", "ready, " + part.name + "?"}};
  request.max_tokens = 1;
  request.stream = false;
  KVIST_TRY(const std::string body,
            call(part, Listener::kPublic, "POST", "/v1/chat/completions", openai::chat_request_body(request), timeout));
  auto answer = openai::parse_chunk(body);
  if (!answer) return std::unexpected(std::move(answer).error().in(part.name));
  if (answer->error) return fail(ErrorCode::kUnavailable, part.name + ": " + *answer->error);
  if (!answer->usage || answer->usage->completion_tokens < 1) {
    return fail(ErrorCode::kCorrupt, part.name + ": answered without a token: " + body);
  }
  return {};
}

Result<GatewayStatus> DeploymentClient::gateway_status() const {
  KVIST_TRY(const std::string body,
            call(addresses_.gateway, Listener::kAdministration, "GET", "/admin/status", "", kCallTimeout));
  return parse_gateway_status(body);
}

Result<void> DeploymentClient::check_fleet() const {
  KVIST_TRY(const GatewayStatus status, gateway_status());
  if (status.workers.size() != addresses_.workers.size()) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("the gateway knows {} workers of {}", status.workers.size(), addresses_.workers.size()));
  }
  for (const GatewayWorkerStatus& worker : status.workers) {
    if (!worker.healthy) return fail(ErrorCode::kUnavailable, "the gateway sees " + worker.name + " as not healthy");
  }
  return {};
}

Result<void> DeploymentClient::check_index_empty() const {
  KVIST_TRY(const GatewayStatus status, gateway_status());
  for (const GatewayWorkerStatus& worker : status.workers) {
    if (worker.indexed_blocks == 0) continue;
    return fail(ErrorCode::kUnavailable,
                fmt::format("the gateway still has {} blocks of {} in its index", worker.indexed_blocks, worker.name));
  }
  return {};
}

Result<void> DeploymentClient::await_ready(const Until& until) const {
  const auto token_of = [&](const PartAddress& part, const std::string& model) {
    return retry_until(until, "a first token of " + part.name, alive_,
                       [&] { return ask_for_token(part, model, token_timeout(until)); });
  };
  for (const PartAddress& worker : addresses_.workers) KVIST_TRY_VOID(token_of(worker, worker.model));
  KVIST_TRY_VOID(retry_until(until, "the gateway's view of the workers", alive_, [&] { return check_fleet(); }));
  for (const std::string& model : addresses_.models) KVIST_TRY_VOID(token_of(addresses_.gateway, model));
  return empty_caches(until);
}

Result<void> DeploymentClient::await_answer(const Until& until) const {
  openai::ClientChatRequest request;
  request.model = addresses_.models.front();
  request.messages = {{"user", "ready, " + addresses_.gateway.name + "?"}};
  request.max_tokens = 1;
  request.stream = false;
  const std::string body = openai::chat_request_body(request);
  return retry_until(until, "an answer of " + addresses_.gateway.url, alive_, [&]() -> Result<void> {
    KVIST_TRY_VOID(
        call(addresses_.gateway, Listener::kPublic, "POST", "/v1/chat/completions", body, token_timeout(until)));
    return {};
  });
}

Result<void> DeploymentClient::empty_caches(const Until& until) const {
  for (const PartAddress& worker : addresses_.workers) {
    // A worker refuses as long as the last step of the answer above holds blocks.
    const auto reset = [&]() -> Result<void> {
      KVIST_TRY_VOID(call(worker, Listener::kAdministration, "POST", "/reset_prefix_cache", "", kCallTimeout));
      return {};
    };
    KVIST_TRY_VOID(retry_until(until, "an empty prefix cache in " + worker.name, alive_, reset));
  }
  if (addresses_.gateway.admin.empty()) return {};
  return retry_until(until, "an empty index in the gateway", alive_, [&] { return check_index_empty(); });
}

Result<std::vector<WorkerMetrics>> DeploymentClient::collect() const {
  std::vector<WorkerMetrics> result;
  for (const PartAddress& worker : addresses_.workers) {
    KVIST_TRY(const std::string page, call(worker, Listener::kPublic, "GET", "/metrics", "", kCallTimeout));
    KVIST_TRY(WorkerMetrics metrics, read_worker_metrics(worker.name, page));
    result.push_back(std::move(metrics));
  }
  return result;
}

Result<void> DeploymentClient::check_idle() const {
  // Requests flow from the gateway to the workers. When nobody sends, an idle gateway stays idle, and so does a worker
  // that is found idle after it.
  if (!addresses_.gateway.admin.empty()) {
    KVIST_TRY(const GatewayStatus status, gateway_status());
    if (status.in_flight != 0) {
      return fail(ErrorCode::kUnavailable, fmt::format("{} requests in flight in the gateway", status.in_flight));
    }
  }
  KVIST_TRY(const std::vector<WorkerMetrics> workers, collect());
  for (const WorkerMetrics& worker : workers) {
    if (worker.running == 0 && worker.waiting == 0) continue;
    return fail(ErrorCode::kUnavailable, fmt::format("{} has {} requests running and {} waiting", worker.worker,
                                                     worker.running, worker.waiting));
  }
  return {};
}

Result<void> DeploymentClient::await_idle(const Until& until) const {
  return retry_until(until, "zero requests in flight", alive_, [&] { return check_idle(); });
}

Result<void> DeploymentClient::set_routing_mode(spec::RoutingMode mode) const {
  const std::string body = fmt::format(R"({{"mode":"{}"}})", spec::to_string(mode));
  KVIST_TRY_VOID(call(addresses_.gateway, Listener::kAdministration, "PUT", "/admin/router_mode", body, kCallTimeout));
  KVIST_TRY(const GatewayStatus status, gateway_status());
  if (status.mode != spec::to_string(mode)) {
    return fail(ErrorCode::kInternal, fmt::format("the gateway was asked for mode {} and routes in mode {}",
                                                  spec::to_string(mode), status.mode));
  }
  return {};
}

}  // namespace kvist::deploy
