#include "kvist/openai/completion_request.h"

#include "kvist/base/json_writer.h"
#include "kvist/openai/tokens_json.h"

namespace kvist::openai {

std::string token_request_body(const ClientTokenRequest& request) {
  JsonWriter json;
  json.begin_object().field("model", request.model).field("max_tokens", request.max_tokens);
  json.field("seed", request.seed);
  if (request.ignore_eos) json.field("ignore_eos", true);
  json.field("stream", true).key("stream_options").begin_object().field("include_usage", true).end_object();
  json.end_object();
  std::string body = json.take();
  body.pop_back();  // the ids are appended as text, because there may be a million of them
  body += R"(,"prompt":)";
  append_tokens_json(body, request.prompt);
  return body + "}";
}

}  // namespace kvist::openai
