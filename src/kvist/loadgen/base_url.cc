#include "kvist/loadgen/base_url.h"

#include <fmt/format.h>

#include <string_view>

namespace kvist::loadgen {

Result<std::string> base_url(std::string url, const char* what) {
  while (url.ends_with('/')) url.pop_back();
  const std::string_view scheme = url.starts_with("https://") ? "https://" : "http://";
  const bool is_base = url.starts_with(scheme) && url.size() > scheme.size() &&
                       url.find_first_of("/?#", scheme.size()) == std::string::npos;
  if (!is_base) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} \"{}\": expected http://host:port or https://host:port", what, url));
  }
  return url;
}

}  // namespace kvist::loadgen
