// Filters over numbers, as Jinja and Python define them.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "kvist/jinja/code_points.h"
#include "kvist/jinja/functions.h"

namespace kvist::jinja {
namespace {

std::optional<double> parsed(std::string_view text) {
  text.remove_prefix(leading_space(text));
  text = text.substr(0, size_without_trailing_space(text));
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Result<Value> int_filter(const Invocation& call) {
  Value if_wrong = call.arguments[0].is_undefined() ? Value(std::int64_t{0}) : call.arguments[0];
  if (call.input->is_integer()) return *call.input;
  if (const auto* flag = call.input->as<bool>()) return Value(std::int64_t{*flag ? 1 : 0});
  std::optional<double> number;
  if (const auto* real = call.input->as<double>()) number = *real;
  if (const MarkedText* text = call.input->text()) number = parsed(text->bytes());
  constexpr double kLimit = 9.2e18;  // what 64 bits hold
  if (!number || !(std::abs(*number) < kLimit)) return if_wrong;
  return Value(static_cast<std::int64_t>(*number));
}

Result<Value> float_filter(const Invocation& call) {
  if (call.input->as<double>() != nullptr) return *call.input;
  if (const std::optional<double> number = call.input->number()) return Value(*number);
  if (const MarkedText* text = call.input->text())
    if (const std::optional<double> number = parsed(text->bytes())) return Value(*number);
  return call.arguments[0].is_undefined() ? Value(0.0) : call.arguments[0];
}

Result<Value> abs_filter(const Invocation& call) {
  if (const auto* real = call.input->as<double>()) return Value(std::abs(*real));
  if (call.input->as<LargeInteger>() != nullptr) return *call.input;
  const auto* integer = call.input->as<std::int64_t>();
  if (integer == nullptr || *integer == std::numeric_limits<std::int64_t>::min())
    return fail(ErrorCode::kInvalidArgument, fmt::format("abs: expected a number, got {}", kind_of(*call.input)));
  return Value(std::abs(*integer));
}

// -- round

// To the nearest multiple of 10^-places, of two as near as each other the even one. An integer stays one.
Value rounded(std::int64_t number, std::int64_t places) {
  if (places >= 0) return Value(number);
  std::int64_t unit = 1;
  for (; places < 0; ++places)
    if (__builtin_mul_overflow(unit, std::int64_t{10}, &unit)) return Value(std::int64_t{0});
  const std::int64_t rest = number % unit;
  std::int64_t result = number - rest;
  const std::int64_t twice = std::abs(rest) > unit / 2 ? 1 : std::abs(rest) < unit / 2 ? -1 : 0;
  const bool away = twice > 0 || (twice == 0 && unit > 1 && (result / unit) % 2 != 0);
  if (away && __builtin_add_overflow(result, rest < 0 ? -unit : unit, &result)) return Value(number);
  return Value(result);
}

// The text with so many places is the exact number's nearest, so that it is rounded once, as in Python.
Value rounded(double number, std::int64_t places) {
  constexpr std::int64_t kMost = 323;  // beyond, no number has digits
  if (!std::isfinite(number) || places > kMost) return Value(number);
  if (places < -kMost) return Value(std::copysign(0.0, number));
  if (places < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-places));
    return Value(std::nearbyint(number / unit) * unit);
  }
  std::array<char, 700> digits{};  // 309 before the point
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number,
                                          std::chars_format::fixed, static_cast<int>(places));
  if (error != std::errc()) return Value(number);
  double result = 0;
  std::from_chars(digits.data(), end, result);
  return Value(result);
}

Result<Value> round_filter(const Invocation& call) {
  KVIST_TRY(const std::int64_t places, integer_argument(call, 0, "the precision", 0));
  std::string_view method = "common";
  if (!call.arguments[1].is_undefined()) {
    KVIST_TRY(const MarkedText* name, text_argument(call, 1, "the method"));
    method = name->bytes();
  }
  const std::optional<double> number = call.input->number();
  if (!number)
    return fail(ErrorCode::kInvalidArgument, fmt::format("round: expected a number, got {}", kind_of(*call.input)));
  if (method == "common") {
    if (call.input->as<LargeInteger>() != nullptr) return *call.input;
    const std::optional<std::int64_t> whole = call.input->integer();
    return whole ? rounded(*whole, places) : rounded(*number, places);
  }
  if (method != "ceil" && method != "floor")
    return fail(ErrorCode::kInvalidArgument, "round: the method must be 'common', 'ceil' or 'floor'");
  const double unit = std::pow(10.0, static_cast<double>(places));
  const double scaled = method == "ceil" ? std::ceil(*number * unit) : std::floor(*number * unit);
  if (!std::isfinite(scaled) || unit == 0) return fail(ErrorCode::kInvalidArgument, "round: the number is too large");
  return Value(scaled / unit);
}

constexpr Function kNumberFilters[] = {
    {"abs", {}, 0, &abs_filter},
    {"float", {"default"}, 0, &float_filter},
    {"int", {"default"}, 0, &int_filter},
    {"round", {"precision", "method"}, 0, &round_filter},
};

}  // namespace

std::span<const Function> number_filters() {
  return kNumberFilters;
}

}  // namespace kvist::jinja
