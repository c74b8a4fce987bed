#include "kvist/jinja/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "kvist/jinja/code_points.h"

namespace kvist::jinja {
namespace {

std::string_view symbol(BinaryOperator op) {
  switch (op) {
    case BinaryOperator::kAdd:
      return "+";
    case BinaryOperator::kSubtract:
      return "-";
    case BinaryOperator::kMultiply:
      return "*";
    case BinaryOperator::kDivide:
      return "/";
    case BinaryOperator::kFloorDivide:
      return "//";
    case BinaryOperator::kModulo:
      return "%";
    case BinaryOperator::kPower:
      return "**";
    case BinaryOperator::kConcatenate:
      return "~";
    case BinaryOperator::kAnd:
      return "and";
    case BinaryOperator::kOr:
      return "or";
  }
  return "?";
}

std::unexpected<Error> too_large() {
  return fail(ErrorCode::kInvalidArgument, "the integer does not fit in 64 bits");
}

std::unexpected<Error> by_zero() {
  return fail(ErrorCode::kInvalidArgument, "division by zero");
}

Result<Value> integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return by_zero();
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base == 0 || base == 1) return Value(exponent == 0 ? std::int64_t{1} : base);
  if (base == -1) return Value(std::int64_t{exponent % 2 == 0 ? 1 : -1});
  std::int64_t power = 1;
  for (; exponent > 0; --exponent)  // at most 64 times, because then the result is too large
    if (__builtin_mul_overflow(power, base, &power)) return too_large();
  return Value(power);
}

Result<Value> integers(BinaryOperator op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  const bool divides =
      op == BinaryOperator::kDivide || op == BinaryOperator::kFloorDivide || op == BinaryOperator::kModulo;
  if (divides && b == 0) return by_zero();
  switch (op) {
    case BinaryOperator::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return too_large();
      return Value(result);
    case BinaryOperator::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) return too_large();
      return Value(result);
    case BinaryOperator::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) return too_large();
      return Value(result);
    case BinaryOperator::kDivide:
      return Value(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOperator::kFloorDivide:
      if (b == -1) return integers(BinaryOperator::kSubtract, 0, a);
      return Value(a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0));
    case BinaryOperator::kModulo:
      if (b == -1) return Value(std::int64_t{0});
      return Value(a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0));
    case BinaryOperator::kPower:
      return integer_power(a, b);
    default:
      return Value();
  }
}

Result<Value> numbers(BinaryOperator op, double a, double b) {
  switch (op) {
    case BinaryOperator::kAdd:
      return Value(a + b);
    case BinaryOperator::kSubtract:
      return Value(a - b);
    case BinaryOperator::kMultiply:
      return Value(a * b);
    case BinaryOperator::kPower:
      return Value(std::pow(a, b));
    default:
      break;
  }
  if (b == 0) return by_zero();
  if (op == BinaryOperator::kDivide) return Value(a / b);
  if (op == BinaryOperator::kFloorDivide) return Value(std::floor(a / b));
  const double rest = std::fmod(a, b);
  return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

Result<Value> joined(Meter& meter, const MarkedText& left, const MarkedText& right) {
  KVIST_TRY_VOID(meter.scan(left.size() + right.size()));
  MarkedText text;
  text.reserve(left.size() + right.size());
  text.append(left);
  text.append(right);
  return make_text(meter, std::move(text));
}

Result<Value> joined(Meter& meter, const List& left, const List& right) {
  KVIST_TRY_VOID(meter.step(left.items.size() + right.items.size()));
  std::vector<Value> items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return make_list(meter, std::move(items), left.tuple);
}

// "ab" * 3, [a, b] * 3. The meter is asked before memory is allocated.
Result<std::optional<Value>> repeated(Meter& meter, const Value& value, const Value& count) {
  const std::optional<std::int64_t> times = count.integer();
  if (!times) return std::optional<Value>();
  const std::size_t copies = static_cast<std::size_t>(std::max<std::int64_t>(*times, 0));
  const std::size_t size = value.text() != nullptr   ? value.text()->size()
                           : value.list() != nullptr ? value.list()->items.size() * sizeof(Value)
                                                     : 0;
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(size, copies, &bytes)) bytes = static_cast<std::size_t>(-1);
  if (const MarkedText* text = value.text()) {
    KVIST_TRY_VOID(meter.allocate(bytes));
    MarkedText out;
    for (std::size_t i = 0; i < copies && !text->empty(); ++i) out.append(*text);
    KVIST_TRY(Value made, make_text(meter, std::move(out)));
    return std::optional(std::move(made));
  }
  if (const List* list = value.list()) {
    KVIST_TRY_VOID(meter.allocate(bytes));
    std::vector<Value> items;
    for (std::size_t i = 0; i < copies && !list->items.empty(); ++i)
      items.insert(items.end(), list->items.begin(), list->items.end());
    KVIST_TRY(Value made, make_list(meter, std::move(items), list->tuple));
    return std::optional(std::move(made));
  }
  return std::optional<Value>();
}

// The beginning of a slice, its end (exclusive, may be -1) and the distance between its items.
struct Steps {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t step = 1;
};

Result<std::optional<std::int64_t>> slice_part(const Value& value) {
  if (value.is_undefined() || value.is_none()) return std::optional<std::int64_t>();
  if (const std::optional<std::int64_t> whole = value.integer()) return whole;
  return fail(ErrorCode::kInvalidArgument, fmt::format("a slice takes integers, not {}", kind_of(value)));
}

