// Answers that are one JSON document, with the headers of all the worker's answers.
#pragma once

#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/net/http_types.h"

namespace kvist::worker {

/// Headers of an answer: its content type and the request's id.
[[nodiscard]] net::Headers reply_headers(std::string_view content_type, std::string_view request_id);
[[nodiscard]] net::HttpResponse json_reply(int status, std::string body, std::string_view request_id);
/// The error's status and body, with Retry-After if trying again may help.
[[nodiscard]] net::HttpResponse error_reply(const Error& error, std::string_view request_id);

}  // namespace kvist::worker
