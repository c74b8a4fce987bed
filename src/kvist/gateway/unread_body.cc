#include "kvist/gateway/unread_body.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

namespace kvist::gateway {
namespace {

// Readers in Python tell UTF-16 and UTF-32 by a byte order mark or by the zeros of the first characters, which are
// ASCII in JSON.
bool is_wide(std::string_view text) {
  if (text.starts_with("\xFE\xFF") || text.starts_with("\xFF\xFE")) return true;
  constexpr std::size_t kFirst = 4;
  return text.substr(0, kFirst).contains('\0');
}

// A form, a file or an audio recording may begin with any bytes. Its Content-Type says that it is no JSON.
bool may_be_json(const net::Headers& headers) {
  const auto type = headers.find("Content-Type");
  if (!type) return true;
  std::string lower(*type);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower.contains("json");
}

}  // namespace

Result<UnreadBody> settle_unread(net::HttpRequest& request, const PromptReader& reader, const FleetReadings& readings,
                                 bool has_key) {
  if (has_key && is_wide(request.body) && may_be_json(request.headers))
    return fail(ErrorCode::kInvalidArgument, "body: expected JSON in UTF-8, got UTF-16 or UTF-32");
  UnreadBody known;
  if (readings.aliases != nullptr || readings.adapters != nullptr) {
    const std::string model = openai::model_of(request.body).value_or("");
    known.adapter = reader.adapter_named(model, readings);
    if (readings.is_alias(model)) {
      // If the body is not an object behind its model, it stays as it is, for the worker to refuse.
      if (auto renamed = openai::with_model(request.body, reader.model())) request.body = *std::move(renamed);
    }
  }
  known.priority = openai::priority_of(request.body);
  if (has_key && !known.priority.is_known)
    return fail(ErrorCode::kInvalidArgument, "body: more fields than a request may have");
  if (!known.priority.is_known) known.priority = {};
  return known;
}

bool ask_for_usage(net::HttpRequest& request) {
  if (!openai::asks_for_stream(request.body)) return false;
  auto asking = openai::with_usage_in_any_case(request.body);
  if (!asking || *asking == request.body) return false;
  request.body = *std::move(asking);
  return true;
}

}  // namespace kvist::gateway