Result<Steps> steps_of(std::int64_t size, const Value& begin, const Value& end, const Value& step) {
  KVIST_TRY(const std::optional<std::int64_t> first, slice_part(begin));
  KVIST_TRY(const std::optional<std::int64_t> last, slice_part(end));
  KVIST_TRY(const std::optional<std::int64_t> stride, slice_part(step));
  Steps steps;
  steps.step = stride.value_or(1);
  if (steps.step == 0) return fail(ErrorCode::kInvalidArgument, "the step of a slice is zero");
  // A step beyond the size takes one item.
  steps.step = std::clamp(steps.step, -size - 1, size + 1);
  const bool forward = steps.step > 0;
  const std::int64_t low = forward ? 0 : -1;
  const std::int64_t high = forward ? size : size - 1;
  const auto place = [&](std::int64_t index) { return std::clamp(index < 0 ? index + size : index, low, high); };
  steps.begin = first ? place(*first) : forward ? low : high;
  steps.end = last ? place(*last) : forward ? high : low;
  return steps;
}

}  // namespace

Result<Value> binary(Meter& meter, BinaryOperator op, const Value& left, const Value& right) {
  if (op == BinaryOperator::kConcatenate) {
    KVIST_TRY(const TextPtr a, to_text(meter, left));
    KVIST_TRY(const TextPtr b, to_text(meter, right));
    return joined(meter, *a, *b);
  }
  if (const auto a = left.integer(), b = right.integer(); a && b) return integers(op, *a, *b);
  if (const auto a = left.number(), b = right.number(); a && b) return numbers(op, *a, *b);
  if (op == BinaryOperator::kAdd && left.text() != nullptr && right.text() != nullptr)
    return joined(meter, *left.text(), *right.text());
  if (op == BinaryOperator::kAdd && left.list() != nullptr && right.list() != nullptr &&
      left.list()->tuple == right.list()->tuple)
    return joined(meter, *left.list(), *right.list());
  if (op == BinaryOperator::kMultiply) {
    KVIST_TRY(std::optional<Value> copies, repeated(meter, left, right));
    if (!copies) {
      KVIST_TRY(copies, repeated(meter, right, left));
    }
    if (copies) return *std::move(copies);
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} {} {} cannot be computed", kind_of(left), symbol(op), kind_of(right)));
}

Result<Value> negated(const Value& value) {
  if (const auto* large = value.as<LargeInteger>(); large != nullptr && large->value == std::uint64_t{1} << 63)
    return Value(std::numeric_limits<std::int64_t>::min());
  if (value.number() && !value.integer()) return Value(-*value.number());
  if (const auto whole = value.integer()) return integers(BinaryOperator::kSubtract, 0, *whole);
  return fail(ErrorCode::kInvalidArgument, fmt::format("{} has no negative", kind_of(value)));
}

Result<bool> compared(Meter& meter, Comparison comparison, const Value& left, const Value& right) {
  if (comparison == Comparison::kEqual || comparison == Comparison::kNotEqual) {
    KVIST_TRY(const bool same, equal(meter, left, right));
    return same == (comparison == Comparison::kEqual);
  }
  if (comparison == Comparison::kIn || comparison == Comparison::kNotIn) {
    KVIST_TRY(const bool found, contains(meter, right, left));
    return found == (comparison == Comparison::kIn);
  }
  KVIST_TRY(const int order, compare(meter, left, right));
  switch (comparison) {
    case Comparison::kLess:
      return order < 0;
    case Comparison::kLessOrEqual:
      return order <= 0;
    case Comparison::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

Result<Value> slice(Meter& meter, const Value& value, const Value& begin, const Value& end, const Value& step) {
  const List* list = value.list();
  const MarkedText* text = value.text();
  if (value.is_undefined()) return fail(ErrorCode::kInvalidArgument, fmt::format("{} has no slices", kind_of(value)));
  if (list == nullptr && text == nullptr) return Value();  // as an item that there is not
  KVIST_TRY_VOID(meter.scan(text == nullptr ? list->items.size() * sizeof(Value) : text->size()));
  const std::size_t size = list != nullptr ? list->items.size() : count_code_points(text->bytes());
  KVIST_TRY(const Steps steps, steps_of(static_cast<std::int64_t>(size), begin, end, step));
  if (text != nullptr && steps.step == 1) {
    const std::string_view bytes = text->bytes();
    const std::size_t from = position_of_code_point(bytes, static_cast<std::size_t>(steps.begin));
    const std::size_t count = static_cast<std::size_t>(std::max<std::int64_t>(steps.end - steps.begin, 0));
    return make_text(meter, text->part(from, from + position_of_code_point(bytes.substr(from), count)));
  }
  std::vector<Value> characters;
  if (text != nullptr) {
    KVIST_TRY(characters, items_of(meter, value));
  }
  const std::vector<Value>& items = list != nullptr ? list->items : characters;
  std::vector<Value> chosen;
  for (std::int64_t i = steps.begin; steps.step > 0 ? i < steps.end : i > steps.end; i += steps.step)
    chosen.push_back(items[static_cast<std::size_t>(i)]);
  if (list != nullptr) return make_list(meter, std::move(chosen), list->tuple);
  MarkedText out;
  for (const Value& character : chosen) out.append(*character.text());
  return make_text(meter, std::move(out));
}

}  // namespace kvist::jinja
