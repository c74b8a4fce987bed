#include "kvist/loadgen/control_api.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <utility>

#include "kvist/openai/errors.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::loadgen {
namespace {

using simdjson::SUCCESS;

/// Well below the number of connections that the range of client ports allows.
constexpr std::uint64_t kMaxConcurrency = 20'000;

std::unexpected<Error> invalid(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<simdjson::dom::object> parse_object(simdjson::dom::parser& parser, const simdjson::padded_string& body) {
  simdjson::dom::object object;
  if (parser.parse(body).get(object) != SUCCESS) return invalid("body: expected a JSON object");
  return object;
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
  simdjson::dom::parser parser;
  const simdjson::padded_string text(body);
  KVIST_TRY(const simdjson::dom::object object, parse_object(parser, text));
  StartCommand command;
  for (const auto [key, value] : object) {
    std::uint64_t number = 0;
    const bool is_number = value.get(number) == SUCCESS;
    if (key == "concurrency") {
      if (!is_number || number < 1 || number > kMaxConcurrency) {
        return invalid(fmt::format("concurrency: expected a whole number from 1 to {}", kMaxConcurrency));
      }
      command.concurrency = static_cast<std::uint32_t>(number);
    } else if (key == "seed") {
      if (!is_number) return invalid("seed: expected a whole number from 0");
      command.seed = number;
    } else {
      return invalid(fmt::format("{}: unknown; known are concurrency and seed", key));
    }
  }
  if (command.concurrency == 0) return invalid("concurrency: missing");
  return command;
}

Result<bool> parse_stop_command(std::string_view body) {
  if (body.empty()) return true;
  simdjson::dom::parser parser;
  const simdjson::padded_string text(body);
  KVIST_TRY(const simdjson::dom::object object, parse_object(parser, text));
  bool drain = true;
  for (const auto [key, value] : object) {
    if (key != "drain") return invalid(fmt::format("{}: unknown; known is drain", key));
    if (value.get(drain) != SUCCESS) return invalid("drain: expected true or false");
  }
  return drain;
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
