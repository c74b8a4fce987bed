#include "kvist/openai/json_body.h"

namespace kvist::openai {
namespace {

// A document's memory is about ten times the largest text it has seen.
constexpr std::size_t kSharedDocumentBytes = 1UL << 20;

JsonRules rules() {
  return {
      .root = "body", .wrong = ErrorCode::kInvalidArgument, .most_bytes = kMaxJsonBytes, .most_depth = kMaxJsonDepth};
}

}  // namespace

Result<JsonObject> JsonBody::parse(std::string_view body) {
  if (body.size() > kSharedDocumentBytes) return own_.emplace(rules()).parse_object(body);
  thread_local JsonDocument shared(rules());
  return shared.parse_object(body);
}

}  // namespace kvist::openai
