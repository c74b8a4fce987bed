// The gateway's own error answers.
#pragma once

#include <string>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/net/http_types.h"

namespace kvist::gateway {

/// An error in the form of the OpenAI API, with Retry-After if trying again may help: `retry_after`, rounded up to a
/// whole second.
[[nodiscard]] net::HttpResponse error_answer(const Error& error, const std::string& request_id = {},
                                             Duration retry_after = std::chrono::seconds(1));
/// 200 with a JSON body.
[[nodiscard]] net::HttpResponse json_answer(std::string json);

/// The answer to a request that no path takes, for net::PathTable. `request_id` may be empty.
[[nodiscard]] net::HttpResponse refused(int status, const std::string& message, const std::string& request_id = {});

}  // namespace kvist::gateway
