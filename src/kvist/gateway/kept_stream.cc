#include "kvist/gateway/kept_stream.h"

#include <algorithm>

#include "kvist/gateway/proxy_headers.h"
#include "kvist/net/sse.h"

namespace kvist::gateway {
namespace {

// JSON has line feeds between its values only, where a blank does as well.
std::string in_one_line(std::string text) {
  std::ranges::replace_if(text, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
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
  const bool is_error = answer.status >= kFirstError;
  std::string frames;
  net::append_sse_data(frames, in_one_line(answer.body));
  if (!is_error) net::append_sse_data(frames, "[DONE]");
  exchange.write(frames);
  exchange.end_stream();
  return is_error;
}

}  // namespace kvist::gateway
