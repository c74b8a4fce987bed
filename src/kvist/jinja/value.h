// The values of templates: those of Python that chat templates need.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/jinja/marked_text.h"
#include "kvist/jinja/meter.h"

namespace kvist::jinja {

class Value;
struct Macro;     // ast.h
struct Function;  // functions.h

/// A name without a value. It is false and prints nothing; almost every other use is an error.
struct Undefined {
  const std::string* name = nullptr;  ///< for error messages; points into the rendered template
};
struct None {};
/// An integer from 2^63 on, as JSON may have one. It is printed and compared exactly; arithmetic takes it for a number
/// with a point.
struct LargeInteger {
  std::uint64_t value = 0;
};

struct List;
struct Dict;
struct Namespace;
struct Loop;

/// A function of the program that renders, as a variable that the template calls. It takes its arguments by position.
/// The meter does not count its cost, so it is only for templates from a trusted author.
struct HostFunction {
  std::string name;
  std::function<Result<Value>(std::span<const Value>)> body;
};

/// What a called name stands for: one of the three.
struct Callable {
  const Macro* macro = nullptr;
  const Function* function = nullptr;
  const HostFunction* host = nullptr;  ///< has to outlive the rendering
};

using TextPtr = std::shared_ptr<const MarkedText>;
using ListPtr = std::shared_ptr<const List>;
using DictPtr = std::shared_ptr<const Dict>;

/// A value. Copies share texts, lists and dictionaries, which are immutable; a Namespace is mutable.
class Value {
 public:
  using Data = std::variant<Undefined, None, bool, std::int64_t, LargeInteger, double, TextPtr, ListPtr, DictPtr,
                            std::shared_ptr<Namespace>, std::shared_ptr<const Loop>, Callable>;

  Value() = default;
  template <class T>
    requires(!std::is_same_v<std::remove_cvref_t<T>, Value> && std::is_constructible_v<Data, T>)
  Value(T&& data) : data_(std::forward<T>(data)) {}  // NOLINT(google-explicit-constructor): any alternative is a value

  [[nodiscard]] const Data& data() const { return data_; }
  template <class T>
  [[nodiscard]] const T* as() const {
    return std::get_if<T>(&data_);
  }
  [[nodiscard]] bool is_undefined() const { return as<Undefined>() != nullptr; }
  [[nodiscard]] bool is_none() const { return as<None>() != nullptr; }
  [[nodiscard]] bool is_integer() const { return as<std::int64_t>() != nullptr || as<LargeInteger>() != nullptr; }
  [[nodiscard]] bool is_number() const { return is_integer() || as<double>() != nullptr; }
  /// The value as a number, if it is one; true and false are 1 and 0. A large integer is only a number().
  [[nodiscard]] std::optional<std::int64_t> integer() const;
  [[nodiscard]] std::optional<double> number() const;
  /// Null if the value is of another kind.
  [[nodiscard]] const MarkedText* text() const;
  [[nodiscard]] const List* list() const;
  [[nodiscard]] const Dict* dict() const;

 private:
  Data data_;
};

/// A list, or a tuple if `tuple` is true (they differ only when printed).
struct List {
  std::vector<Value> items;
  bool tuple = false;
  std::uint32_t depth = 1;  ///< levels of nested lists and dictionaries, including itself
};

/// Keys to values in the order of insertion. A key is a text, an integer, true or false, which are the keys 1 and 0
/// too.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::uint32_t depth = 1;

  /// Null if there is none. A number finds the integer that it equals.
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] const Value* find(const Value& key) const;
};

/// The result of namespace(), the only value whose attributes a template can set.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

/// `loop` inside of a for.
struct Loop {
  ListPtr items;
  std::size_t index = 0;  ///< from 0 on
};

/// The most levels of nested lists and dictionaries; deeper ones are refused.
inline constexpr std::uint32_t kMaxValueDepth = 100;

/// These make values that take memory. Errors: kTooLarge beyond the meter's bound or kMaxValueDepth.
[[nodiscard]] Result<Value> make_text(Meter& meter, MarkedText text);
[[nodiscard]] Result<Value> make_list(Meter& meter, std::vector<Value> items, bool tuple = false);
/// If a key is repeated, the last value counts, at the place of the first. Errors: kInvalidArgument for a key that is
/// neither a text nor an integer, true or false.
[[nodiscard]] Result<Value> make_dict(Meter& meter, std::vector<std::pair<Value, Value>> entries);

/// The value's kind for error messages: "a text", "a list", "undefined ('tools')", ...
[[nodiscard]] std::string kind_of(const Value& value);
[[nodiscard]] bool is_true(const Value& value);
[[nodiscard]] Result<bool> equal(Meter& meter, const Value& a, const Value& b);
/// Negative, 0 or positive. Errors: kInvalidArgument if the two have no order.
[[nodiscard]] Result<int> compare(Meter& meter, const Value& a, const Value& b);
/// `item in container`
[[nodiscard]] Result<bool> contains(Meter& meter, const Value& container, const Value& item);
/// The items over which a for loop goes: items, keys or characters; none for an undefined value.
[[nodiscard]] Result<std::vector<Value>> items_of(Meter& meter, const Value& value);

/// Appends Python's str() to `out`.
[[nodiscard]] Result<void> print(Meter& meter, const Value& value, MarkedText& out);
/// The value printed as a new text; a text is returned itself.
[[nodiscard]] Result<TextPtr> to_text(Meter& meter, const Value& value);

struct JsonStyle {
  int indent = -1;  ///< spaces per level; negative: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};
/// Appends Python's json.dumps() to `out`. Errors: kInvalidArgument for a value that JSON cannot express.
[[nodiscard]] Result<void> print_json(Meter& meter, const Value& value, const JsonStyle& style, MarkedText& out);

}  // namespace kvist::jinja
