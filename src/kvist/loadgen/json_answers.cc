#include "kvist/loadgen/json_answers.h"

#include <utility>

#include "kvist/openai/errors.h"

namespace kvist::loadgen {

net::HttpResponse json_answer(std::string body, int status) {
  net::HttpResponse response{.status = status, .headers = {}, .body = std::move(body)};
  response.headers.add("Content-Type", "application/json");
  return response;
}

net::HttpResponse error_answer(const Error& error) {
  return json_answer(openai::error_body(error), openai::http_status(error.code));
}

net::HttpResponse refused_answer(const net::HttpRequest& /*request*/, int status, const std::string& message) {
  return json_answer(openai::error_body(message, net::reason_phrase(status), "", status), status);
}

}  // namespace kvist::loadgen
