#include "kvist/worker/key_check.h"

#include "kvist/openai/errors.h"
#include "kvist/worker/http_reply.h"

namespace kvist::worker {

std::optional<net::HttpResponse> KeyCheck::refuse(const net::Headers& headers, std::string_view request_id) {
  const std::string_view key = net::sent_key(headers);
  if (!key.empty() && keys_.has(key)) return std::nullopt;
  ++refused_;
  net::HttpResponse reply = json_reply(401, openai::unknown_key_body(!key.empty()), request_id);
  reply.headers.add("WWW-Authenticate", "Bearer");
  return reply;
}

}  // namespace kvist::worker
