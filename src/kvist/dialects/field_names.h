// What the fields of a chat completion are called in the request that became it. Private to the module.
#pragma once

#include <string>
#include <string_view>

#include "kvist/dialects/dialect.h"

namespace kvist::dialects {

/// The path of a field ("stop[0]", "messages[2].content") in the client's request. What is inside a field that has
/// another form there has no counterpart, so the field alone is named.
[[nodiscard]] std::string own_path(Dialect dialect, std::string_view path);

/// What a worker said of a chat, with the client's names: a path that it begins with ("stop[0]: ..."), and names that
/// are no words of English anywhere in it.
[[nodiscard]] std::string in_own_names(Dialect dialect, std::string_view message);

}  // namespace kvist::dialects
