// What a Content-Type says, apart from its parameters.
#pragma once

#include <algorithm>
#include <string_view>

#include "kvist/net/http_types.h"

namespace kvist::net {

/// "text/event-stream" of "Text/Event-Stream ; charset=utf-8", in the case in which it was written.
[[nodiscard]] inline std::string_view media_type(std::string_view content_type) {
  constexpr std::string_view kSpace = " \t";
  std::string_view type = content_type.substr(0, content_type.find(';'));
  type.remove_prefix(std::min(type.find_first_not_of(kSpace), type.size()));
  while (!type.empty() && kSpace.contains(type.back())) type.remove_suffix(1);
  return type;
}

/// Whether the message's Content-Type is this one. Requires: `lower` has no capital letter.
[[nodiscard]] inline bool has_media_type(const Headers& headers, std::string_view lower) {
  return equals_no_case(media_type(headers.find("Content-Type").value_or("")), lower);
}

}  // namespace kvist::net
