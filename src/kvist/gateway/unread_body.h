// What a body that the gateway does not read has in common with those that it does.
#pragma once

#include <string>

#include "kvist/base/error.h"
#include "kvist/gateway/prompt_reader.h"
#include "kvist/net/http_types.h"
#include "kvist/openai/body_edit.h"

namespace kvist::gateway {

/// What is known of a body that was not read. Empty if the body is no JSON object.
struct UnreadBody {
  std::string adapter = {};             ///< of the model, that it asks for; empty: none
  openai::AskedPriority priority = {};  ///< that it asks for
  bool usage_added = false;             ///< the body asks for a stream's usage now, and the client's did not
};

/// Looks for the model and the priority in the body of a request to any endpoint, and replaces an alias by the model's
/// name. Everything else in the body may be what only the worker understands. Errors: kInvalidArgument for JSON in
/// another encoding than UTF-8 and, if the client's key bounds its priority (`has_key`), for a body with more fields
/// than are searched, in which a worker could find a priority.
[[nodiscard]] Result<UnreadBody> settle_unread(net::HttpRequest& request, const PromptReader& reader,
                                               const FleetReadings& readings, bool has_key);

/// Has the worker tell the usage of a chat's or completion's stream, for the key that pays for it. Returns whether the
/// body was changed for that. What is no JSON object stays as it is, for the worker to refuse.
[[nodiscard]] bool ask_for_usage(net::HttpRequest& request);

}  // namespace kvist::gateway
