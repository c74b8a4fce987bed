#include "kvist/tokenizer/steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvist/tokenizer/limits.h"

namespace kvist::tokenizer {
namespace {

constexpr std::size_t kMostNested = 8;
constexpr std::size_t kMostSteps = 64;

Result<void> walk(const JsonValue& value, std::string_view list, const ReadStep& read, std::size_t depth,
                  std::size_t& steps) {
  if (depth > kMostNested) return value.unsupported(fmt::format("sequences nested more than {} deep", kMostNested));
  KVIST_TRY(JsonObject step, value.as_object());
  KVIST_TRY(const std::string_view type, step.require_string("type"));
  if (type == "Sequence") {
    KVIST_TRY(const JsonValue inner, step.require(list));
    KVIST_TRY(const JsonArray array, inner.as_array());
    for (const JsonValue element : array) {
      KVIST_TRY_VOID(walk(element, list, read, depth + 1, steps));
    }
  } else {
    if (++steps > kMostSteps) return value.unsupported(fmt::format("more than {} steps", kMostSteps));
    KVIST_TRY_VOID(read(type, step, value));
  }
  return step.finish();
}

}  // namespace

Result<void> for_each_step(const JsonValue& value, std::string_view list, const ReadStep& read) {
  std::size_t steps = 0;
  return walk(value, list, read, 0, steps);
}

Result<TokenId> read_token_id(const JsonValue& value) {
  KVIST_TRY(const std::uint64_t id, value.as_unsigned(0, kMostTokens - 1));
  return TokenId(static_cast<std::uint32_t>(id));
}

Result<std::variant<std::string, Regex>> read_pattern(const JsonValue& value) {
  KVIST_TRY(JsonObject pattern, value.as_object());
  KVIST_TRY(const auto literal, pattern.find("String"));
  KVIST_TRY(const auto expression, pattern.find("Regex"));
  KVIST_TRY_VOID(pattern.finish());
  if (literal.has_value() == expression.has_value()) {
    return value.wrong("either {\"String\": ...} or {\"Regex\": ...} is needed");
  }
  if (literal) {
    KVIST_TRY(const std::string_view text, literal->as_string());
    if (text.empty()) return literal->unsupported("an empty string");
    return std::string(text);
  }
  KVIST_TRY(const std::string_view text, expression->as_string());
  auto regex = Regex::compile(text);
  if (!regex) return std::unexpected(std::move(regex).error().in(expression->path()));
  return *std::move(regex);
}

Result<void> Growth::add(std::size_t from, std::size_t to, const JsonValue& at) {
  times_ *= std::max(1.0, static_cast<double>(to) / static_cast<double>(from));
  if (times_ <= kMostGrowth) return {};
  return at.unsupported(
      fmt::format("up to here a text may become {:.0f} times longer, the bound is {:.0f}", times_, kMostGrowth));
}

}  // namespace kvist::tokenizer
