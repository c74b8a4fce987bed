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
  std::span<const Value> arguments;  ///< one per parameter; undefined if it was left out
  std::optional<std::chrono::local_seconds> now;  ///< the time that strftime_now() uses
};

/// A named function that computes a value. Names are resolved when a template is compiled, so an unknown one is refused
/// then.
struct Function {
  std::string_view name;
  std::array<std::string_view, kMaxParameters> parameters;  ///< names, in order; empty beyond the last
  std::size_t required = 0;                                 ///< number of parameters that must be given
  Result<Value> (*body)(const Invocation&) = nullptr;

  [[nodiscard]] std::size_t parameter_count() const;
};

/// Null if there is no function of that name.
[[nodiscard]] const Function* find_filter(std::string_view name);
[[nodiscard]] const Function* find_test(std::string_view name);
[[nodiscard]] const Function* find_method(std::string_view name);
[[nodiscard]] const Function* find_global(std::string_view name);

/// The kinds of functions, for the message that lists the known ones.
enum class FunctionKind : std::uint8_t { kFilter, kTest, kMethod, kGlobal };
[[nodiscard]] std::string known_names(FunctionKind kind);

/// Parts of the tables, each defined in another file.
[[nodiscard]] std::span<const Function> text_methods();
[[nodiscard]] std::span<const Function> text_filters();
[[nodiscard]] std::span<const Function> list_filters();
[[nodiscard]] std::span<const Function> number_filters();
[[nodiscard]] std::span<const Function> tests();

/// Some filters take the name of another filter or test as a text. Says which parameter is that name, if any.
/// map("trim") -> filter in parameter 0; select("defined") -> test in 0; selectattr("role", "equalto", x) -> test in 1.
struct NamedParameter {
  std::size_t index = 0;
  FunctionKind kind = FunctionKind::kTest;
};
[[nodiscard]] std::optional<NamedParameter> function_parameter(const Function& filter);

/// The argument as a text or integer. Errors: kInvalidArgument with the names of function and parameter if it is of
/// another kind.
[[nodiscard]] Result<const MarkedText*> text_argument(const Invocation& call, std::size_t index, std::string_view what);
[[nodiscard]] Result<std::int64_t> integer_argument(const Invocation& call, std::size_t index, std::string_view what,
                                                    std::int64_t if_absent);
/// The attribute or item of that name or index; undefined if there is none. Errors: kInvalidArgument if `value` is
/// undefined.
[[nodiscard]] Result<Value> attribute_of(Meter& meter, const Value& value, std::string_view name);
[[nodiscard]] Result<Value> item_of(Meter& meter, const Value& value, const Value& key);

}  // namespace kvist::jinja
