#include "kvist/net/server_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "kvist/base/json_writer.h"
#include "kvist/net/server_connection.h"

namespace kvist::net {

namespace {

/// Fields for framing are written by this class only, and a control character in a field would allow the injection of
/// further fields.
bool may_send(std::string_view name, std::string_view value) {
  if (equals_no_case(name, "content-length") || equals_no_case(name, "transfer-encoding") ||
      equals_no_case(name, "connection")) {
    return false;
  }
  const auto control = [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F; };
  return !name.empty() && std::ranges::none_of(name, control) && std::ranges::none_of(value, control);
}

bool status_forbids_body(int status) {
  return status < 200 || status == 204 || status == 304;
}

}  // namespace

HttpResponse error_response(int status, std::string_view message) {
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.field("message", message).field("type", status >= 500 ? "InternalServerError" : "BadRequestError");
  json.key("param").null().field("code", status);
  json.end_object().end_object();
  HttpResponse response{.status = status, .headers = {}, .body = json.take()};
  response.headers.add("Content-Type", "application/json");
  return response;
}

ServerExchange::ServerExchange(std::shared_ptr<ServerConnection> connection)
    : loop_(connection->loop()), connection_(std::move(connection)) {}

ServerExchange::~ServerExchange() {
  if (!connection_) return;
  if (loop_.ending) {
    connection_->forget_exchange();
  } else if (begun_) {
    abort();
  } else {
    respond(error_response(500, "the server gave no answer"));
  }
}

std::string ServerExchange::head(int status, const Headers& headers, std::string_view framing) {
  std::string out;
  out.reserve(512);
  out.append("HTTP/1.1 ").append(std::to_string(status)).append(" ").append(reason_phrase(status)).append("\r\n");
  bool has_date = false;
  for (const auto& [name, value] : headers.fields()) {
    if (!may_send(name, value)) continue;
    out.append(name).append(": ").append(value).append("\r\n");
    has_date |= equals_no_case(name, "date");
  }
  if (!has_date) out += loop_.date_line();
  out += framing;
  out += connection_->answer_fields();
  if (const auto connection = headers.find("Connection"); connection && equals_no_case(*connection, "close")) {
    connection_->end_after_answer();
  }
  if (connection_->ends_after_answer()) {
    out += "Connection: close\r\n";
  } else if (!connection_->http11()) {
    out += "Connection: keep-alive\r\n";
  }
  out += "\r\n";
  return out;
}

void ServerExchange::respond(HttpResponse response) {
  if (!connection_ || begun_) return;
  begun_ = true;
  std::string framing;
  if (!status_forbids_body(response.status)) framing = fmt::format("Content-Length: {}\r\n", response.body.size());
  bodiless_ = status_forbids_body(response.status) || connection_->answers_head_request();
  const std::string answer_head = head(response.status, response.headers, framing);
  send({answer_head, bodiless_ ? std::string_view() : std::string_view(response.body)});
  finish();
}

void ServerExchange::begin_stream(int status, Headers headers) {
  if (!connection_ || begun_) return;
  begun_ = true;
  bodiless_ = status_forbids_body(status) || connection_->answers_head_request();
  std::string_view framing;
  if (!connection_->http11()) {
    // HTTP/1.0 has no chunks, so the answer ends with the connection.
    connection_->end_after_answer();
  } else if (!status_forbids_body(status)) {
    framing = "Transfer-Encoding: chunked\r\n";
  }
  const std::string answer_head = head(status, headers, framing);
  send({answer_head});
}

void ServerExchange::upgrade(const Headers& headers, std::function<void(std::string_view)> on_bytes) {
  if (!connection_ || begun_ || !connection_->http11()) return;
  begun_ = true;
  upgraded_ = true;
  on_bytes_ = std::move(on_bytes);
  std::string head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n";
  for (const auto& [name, value] : headers.fields()) {
    if (may_send(name, value)) head.append(name).append(": ").append(value).append("\r\n");
  }
  head += "\r\n";
  send({head});
  if (connection_) connection_->upgraded();
}

void ServerExchange::received(std::string_view bytes) {
  // Kept, because the handler may destroy this object.
  const auto self = shared_from_this();
  if (on_bytes_) on_bytes_(bytes);
}

void ServerExchange::write(std::string_view data) {
  // An empty chunk would end the stream.
  if (!connection_ || !begun_ || bodiless_ || data.empty()) return;
  if (upgraded_ || !connection_->http11()) return send({data});
  char size[16];
  const auto end = std::to_chars(std::begin(size), std::end(size), data.size(), 16);
  send({std::string_view(size, static_cast<std::size_t>(end.ptr - size)), "\r\n", data, "\r\n"});
}

void ServerExchange::end_stream() {
  if (!connection_ || !begun_) return;
  if (upgraded_) {
    connection_->end_after_answer();
  } else if (!bodiless_ && connection_->http11()) {
    send({"0\r\n\r\n"});
  }
  finish();
}

void ServerExchange::abort() {
  if (!connection_) return;
  const auto connection = std::move(connection_);
  on_drained_ = nullptr;
  on_client_gone_ = nullptr;
  connection->forget_exchange();
  connection->break_off();
}

void ServerExchange::send(std::initializer_list<std::string_view> pieces) {
  if (!connection_ || !connection_->answer(pieces)) return;
  if (connection_->unsent() > low_water_) above_low_water_ = true;
}

void ServerExchange::finish() {
  if (!connection_) return;  // the send has found that the client left
  const auto connection = std::move(connection_);
  on_drained_ = nullptr;
  on_client_gone_ = nullptr;
  connection->forget_exchange();
  connection->answer_complete();
}

std::size_t ServerExchange::unsent_bytes() const {
  return connection_ ? connection_->unsent() : 0;
}

void ServerExchange::on_drained(std::size_t low_water, std::function<void()> handler) {
  if (!connection_) return;
  low_water_ = low_water;
  above_low_water_ = connection_->unsent() > low_water;
  on_drained_ = std::move(handler);
}

void ServerExchange::on_client_gone(std::function<void()> handler) {
  if (!connection_ && !gone_) return;
  on_client_gone_ = std::move(handler);
  if (gone_) report_gone_soon();
}

// A handler may hold the last pointer to this object, so none may be destroyed before the function is done. (There is
// no pointer to lock while the destructor runs.)
void ServerExchange::client_left(bool soon) {
  const auto self = weak_from_this().lock();
  gone_ = true;
  connection_.reset();
  on_drained_ = nullptr;
  if (!on_client_gone_) return;
  if (soon) return report_gone_soon();
  // Moved out of the member first, because the handler may destroy this object.
  const auto handler = std::exchange(on_client_gone_, nullptr);
  handler();
}

/// Calls the handler from the loop and not from within a call of the service, which may be changing its state. Does
/// nothing if the exchange is destroyed before then.
void ServerExchange::report_gone_soon() {
  loop_.post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    const auto handler = std::exchange(self->on_client_gone_, nullptr);
    if (handler) handler();
  });
}

void ServerExchange::forget_client() {
  const auto self = weak_from_this().lock();  // as in client_left()
  gone_ = true;
  connection_.reset();
  on_drained_ = nullptr;
  on_client_gone_ = nullptr;
}

void ServerExchange::sent() {
  if (!above_low_water_ || connection_->unsent() > low_water_) return;
  above_low_water_ = false;
  if (const auto handler = on_drained_) handler();
}

}  // namespace kvist::net
