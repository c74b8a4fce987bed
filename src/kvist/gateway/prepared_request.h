// A client's request as it is routed and as its worker gets it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/gateway/prompt_reader.h"

namespace kvist::gateway {

/// A request that was read, and its body for the worker.
struct PreparedRequest {
  ReadRequest read;
  std::optional<std::string> body = {};  ///< nothing: the client's own
  bool usage_wanted = true;              ///< false: only the gateway has asked for it
};

/// Does the work that grows with the body, so that it can be done beside the loop for a large one. The worker is asked
/// for the usage of a stream, because the gateway needs the number of cached tokens, and gets the model's own name in
/// place of an alias. `has_key`: the client's key pays for what the usage says, so that it is asked for in any case.
/// Errors: those of PromptReader::read. Threads: any.
[[nodiscard]] Result<PreparedRequest> prepare(const PromptReader& reader, Api api, std::string_view body,
                                              const FleetReadings& fleet = {}, bool has_key = false);

}  // namespace kvist::gateway
