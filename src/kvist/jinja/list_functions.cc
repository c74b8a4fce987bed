// Filters over lists and dictionaries, as Jinja defines them.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kvist/jinja/code_points.h"
#include "kvist/jinja/functions.h"
#include "kvist/jinja/operators.h"

namespace kvist::jinja {
namespace {

Result<Value> apply(const Invocation& call, const Function& function, const Value& input,
                    std::span<const Value> arguments) {
  std::array<Value, kMaxParameters> bound;
  const std::size_t count = function.parameter_count();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].is_undefined()) continue;
    if (i >= count) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' takes at most {} arguments", function.name, count));
    }
    bound[i] = arguments[i];
  }
  for (std::size_t i = 0; i < function.required; ++i) {
    if (bound[i].is_undefined())
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' needs the argument '{}'", function.name, function.parameters[i]));
  }
  KVIST_TRY_VOID(call.meter->step());
  return function.body(
      {.meter = call.meter, .input = &input, .arguments = std::span(bound.data(), count), .now = call.now});
}

// -- selection

// A function's name in a literal is checked when the template is compiled. This error is for names that are passed on
// further: map("select", "odd").
std::unexpected<Error> unknown(std::string_view kind, const MarkedText& name) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("unknown {} '{}'", kind, name.bytes()));
}

// map("filter", arguments...) or map(attribute="name", default=...)
Result<Value> map_filter(const Invocation& call) {
  if (!is_true(*call.input)) return make_list(*call.meter, {});  // Jinja looks only at what is true: none, 0
  KVIST_TRY(std::vector<Value> items, items_of(*call.meter, *call.input));
  const Value& attribute = call.arguments[3];
  if (call.arguments[0].is_undefined() == attribute.is_undefined())
    return fail(ErrorCode::kInvalidArgument, "map: expected either the name of a filter or attribute=...");
  for (Value& item : items) {
    if (!attribute.is_undefined()) {
      KVIST_TRY(const MarkedText* name, text_argument(call, 3, "the attribute"));
      KVIST_TRY(item, attribute_of(*call.meter, item, name->bytes()));
      if (item.is_undefined()) item = call.arguments[4];
    } else {
      KVIST_TRY(const MarkedText* name, text_argument(call, 0, "the filter's name"));
      const Function* filter = find_filter(name->bytes());
      if (filter == nullptr) return unknown("filter", *name);
      KVIST_TRY(item, apply(call, *filter, item, call.arguments.subspan(1, 2)));
    }
  }
  return make_list(*call.meter, std::move(items));
}

// Whether the item, or its attribute, passes the test in argument `test`; without a test, whether it is true.
Result<bool> passes(const Invocation& call, const Value& item, std::size_t test) {
  if (call.arguments[test].is_undefined()) return is_true(item);
  KVIST_TRY(const MarkedText* name, text_argument(call, test, "the test's name"));
  const Function* function = find_test(name->bytes());
  if (function == nullptr) return unknown("test", *name);
  KVIST_TRY(const Value result, apply(call, *function, item, call.arguments.subspan(test + 1)));
  return is_true(result);
}

template <bool kWanted, bool kByAttribute>
Result<Value> select_filter(const Invocation& call) {
  if (!is_true(*call.input)) return make_list(*call.meter, {});  // as map_filter()
  KVIST_TRY(std::vector<Value> items, items_of(*call.meter, *call.input));
  std::vector<Value> kept;
  for (Value& item : items) {
    Value judged = item;
    if (kByAttribute) {
      KVIST_TRY(const MarkedText* name, text_argument(call, 0, "the attribute"));
      KVIST_TRY(judged, attribute_of(*call.meter, item, name->bytes()));
    }
    KVIST_TRY(const bool passed, passes(call, judged, kByAttribute ? 1 : 0));
    if (passed == kWanted) kept.push_back(std::move(item));
  }
  return make_list(*call.meter, std::move(kept));
}

Result<Value> first_filter(const Invocation& call) {
  if (const List* list = call.input->list()) return list->items.empty() ? Value() : list->items.front();
  KVIST_TRY(std::vector<Value> items, items_of(*call.meter, *call.input));
  return items.empty() ? Value() : std::move(items.front());
}

Result<Value> last_filter(const Invocation& call) {
  if (const List* list = call.input->list()) return list->items.empty() ? Value() : list->items.back();
  KVIST_TRY(std::vector<Value> items, items_of(*call.meter, *call.input));
  return items.empty() ? Value() : std::move(items.back());
}

