// Where a server is, without a path.
#pragma once

#include <string>

#include "kvist/base/error.h"

namespace kvist::loadgen {

/// "http://host:port" or "https://host:port" without a path; slashes at its end are removed. Errors call it `what`.
[[nodiscard]] Result<std::string> base_url(std::string url, const char* what = "target");

}  // namespace kvist::loadgen
