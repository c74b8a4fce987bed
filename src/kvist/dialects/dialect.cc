#include "kvist/dialects/dialect.h"

#include <utility>

#include "kvist/base/json.h"
#include "kvist/dialects/chat_answer.h"
#include "kvist/dialects/count_answer.h"
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

std::string error_body(Dialect dialect, int status, std::string_view openai_body, std::string_view request_id) {
  const ChatError error = read_chat_error(openai_body);
  if (dialect != Dialect::kResponses) return messages_error(status, error.message, request_id);
  return std::string(openai_body);
}

}  // namespace kvist::dialects
