#include "kvist/loadgen/control_api.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/openai/errors.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::loadgen {
namespace {

/// As of `kvist loadgen --concurrency`.
constexpr std::uint64_t kMaxConcurrency = 1'000'000;

JsonDocument command_document() {
  return JsonDocument({.root = "body", .wrong = ErrorCode::kInvalidArgument});
}

net::HttpResponse json_answer(std::string body, int status = 200) {
  net::HttpResponse response{.status = status, .headers = {}, .body = std::move(body)};
  response.headers.add("Content-Type", "application/json");
  return response;
}

net::HttpResponse error_answer(const Error& error) {
  return json_answer(openai::error_body(error), openai::http_status(error.code));
}

net::HttpResponse refused(const net::HttpRequest& /*request*/, int status, const std::string& message) {
  return json_answer(openai::error_body(message, net::reason_phrase(status), "", status), status);
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

Result<workload::LoadChange> parse_load_change(std::string_view body) {
  constexpr double kMostPerSecond = 1e6;
  JsonDocument document = command_document();
  KVIST_TRY(const JsonObject object, document.parse_object(body));
  for (const auto [key, value] : object) {
    if (key != "concurrency" && key != "max_start_rate" && key != "rate" && key != "max_in_flight") {
      return value.wrong("unknown; known are concurrency, max_start_rate, rate and max_in_flight");
    }
  }
  workload::LoadChange change;
  KVIST_TRY(const std::optional<std::uint64_t> concurrency, object.find_unsigned("concurrency", 1, kMaxConcurrency));
  KVIST_TRY(const std::optional<std::uint64_t> in_flight, object.find_unsigned("max_in_flight", 1, kMaxConcurrency));
  if (concurrency) change.concurrency = static_cast<std::uint32_t>(*concurrency);
  if (in_flight) change.max_in_flight = static_cast<std::uint32_t>(*in_flight);
  KVIST_TRY(change.max_start_rate, object.find_double("max_start_rate", 0, kMostPerSecond));
  KVIST_TRY(change.rate, object.find_double("rate", 0, kMostPerSecond));
  KVIST_TRY_VOID(workload::check_change(change));
  return change;
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

ControlApi::ControlApi(ControlActions actions)
    : actions_(std::make_shared<const ControlActions>(std::move(actions))), paths_(refused) {
  paths_.answer("POST", "/start", [this](const net::HttpRequest& request) { return start(request); });
  paths_.answer("PATCH", "/load", [this](const net::HttpRequest& request) { return change(request); });
  paths_.on("POST", "/stop",
            [this](const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange) {
              stop(request, exchange);
            });
  paths_.answer("GET", "/status", [this](const net::HttpRequest&) { return json_answer(actions_->status()); });
  paths_.answer("GET", "/metrics", [this](const net::HttpRequest&) {
    net::HttpResponse response{.status = 200, .headers = {}, .body = actions_->metrics()};
    response.headers.add("Content-Type", telemetry::kExpositionContentType);
    return response;
  });
}

net::HttpResponse ControlApi::start(const net::HttpRequest& request) {
  const Result<StartCommand> command = parse_start_command(request.body);
  if (!command) return error_answer(command.error());
  if (const Result<void> started = actions_->start(*command); !started) return error_answer(started.error());
  return json_answer(actions_->status());
}

net::HttpResponse ControlApi::change(const net::HttpRequest& request) {
  const Result<workload::LoadChange> change = parse_load_change(request.body);
  if (!change) return error_answer(change.error());
  if (const Result<void> changed = actions_->change(*change); !changed) return error_answer(changed.error());
  return json_answer(actions_->status());
}

void ControlApi::stop(const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange) {
  const Result<bool> drain = parse_stop_command(request.body);
  if (!drain) return exchange->respond(error_answer(drain.error()));
  actions_->stop(*drain, [exchange, actions = std::weak_ptr(actions_)] {
    if (const auto alive = actions.lock()) exchange->respond(json_answer(alive->status()));
  });
}

}  // namespace kvist::loadgen
