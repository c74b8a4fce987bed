#include "kvist/loadgen/control_api.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"
#include "kvist/loadgen/json_answers.h"
#include "kvist/net/admin_listener.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::loadgen {
namespace {

/// As of `kvist loadgen --concurrency`.
constexpr std::uint64_t kMaxConcurrency = 1'000'000;

JsonDocument command_document() {
  return JsonDocument({.root = "body", .wrong = ErrorCode::kInvalidArgument});
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

std::string load_change_json(const workload::LoadChange& change) {
  JsonWriter json;
  json.begin_object();
  if (change.concurrency) json.field("concurrency", *change.concurrency);
  if (change.max_start_rate) json.field("max_start_rate", *change.max_start_rate);
  if (change.rate) json.field("rate", *change.rate);
  if (change.max_in_flight) json.field("max_in_flight", *change.max_in_flight);
  json.end_object();
  return json.take();
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
    : actions_(std::make_shared<const ControlActions>(std::move(actions))), paths_(refused_answer) {
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

Result<std::unique_ptr<net::HttpServer>> ControlApi::listen(net::EventLoop& loop, const spec::Endpoint& endpoint,
                                                            const std::shared_ptr<net::TlsServer>& tls) {
  net::HttpServerOptions http;
  http.host = endpoint.host;
  http.port = endpoint.port;
  http.max_body_bytes = 64U << 10;
  http.tls = tls;
  // A name of somebody else's that leads here has no certificate.
  const bool own_names_only = !http.tls && (net::is_loopback(http.host) || net::is_any_address(http.host));
  http.browsers = net::BrowserPolicy{.changes_need_json = true, .own_names_only = own_names_only};
  return net::HttpServer::listen(
      loop, http, [this](net::HttpRequest request, auto exchange) { handle(std::move(request), exchange); });
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
