#include "kvist/dialects/count_answer.h"

#include <fmt/format.h>

#include <limits>

#include "kvist/base/json.h"
#include "kvist/dialects/chat_answer.h"
#include "kvist/dialects/messages_answer.h"

namespace kvist::dialects {

Result<std::string> CountAnswer::whole(std::string_view answer) {
  JsonDocument document({.root = "answer"});
  KVIST_TRY(const JsonObject root, document.parse_object(answer));
  KVIST_TRY(const std::uint64_t count, root.require_unsigned("count", 0, std::numeric_limits<std::uint32_t>::max()));
  return fmt::format(R"({{"input_tokens":{}}})", count);
}

Result<void> CountAnswer::on_event(std::string_view /*data*/, std::string& /*out*/) {
  return fail(ErrorCode::kCorrupt, "the worker answered /tokenize with a stream");
}

void CountAnswer::on_error(std::string_view message, std::string& out) {
  constexpr int kBadGateway = 502;
  append_event(out, "error", messages_error(kBadGateway, message, ""));
}

}  // namespace kvist::dialects
