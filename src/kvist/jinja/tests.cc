// The tests of "x is ...".
#include <fmt/format.h>

#include <string>

#include "kvist/jinja/functions.h"

namespace kvist::jinja {
namespace {

template <class T>
Result<Value> holds(const Invocation& call) {
  return Value(call.input->as<T>() != nullptr);
}

Result<Value> defined(const Invocation& call) {
  return Value(!call.input->is_undefined());
}

template <bool kFlag>
Result<Value> is_flag(const Invocation& call) {
  const auto* flag = call.input->as<bool>();
  return Value(flag != nullptr && *flag == kFlag);
}

Result<Value> integer(const Invocation& call) {
  return Value(call.input->is_integer());
}

Result<Value> number(const Invocation& call) {
  return Value(call.input->is_number() || call.input->as<bool>() != nullptr);  // as in Python
}

// Jinja's undefined value is an empty one.
Result<Value> sequence(const Invocation& call) {
  const Value& input = *call.input;
  return Value(input.list() != nullptr || input.dict() != nullptr || input.text() != nullptr || input.is_undefined());
}

enum class Relation : std::uint8_t { kEqual, kNotEqual, kLess, kLessOrEqual, kGreater, kGreaterOrEqual };

template <Relation kRelation>
Result<Value> related(const Invocation& call) {
  if constexpr (kRelation == Relation::kEqual || kRelation == Relation::kNotEqual) {
    KVIST_TRY(const bool same, equal(*call.meter, *call.input, call.arguments[0]));
    return Value(same == (kRelation == Relation::kEqual));
  }
  KVIST_TRY(const int order, compare(*call.meter, *call.input, call.arguments[0]));
  switch (kRelation) {
    case Relation::kLess:
      return Value(order < 0);
    case Relation::kLessOrEqual:
      return Value(order <= 0);
    case Relation::kGreater:
      return Value(order > 0);
    default:
      return Value(order >= 0);
  }
}

Result<Value> in(const Invocation& call) {
  KVIST_TRY(const bool found, contains(*call.meter, call.arguments[0], *call.input));
  return Value(found);
}

Result<std::int64_t> integer_input(const Invocation& call) {
  if (const auto* integer = call.input->as<std::int64_t>()) return *integer;
  return fail(ErrorCode::kInvalidArgument, fmt::format("expected an integer, got {}", kind_of(*call.input)));
}

template <bool kOdd>
Result<Value> parity(const Invocation& call) {
  KVIST_TRY(const std::int64_t number, integer_input(call));
  return Value((number % 2 != 0) == kOdd);
}

Result<Value> divisible(const Invocation& call) {
  KVIST_TRY(const std::int64_t number, integer_input(call));
  KVIST_TRY(const std::int64_t divisor, integer_argument(call, 0, "the divisor", 0));
  if (divisor == 0) return fail(ErrorCode::kInvalidArgument, "divisibleby: division by zero");
  return Value(divisor == -1 || number % divisor == 0);
}

// Whether the text has letters, and all of them are of that case.
template <bool kUpper>
Result<Value> cased(const Invocation& call) {
  KVIST_TRY(const TextPtr text, to_text(*call.meter, *call.input));
  const Value input(text);
  const auto with = [&](std::string_view filter) {
    return find_filter(filter)->body({.meter = call.meter, .input = &input, .arguments = {}, .now = call.now});
  };
  KVIST_TRY(const Value upper, with("upper"));
  KVIST_TRY(const Value lower, with("lower"));
  const std::string_view same = (kUpper ? upper : lower).text()->bytes();
  return Value(text->bytes() == same && upper.text()->bytes() != lower.text()->bytes());
}

constexpr Function kTests[] = {
    {"boolean", {}, 0, &holds<bool>},
    {"callable", {}, 0, &holds<Callable>},
    {"defined", {}, 0, &defined},
    {"divisibleby", {"num"}, 1, &divisible},
    {"eq", {"other"}, 1, &related<Relation::kEqual>},
    {"equalto", {"other"}, 1, &related<Relation::kEqual>},
    {"even", {}, 0, &parity<false>},
    {"false", {}, 0, &is_flag<false>},
    {"float", {}, 0, &holds<double>},
    {"ge", {"other"}, 1, &related<Relation::kGreaterOrEqual>},
    {"gt", {"other"}, 1, &related<Relation::kGreater>},
    {"in", {"seq"}, 1, &in},
    {"integer", {}, 0, &integer},
    {"iterable", {}, 0, &sequence},
    {"le", {"other"}, 1, &related<Relation::kLessOrEqual>},
    {"lower", {}, 0, &cased<false>},
    {"lt", {"other"}, 1, &related<Relation::kLess>},
    {"mapping", {}, 0, &holds<DictPtr>},
    {"ne", {"other"}, 1, &related<Relation::kNotEqual>},
    {"none", {}, 0, &holds<None>},
    {"number", {}, 0, &number},
    {"odd", {}, 0, &parity<true>},
    {"sequence", {}, 0, &sequence},
    {"string", {}, 0, &holds<TextPtr>},
    {"true", {}, 0, &is_flag<true>},
    {"undefined", {}, 0, &holds<Undefined>},
    {"upper", {}, 0, &cased<true>},
};

}  // namespace

std::span<const Function> tests() {
  return kTests;
}

}  // namespace kvist::jinja
