#include "kvist/gateway/kept_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "kvist/base/json.h"
#include "kvist/gateway/proxy_headers.h"
#include "kvist/net/sse.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/errors.h"

namespace kvist::gateway {
namespace {

// JSON has line feeds between its values only, where a blank does as well.
std::string in_one_line(std::string text) {
  std::ranges::replace_if(text, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

bool has_error_field(std::string_view body) {
  JsonDocument document({.most_bytes = 1UL << 20});
  const auto root = document.parse_object(body);
  return root && root->has("error");
}

// Readers of streams know an error by its field `error`. An answer without one (no body, a proxy's page, a redirection,
// {"detail"} of a framework) would pass for an empty answer, as the status is lost.
std::string error_event(int status, std::string_view body, const std::optional<std::string>& message) {
  constexpr int kFirstClientError = 400;
  constexpr int kBadGateway = 502;
  constexpr std::size_t kMostQuoted = 400;
  if (has_error_field(body)) return in_one_line(std::string(body));
  const std::string_view separator = body.empty() ? "" : ": ";
  const std::string text = message.value_or(
      fmt::format("the worker answered with status {}{}{}", status, separator, body.substr(0, kMostQuoted)));
  const int shown = status >= kFirstClientError ? status : kBadGateway;
  const std::string_view type = net::reason_phrase(shown);
  return openai::error_body(text, type.empty() ? "Error" : type, "", shown);
}

}  // namespace

bool KeptStream::is_due(const net::HttpExchange& exchange, TimePoint arrived, TimePoint now, Duration interval) const {
  return now - std::max(arrived, written_at_) >= interval && exchange.unsent_bytes() == 0;
}

bool KeptStream::send_comment(net::HttpExchange& exchange, const std::string& request_id, TimePoint now) {
  const bool begins = begin();
  if (begins) {
    net::Headers headers;
    headers.set("Content-Type", "text/event-stream; charset=utf-8");
    headers.set("Cache-Control", "no-cache");
    exchange.begin_stream(kStatus, headers_for_client(std::move(headers), request_id, {}));
  }
  written_at_ = now;
  exchange.write(": keep-alive\n\n");
  return begins;
}

// A worker may answer a request for a stream as a whole.
bool KeptStream::answer(net::HttpExchange& exchange, const net::HttpResponse& answer) {
  constexpr int kFirstError = 300;
  const auto read = openai::parse_chunk(answer.body);
  const std::optional<std::string> error = read ? read->error : std::nullopt;
  const bool is_unreadable = !read && read.error().code != ErrorCode::kTooLarge;
  const bool is_error = answer.status >= kFirstError || error || is_unreadable;
  std::string frames;
  net::append_sse_data(frames, is_error ? error_event(answer.status, answer.body, error) : in_one_line(answer.body));
  if (!is_error) net::append_sse_data(frames, "[DONE]");
  exchange.write(frames);
  exchange.end_stream();
  return is_error;
}

}  // namespace kvist::gateway
