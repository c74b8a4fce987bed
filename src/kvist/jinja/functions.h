// Filters, tests, methods and global functions that templates can use.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/jinja/meter.h"
#include "kvist/jinja/value.h"

namespace kvist::jinja {

inline constexpr std::size_t kMaxParameters = 5;

/// One use of a Function.
struct Invocation {
  Meter* meter;
  const Value* input;                ///< what the filter, test or method is applied to; undefined for a global function
  std::span<const Value> arguments;  ///< one per parameter; undefined where it was left out
  std::optional<std::chrono::local_seconds> now;  ///< what strftime_now() is told
};

/// Something with a name that computes a value. Templates name it when they are compiled, so that an unknown one is
/// refused then.
struct Function {
  std::string_view name;
  std::array<std::string_view, kMaxParameters> parameters;  ///< names, in order; empty ones are none
  std::size_t required = 0;                                 ///< so many of them must be given
  Result<Value> (*body)(const Invocation&) = nullptr;

  [[nodiscard]] std::size_t parameter_count() const;
};

/// Null where there is none of that name.
[[nodiscard]] const Function* find_filter(std::string_view name);
[[nodiscard]] const Function* find_test(std::string_view name);
[[nodiscard]] const Function* find_method(std::string_view name);
[[nodiscard]] const Function* find_global(std::string_view name);

/// The tables, by kind, for the message that says what is known.
enum class FunctionKind : std::uint8_t { kFilter, kTest, kMethod, kGlobal };
[[nodiscard]] std::string known_names(FunctionKind kind);

/// Parts that more than one table uses.
[[nodiscard]] std::span<const Function> text_methods();
[[nodiscard]] std::span<const Function> text_filters();
[[nodiscard]] std::span<const Function> list_filters();
[[nodiscard]] std::span<const Function> tests();

/// The name of a filter or test that is handed to another one must be a text: which parameter holds it, if any.
/// map("trim") -> filter in parameter 0; select("defined") -> test in 0; selectattr("role", "equalto", x) -> test in 1.
struct NamedParameter {
  std::size_t index = 0;
  FunctionKind kind = FunctionKind::kTest;
};
[[nodiscard]] std::optional<NamedParameter> function_parameter(const Function& filter);

/// The argument as text or integer: kInvalidArgument, with the function's and the parameter's name, where it is none.
[[nodiscard]] Result<const MarkedText*> text_argument(const Invocation& call, std::size_t index, std::string_view what);
[[nodiscard]] Result<std::int64_t> integer_argument(const Invocation& call, std::size_t index, std::string_view what,
                                                    std::int64_t if_absent);
/// Attribute or item of that name or index; undefined where there is none. Of an undefined value: kInvalidArgument.
[[nodiscard]] Result<Value> attribute_of(Meter& meter, const Value& value, std::string_view name);
[[nodiscard]] Result<Value> item_of(Meter& meter, const Value& value, const Value& key);

}  // namespace kvist::jinja
