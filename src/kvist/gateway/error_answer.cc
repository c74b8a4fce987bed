#include "kvist/gateway/error_answer.h"

#include <utility>

#include "kvist/gateway/proxy_headers.h"
#include "kvist/openai/errors.h"

namespace kvist::gateway {

net::HttpResponse error_answer(const Error& error, const std::string& request_id, Duration retry_after) {
  net::HttpResponse response = json_answer(openai::error_body(error));
  response.status = openai::http_status(error.code);
  if (!request_id.empty()) response.headers.set(kRequestIdHeader, request_id);
  if (error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kResourceExhausted) {
    response.headers.set("Retry-After", std::to_string(std::chrono::ceil<std::chrono::seconds>(retry_after).count()));
  }
  return response;
}

net::HttpResponse json_answer(std::string json) {
  net::HttpResponse response;
  response.headers.set("Content-Type", "application/json");
  response.body = std::move(json);
  return response;
}

net::HttpResponse refused(int status, const std::string& message, const std::string& request_id) {
  net::HttpResponse answer = json_answer(openai::error_body(message, net::reason_phrase(status), "", status));
  answer.status = status;
  if (!request_id.empty()) answer.headers.set(kRequestIdHeader, request_id);
  return answer;
}

}  // namespace kvist::gateway
