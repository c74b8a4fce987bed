// Common parts of the normalizers, pre-tokenizers, post-processors and decoders in tokenizer.json. Private to the
// module.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <variant>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/json.h"
#include "kvist/tokenizer/regex.h"

namespace kvist::tokenizer {

/// Reads one step. Members that it does not read are refused.
using ReadStep = std::function<Result<void>(std::string_view type, JsonObject& step, const JsonValue& at)>;

/// Calls read() for a step, or for the steps of a "Sequence" in order; their list has the name `list`. Sequences may be
/// nested a few levels deep.
[[nodiscard]] Result<void> for_each_step(const JsonValue& value, std::string_view list, const ReadStep& read);

/// A token's number, below the bound on them.
[[nodiscard]] Result<TokenId> read_token_id(const JsonValue& value);

/// {"String": "..."} or {"Regex": "..."}: a literal or an expression, neither of them empty.
[[nodiscard]] Result<std::variant<std::string, Regex>> read_pattern(const JsonValue& value);

/// The factor by which steps together may lengthen a text. A step that would exceed the bound is refused.
class Growth {
 public:
  /// Adds a step that writes up to `to` bytes for each `from` bytes that it reads.
  [[nodiscard]] Result<void> add(std::size_t from, std::size_t to, const JsonValue& at);

 private:
  double times_ = 1;
};

}  // namespace kvist::tokenizer