Result<Value> length_filter(const Invocation& call) {
  std::size_t length = 0;
  if (const List* list = call.input->list()) {
    length = list->items.size();
  } else if (const Dict* dict = call.input->dict()) {
    length = dict->entries.size();
  } else if (const MarkedText* text = call.input->text()) {
    KVIST_TRY_VOID(call.meter->scan(text->size()));
    length = count_code_points(text->bytes());
  } else if (!call.input->is_undefined()) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} has no length", kind_of(*call.input)));
  }
  return Value(static_cast<std::int64_t>(length));
}

Result<Value> list_filter(const Invocation& call) {
  KVIST_TRY(std::vector<Value> items, items_of(*call.meter, *call.input));
  return make_list(*call.meter, std::move(items));
}

Result<Value> reverse_filter(const Invocation& call) {
  KVIST_TRY(std::vector<Value> items, items_of(*call.meter, *call.input));
  std::ranges::reverse(items);
  if (call.input->text() == nullptr) return make_list(*call.meter, std::move(items));
  MarkedText out;
  for (const Value& item : items) out.append(*item.text());
  return make_text(*call.meter, std::move(out));
}

// -- order

// The sort key of an item: its attribute, in lower case unless the order is case-sensitive.
Result<Value> sort_key(const Invocation& call, const Value& item, const Value& attribute, bool case_sensitive) {
  Value key = item;
  if (!attribute.is_undefined()) {
    if (attribute.text() == nullptr) return fail(ErrorCode::kInvalidArgument, "the attribute must be a text");
    KVIST_TRY(key, attribute_of(*call.meter, item, attribute.text()->bytes()));
  }
  if (case_sensitive || key.text() == nullptr) return key;
  return apply(call, *find_filter("lower"), key, {});
}

Result<std::vector<Value>> sorted(const Invocation& call, std::vector<Value> items, std::vector<Value> keys,
                                  bool reverse) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::optional<Error> error;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    if (error) return false;
    Result<int> result = reverse ? compare(*call.meter, keys[b], keys[a]) : compare(*call.meter, keys[a], keys[b]);
    if (result) return *result < 0;
    error = std::move(result).error();
    return false;
  });
  if (error) return std::unexpected(std::move(*error));
  std::vector<Value> out;
  out.reserve(order.size());
  for (const std::size_t index : order) out.push_back(std::move(items[index]));
  return out;
}

Result<Value> sort_filter(const Invocation& call) {
  KVIST_TRY(std::vector<Value> items, items_of(*call.meter, *call.input));
  std::vector<Value> keys;
  for (const Value& item : items) {
    KVIST_TRY(Value key, sort_key(call, item, call.arguments[2], is_true(call.arguments[1])));
    keys.push_back(std::move(key));
  }
  KVIST_TRY(items, sorted(call, std::move(items), std::move(keys), is_true(call.arguments[0])));
  return make_list(*call.meter, std::move(items));
}

Result<Value> unique_filter(const Invocation& call) {
  KVIST_TRY(std::vector<Value> items, items_of(*call.meter, *call.input));
  std::vector<Value> seen;
  std::vector<Value> kept;
  for (Value& item : items) {
    KVIST_TRY(Value key, sort_key(call, item, call.arguments[1], is_true(call.arguments[0])));
    bool known = false;
    for (std::size_t i = 0; i < seen.size() && !known; ++i) {
      KVIST_TRY(known, equal(*call.meter, seen[i], key));
    }
    if (known) continue;
    seen.push_back(std::move(key));
    kept.push_back(std::move(item));
  }
  return make_list(*call.meter, std::move(kept));
}

// Of equal ones the first.
template <bool kGreatest>
Result<Value> extreme_filter(const Invocation& call) {
  KVIST_TRY(std::vector<Value> items, items_of(*call.meter, *call.input));
  if (items.empty()) return Value();
  std::size_t best = 0;
  KVIST_TRY(Value best_key, sort_key(call, items[0], call.arguments[1], is_true(call.arguments[0])));
  for (std::size_t i = 1; i < items.size(); ++i) {
    KVIST_TRY(Value key, sort_key(call, items[i], call.arguments[1], is_true(call.arguments[0])));
    KVIST_TRY(const int order, compare(*call.meter, key, best_key));
    if (kGreatest ? order <= 0 : order >= 0) continue;
    best = i;
    best_key = std::move(key);
  }
  return std::move(items[best]);
}

