// Answers of the load generator's listeners.
#pragma once

#include <string>

#include "kvist/base/error.h"
#include "kvist/net/http_types.h"

namespace kvist::loadgen {

[[nodiscard]] net::HttpResponse json_answer(std::string body, int status = 200);
[[nodiscard]] net::HttpResponse error_answer(const Error& error);
/// For net::PathTable.
[[nodiscard]] net::HttpResponse refused_answer(const net::HttpRequest& request, int status, const std::string& message);

}  // namespace kvist::loadgen
