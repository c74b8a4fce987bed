#include "kvist/worker/http_reply.h"

#include <utility>

#include "kvist/openai/errors.h"

namespace kvist::worker {

net::Headers reply_headers(std::string_view content_type, std::string_view request_id) {
  net::Headers headers;
  headers.add("Content-Type", std::string(content_type));
  headers.add("X-Request-Id", std::string(request_id));
  return headers;
}

net::HttpResponse json_reply(int status, std::string body, std::string_view request_id) {
  return {.status = status, .headers = reply_headers("application/json", request_id), .body = std::move(body)};
}

net::HttpResponse error_reply(const Error& error, std::string_view request_id) {
  net::HttpResponse reply = json_reply(openai::http_status(error.code), openai::error_body(error), request_id);
  if (error.code == ErrorCode::kResourceExhausted || error.code == ErrorCode::kUnavailable)
    reply.headers.add("Retry-After", "1");
  return reply;
}

}  // namespace kvist::worker
