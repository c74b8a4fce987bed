// What normalizers, pre-tokenizers, post-processors and decoders have in common in tokenizer.json. Private to the
// module.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <variant>

#include "kvist/base/error.h"
#include "kvist/tokenizer/json_value.h"
#include "kvist/tokenizer/regex.h"

namespace kvist::tokenizer {

/// Reads one step; what it did not ask for is refused after it.
using ReadStep = std::function<Result<void>(std::string_view type, JsonObject& step, const JsonValue& at)>;

/// Calls read() for a step, or for the steps of a "Sequence" in their order, whose list has the name `list`. Sequences
/// may hold sequences, a few deep.
[[nodiscard]] Result<void> for_each_step(const JsonValue& value, std::string_view list, const ReadStep& read);

/// {"String": "..."} or {"Regex": "..."}: a literal or an expression, neither of them empty.
[[nodiscard]] Result<std::variant<std::string, Regex>> read_pattern(const JsonValue& value);

/// How many times longer steps may make a text, together; a step that would take it over the bound is refused.
class Growth {
 public:
  /// A step that writes up to `to` bytes for each `from` it reads.
  [[nodiscard]] Result<void> add(std::size_t from, std::size_t to, const JsonValue& at);

 private:
  double times_ = 1;
};

}  // namespace kvist::tokenizer
