#include "kvist/gateway/prepared_request.h"

#include <utility>

#include "kvist/openai/body_edit.h"
#include "kvist/openai/codec.h"

namespace kvist::gateway {

Result<PreparedRequest> prepare(const PromptReader& reader, Api api, std::string_view body, const FleetReadings& fleet,
                                bool has_key) {
  PreparedRequest prepared;
  KVIST_TRY(prepared.read, reader.read(api, body, fleet));
  const openai::GenerationOptions& options = prepared.read.options;
  if (options.stream && !options.include_usage) {
    KVIST_TRY(prepared.body, has_key ? openai::with_usage_in_any_case(body) : openai::with_usage_requested(body));
    prepared.usage_wanted = *prepared.body == body;
  }
  if (fleet.is_alias(options.model)) {
    KVIST_TRY(prepared.body, openai::with_model(prepared.body ? *prepared.body : body, reader.model()));
  }
  return prepared;
}

}  // namespace kvist::gateway
