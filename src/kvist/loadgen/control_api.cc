#include "kvist/loadgen/control_api.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/openai/errors.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::loadgen {
namespace {

/// As many connections as one client port range holds, with room to spare.
constexpr std::uint64_t kMaxConcurrency = 20'000;

JsonDocument command_document() {
  return JsonDocument({.root = "body", .wrong = ErrorCode::kInvalidArgument});
}

void respond_json(net::HttpExchange& exchange, int status, std::string body) {
  net::HttpResponse response{.status = status, .headers = {}, .body = std::move(body)};
  response.headers.add("Content-Type", "application/json");
  exchange.respond(std::move(response));
}

void respond_error(net::HttpExchange& exchange, const Error& error) {
  respond_json(exchange, openai::http_status(error.code), openai::error_body(error));
}

void respond_wrong_method(net::HttpExchange& exchange, std::string_view allowed) {
  net::HttpResponse response{.status = 405, .headers = {}, .body = {}};
  response.headers.add("Allow", std::string(allowed));
  exchange.respond(std::move(response));
}

}  // namespace

Result<StartCommand> parse_start_command(std::string_view body) {
  JsonDocument document = command_document();
  KVIST_TRY(const JsonObject object, document.parse_object(body));
  for (const auto [key, value] : object) {
    if (key != "concurrency" && key != "seed") return value.wrong("unknown; known are concurrency and seed");
  }
  StartCommand command;
  KVIST_TRY(const std::uint64_t concurrency, object.require_unsigned("concurrency", 1, kMaxConcurrency));
  KVIST_TRY(command.seed, object.find_unsigned("seed", 0, std::numeric_limits<std::uint64_t>::max()));
  command.concurrency = static_cast<std::uint32_t>(concurrency);
  return command;
}

Result<bool> parse_stop_command(std::string_view body) {
  if (body.empty()) return true;
  JsonDocument document = command_document();
  KVIST_TRY(const JsonObject object, document.parse_object(body));
  for (const auto [key, value] : object) {
    if (key != "drain") return value.wrong("unknown; known is drain");
  }
  return object.bool_or("drain", true);
}

ControlApi::ControlApi(ControlActions actions) : actions_(std::make_shared<const ControlActions>(std::move(actions))) {}

void ControlApi::handle(const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange) {
  const std::string_view path = request.path();
  const bool reads = path == "/status" || path == "/metrics";
  const bool commands = path == "/start" || path == "/stop";
  if (!reads && !commands) {
    return respond_error(*exchange, Error{ErrorCode::kNotFound, fmt::format("no such path: {}", path)});
  }
  const std::string_view method = reads ? "GET" : "POST";
  if (request.method != method) return respond_wrong_method(*exchange, method);
  if (path == "/start") return start(request, *exchange);
  if (path == "/stop") return stop(request, exchange);
  if (path == "/status") return respond_json(*exchange, 200, actions_->status());
  net::HttpResponse response{.status = 200, .headers = {}, .body = actions_->metrics()};
  response.headers.add("Content-Type", telemetry::kExpositionContentType);
  exchange->respond(std::move(response));
}

void ControlApi::start(const net::HttpRequest& request, net::HttpExchange& exchange) {
  const Result<StartCommand> command = parse_start_command(request.body);
  if (!command) return respond_error(exchange, command.error());
  if (const Result<void> started = actions_->start(*command); !started) return respond_error(exchange, started.error());
  respond_json(exchange, 200, actions_->status());
}

void ControlApi::stop(const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange) {
  const Result<bool> drain = parse_stop_command(request.body);
  if (!drain) return respond_error(*exchange, drain.error());
  actions_->stop(*drain, [exchange, actions = std::weak_ptr(actions_)] {
    if (const auto alive = actions.lock()) respond_json(*exchange, 200, alive->status());
  });
}

}  // namespace kvist::loadgen
