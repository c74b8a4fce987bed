// The values that templates compute with: Python's, as far as chat templates need them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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

/// A name without a value. Prints as nothing and is false; almost anything else done with it is an error.
struct Undefined {
  const std::string* name = nullptr;  ///< for messages; part of the template that is rendered
};
struct None {};

struct List;
struct Dict;
struct Namespace;
struct Loop;

/// A function of the program that renders: a variable that the template calls by its name. It takes its arguments by
/// position and counts nothing on the meter, so it is for templates whose author is trusted with its cost.
struct HostFunction {
  std::string name;
  std::function<Result<Value>(std::span<const Value>)> body;
};

/// What a name in front of parentheses stands for: one of the three.
struct Callable {
  const Macro* macro = nullptr;
  const Function* function = nullptr;
  const HostFunction* host = nullptr;  ///< outlives the rendering
};

using TextPtr = std::shared_ptr<const MarkedText>;
using ListPtr = std::shared_ptr<const List>;
using DictPtr = std::shared_ptr<const Dict>;

/// One value; copies share texts, lists and dictionaries, which never change. Only a Namespace does.
class Value {
 public:
  using Data = std::variant<Undefined, None, bool, std::int64_t, double, TextPtr, ListPtr, DictPtr,
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
  [[nodiscard]] bool is_number() const { return as<std::int64_t>() != nullptr || as<double>() != nullptr; }
  /// Null where it is none of that kind.
  [[nodiscard]] const MarkedText* text() const;
  [[nodiscard]] const List* list() const;
  [[nodiscard]] const Dict* dict() const;

 private:
  Data data_;
};

/// A list or, where `tuple`, a tuple (they differ in print only).
struct List {
  std::vector<Value> items;
  bool tuple = false;
  std::uint32_t depth = 1;  ///< levels of lists and dictionaries in it, itself included
};

/// Text keys to values in the order of insertion.
struct Dict {
  std::vector<std::pair<TextPtr, Value>> entries;
  std::uint32_t depth = 1;

  /// Null where there is none.
  [[nodiscard]] const Value* find(std::string_view key) const;
};

/// What namespace() makes: the one thing whose attributes a template can set.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

/// `loop` inside of a for.
struct Loop {
  ListPtr items;
  std::size_t index = 0;  ///< from 0 on
};

/// Lists and dictionaries in each other; deeper ones are refused.
inline constexpr std::uint32_t kMaxValueDepth = 100;

/// Values that take memory. kTooLarge beyond the meter's bound or kMaxValueDepth.
[[nodiscard]] Result<Value> make_text(Meter& meter, MarkedText text);
[[nodiscard]] Result<Value> make_list(Meter& meter, std::vector<Value> items, bool tuple = false);
/// A key that comes again replaces the value of the first.
[[nodiscard]] Result<Value> make_dict(Meter& meter, std::vector<std::pair<TextPtr, Value>> entries);

/// "a text", "a list", "undefined ('tools')", ...: how messages call the value.
[[nodiscard]] std::string kind_of(const Value& value);
[[nodiscard]] bool is_true(const Value& value);
[[nodiscard]] Result<bool> equal(Meter& meter, const Value& a, const Value& b);
/// Negative, 0 or positive; kInvalidArgument where the two have no order.
[[nodiscard]] Result<int> compare(Meter& meter, const Value& a, const Value& b);
/// `item in container`
[[nodiscard]] Result<bool> contains(Meter& meter, const Value& container, const Value& item);
/// What a for loop would see: items, keys, characters; nothing of an undefined value.
[[nodiscard]] Result<std::vector<Value>> items_of(Meter& meter, const Value& value);

/// Python's str(): appended to `out`.
[[nodiscard]] Result<void> print(Meter& meter, const Value& value, MarkedText& out);
/// The same as a text of its own; a text is returned as it is.
[[nodiscard]] Result<TextPtr> to_text(Meter& meter, const Value& value);

struct JsonStyle {
  int indent = -1;  ///< spaces per level; negative: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};
/// Python's json.dumps(): appended to `out`. kInvalidArgument for what JSON has no form for.
[[nodiscard]] Result<void> print_json(Meter& meter, const Value& value, const JsonStyle& style, MarkedText& out);

}  // namespace kvist::jinja
