// Keys that a client sends as Authorization: Bearer, as files have them.
#pragma once

#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::net {

/// Whether the text can stand in a header field as a key: 1 to 4,096 printable ASCII characters without spaces.
[[nodiscard]] bool is_bearer_key(std::string_view text);

/// The first line of a file, which is one key. Errors name the file, never what is in it: kNotFound if it cannot be
/// read, kInvalidArgument if the line is no key.
[[nodiscard]] Result<std::string> read_bearer_key(const std::string& file);

}  // namespace kvist::net