Result<Value> sum_filter(const Invocation& call) {
  KVIST_TRY(const std::vector<Value> items, items_of(*call.meter, *call.input));
  Value sum = call.arguments[1].is_undefined() ? Value(std::int64_t{0}) : call.arguments[1];
  if (sum.text() != nullptr) return fail(ErrorCode::kInvalidArgument, "sum: texts are joined, not added");
  for (const Value& item : items) {
    Value part = item;
    if (!call.arguments[0].is_undefined() && !call.arguments[0].is_none()) {
      KVIST_TRY(const MarkedText* attribute, text_argument(call, 0, "the attribute"));
      KVIST_TRY(part, attribute_of(*call.meter, item, attribute->bytes()));
    }
    KVIST_TRY_VOID(call.meter->step());
    KVIST_TRY(sum, binary(*call.meter, BinaryOperator::kAdd, sum, part));
  }
  return sum;
}

// -- dictionaries

Result<std::vector<Value>> entries_of(const Invocation& call, std::string_view what) {
  std::vector<Value> pairs;
  if (call.input->is_undefined()) return pairs;
  const Dict* dict = call.input->dict();
  if (dict == nullptr)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: expected a dictionary, got {}", what, kind_of(*call.input)));
  for (const auto& [key, value] : dict->entries) {
    KVIST_TRY(Value pair, make_list(*call.meter, {key, value}, true));
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

Result<Value> items_filter(const Invocation& call) {
  KVIST_TRY(std::vector<Value> pairs, entries_of(call, "items"));
  return make_list(*call.meter, std::move(pairs));
}

Result<Value> dictsort_filter(const Invocation& call) {
  KVIST_TRY(std::vector<Value> pairs, entries_of(call, "dictsort"));
  std::size_t part = 0;
  if (!call.arguments[1].is_undefined()) {
    KVIST_TRY(const MarkedText* by, text_argument(call, 1, "what to sort by"));
    if (by->bytes() != "key" && by->bytes() != "value")
      return fail(ErrorCode::kInvalidArgument, "dictsort: by must be 'key' or 'value'");
    part = by->bytes() == "key" ? 0 : 1;
  }
  std::vector<Value> keys;
  for (const Value& pair : pairs) {
    KVIST_TRY(Value key, sort_key(call, pair.list()->items[part], Value(), is_true(call.arguments[0])));
    keys.push_back(std::move(key));
  }
  KVIST_TRY(pairs, sorted(call, std::move(pairs), std::move(keys), is_true(call.arguments[2])));
  return make_list(*call.meter, std::move(pairs));
}

// -- defaults

Result<Value> default_filter(const Invocation& call) {
  const bool absent = call.input->is_undefined() || (is_true(call.arguments[1]) && !is_true(*call.input));
  if (!absent) return *call.input;
  if (call.arguments[0].is_undefined()) return make_text(*call.meter, MarkedText());
  return call.arguments[0];
}

constexpr Function kListFilters[] = {
    {"count", {}, 0, &length_filter},
    {"d", {"default_value", "boolean"}, 0, &default_filter},
    {"default", {"default_value", "boolean"}, 0, &default_filter},
    {"dictsort", {"case_sensitive", "by", "reverse"}, 0, &dictsort_filter},
    {"first", {}, 0, &first_filter},
    {"items", {}, 0, &items_filter},
    {"last", {}, 0, &last_filter},
    {"length", {}, 0, &length_filter},
    {"list", {}, 0, &list_filter},
    {"map", {"filter", "argument", "second_argument", "attribute", "default"}, 0, &map_filter},
    {"max", {"case_sensitive", "attribute"}, 0, &extreme_filter<true>},
    {"min", {"case_sensitive", "attribute"}, 0, &extreme_filter<false>},
    {"reject", {"test", "argument"}, 0, &select_filter<false, false>},
    {"rejectattr", {"attribute", "test", "argument"}, 1, &select_filter<false, true>},
    {"reverse", {}, 0, &reverse_filter},
    {"select", {"test", "argument"}, 0, &select_filter<true, false>},
    {"selectattr", {"attribute", "test", "argument"}, 1, &select_filter<true, true>},
    {"sort", {"reverse", "case_sensitive", "attribute"}, 0, &sort_filter},
    {"sum", {"attribute", "start"}, 0, &sum_filter},
    {"unique", {"case_sensitive", "attribute"}, 0, &unique_filter},
};

}  // namespace

std::span<const Function> list_filters() {
  return kListFilters;
}

}  // namespace kvist::jinja
