#include "kvist/dialects/dialect.h"

#include <optional>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"
#include "kvist/dialects/chat_answer.h"
#include "kvist/dialects/count_answer.h"
#include "kvist/dialects/field_names.h"
#include "kvist/dialects/messages_answer.h"
#include "kvist/dialects/messages_request.h"
#include "kvist/dialects/responses_answer.h"
#include "kvist/dialects/responses_request.h"

namespace kvist::dialects {

Result<Translation> translate(Dialect dialect, std::string_view body) {
  constexpr std::string_view kChats = "/v1/chat/completions";
  switch (dialect) {
    case Dialect::kMessages: {
      KVIST_TRY(std::string chat, chat_of_messages(body));
      return Translation{.path = kChats, .body = std::move(chat), .answer = std::make_unique<MessagesAnswer>()};
    }
    case Dialect::kCountTokens: {
      KVIST_TRY(std::string question, tokenize_of_messages(body));
      return Translation{.path = "/tokenize", .body = std::move(question), .answer = std::make_unique<CountAnswer>()};
    }
    case Dialect::kResponses: {
      KVIST_TRY(ResponsesRequest request, chat_of_responses(body));
      return Translation{.path = kChats,
                         .body = std::move(request.chat),
                         .answer = std::make_unique<ResponsesAnswer>(std::move(request.echo))};
    }
  }
  return fail(ErrorCode::kInternal, "an unknown dialect");
}

namespace {

// An error in OpenAI's form, but for the names of fields as it was; anything else as it is.
std::string renamed(Dialect dialect, std::string_view body) {
  JsonDocument document({.root = "error"});
  const auto root = document.parse_object(body);
  const auto error = root ? root->peek("error") : std::nullopt;
  const auto object = error ? error->if_object() : std::nullopt;
  if (!object) return std::string(body);
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  for (const auto& [name, value] : *object) {
    const std::optional<std::string_view> text = value.if_string();
    json.key(name);
    if (text && name == "message") {
      json.value(in_own_names(dialect, *text));
    } else if (text && name == "param") {
      json.value(own_path(dialect, *text));
    } else {
      json.raw(value.minified());
    }
  }
  json.end_object().end_object();
  return json.take();
}

}  // namespace

std::string error_body(Dialect dialect, int status, std::string_view openai_body, std::string_view request_id) {
  if (dialect == Dialect::kResponses) return renamed(dialect, openai_body);
  const ChatError error = read_chat_error(openai_body);
  return messages_error(status, in_own_names(dialect, error.message), request_id);
}

}  // namespace kvist::dialects
