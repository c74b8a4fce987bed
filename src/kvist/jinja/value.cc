#include "kvist/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "kvist/jinja/code_points.h"

namespace kvist::jinja {
namespace {

std::uint32_t depth_of(const Value& value) {
  if (const List* list = value.list()) return list->depth;
  if (const Dict* dict = value.dict()) return dict->depth;
  if (const auto* loop = value.as<std::shared_ptr<const Loop>>()) return (*loop)->items->depth;
  return 0;
}

Result<std::uint32_t> one_deeper(std::uint32_t depth) {
  if (depth >= kMaxValueDepth)
    return fail(ErrorCode::kTooLarge, fmt::format("lists or dictionaries nest deeper than {} levels", kMaxValueDepth));
  return depth + 1;
}

template <class T>
int order(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

// The integer that equals the number, if one does.
std::optional<std::int64_t> equal_integer(const Value& value) {
  constexpr double kLimit = 0x1p63;
  const auto* real = value.as<double>();
  if (real == nullptr) return value.integer();
  if (!(*real >= -kLimit && *real < kLimit) || std::trunc(*real) != *real) return std::nullopt;
  return static_cast<std::int64_t>(*real);
}

// By which keys are sorted to find equal ones: a text, or a number.
std::pair<std::optional<std::int64_t>, std::string_view> order_of_key(const Value& key) {
  return {key.integer(), key.text() == nullptr ? std::string_view() : key.text()->bytes()};
}

// How two integers are ordered, of which one or both are large; nothing if they are not that.
std::optional<int> order_of_large(const Value& a, const Value& b) {
  const auto* x = a.as<LargeInteger>();
  const auto* y = b.as<LargeInteger>();
  if (x != nullptr && y != nullptr) return order(x->value, y->value);
  if (x != nullptr && b.integer()) return 1;
  if (y != nullptr && a.integer()) return -1;
  return std::nullopt;
}

Result<bool> equal_lists(Meter& meter, const List& a, const List& b) {
  if (a.tuple != b.tuple || a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    KVIST_TRY(const bool same, equal(meter, a.items[i], b.items[i]));
    if (!same) return false;
  }
  return true;
}

Result<bool> equal_dicts(Meter& meter, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    KVIST_TRY_VOID(meter.step(b.entries.size()));
    const Value* other = b.find(key);
    if (other == nullptr) return false;
    KVIST_TRY(const bool same, equal(meter, value, *other));
    if (!same) return false;
  }
  return true;
}

}  // namespace

std::optional<std::int64_t> Value::integer() const {
  if (const auto* whole = as<std::int64_t>()) return *whole;
  if (const auto* flag = as<bool>()) return *flag ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const auto* real = as<double>()) return *real;
  if (const auto* large = as<LargeInteger>()) return static_cast<double>(large->value);
  if (const auto whole = integer()) return static_cast<double>(*whole);
  return std::nullopt;
}

const MarkedText* Value::text() const {
  const auto* text = as<TextPtr>();
  return text == nullptr ? nullptr : text->get();
}

const List* Value::list() const {
  const auto* list = as<ListPtr>();
  return list == nullptr ? nullptr : list->get();
}

const Dict* Value::dict() const {
  const auto* dict = as<DictPtr>();
  return dict == nullptr ? nullptr : dict->get();
}

const Value* Dict::find(std::string_view key) const {
  const auto found = std::ranges::find_if(entries, [key](const auto& entry) {
    const MarkedText* text = entry.first.text();
    return text != nullptr && text->bytes() == key;
  });
  return found == entries.end() ? nullptr : &found->second;
}

const Value* Dict::find(const Value& key) const {
  if (const MarkedText* text = key.text()) return find(text->bytes());
  const std::optional<std::int64_t> number = equal_integer(key);
  if (!number) return nullptr;
  const auto found = std::ranges::find(entries, number, [](const auto& entry) { return entry.first.integer(); });
  return found == entries.end() ? nullptr : &found->second;
}

Result<Value> make_text(Meter& meter, MarkedText text) {
  KVIST_TRY_VOID(meter.allocate(sizeof(MarkedText) + text.size() + text.marks().size() * sizeof(MarkedText::Range)));
  return Value(std::make_shared<const MarkedText>(std::move(text)));
}

Result<Value> make_list(Meter& meter, std::vector<Value> items, bool tuple) {
  KVIST_TRY_VOID(meter.allocate(sizeof(List) + items.size() * sizeof(Value)));
  std::uint32_t deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, depth_of(item));
  KVIST_TRY(const std::uint32_t depth, one_deeper(deepest));
  return Value(std::make_shared<const List>(List{.items = std::move(items), .tuple = tuple, .depth = depth}));
}

Result<Value> make_dict(Meter& meter, std::vector<std::pair<Value, Value>> entries) {
  for (const auto& [key, unused] : entries) {
    if (key.text() == nullptr && !key.integer())
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("a dictionary's key must be a text or an integer, not {}", kind_of(key)));
  }
  KVIST_TRY_VOID(meter.allocate(sizeof(Dict) + entries.size() * sizeof(entries.front())));
  Dict dict;
  dict.entries.reserve(entries.size());
  std::uint32_t deepest = 0;
  // Equal keys are found by sorting, because comparing all pairs takes too long for large dictionaries.
  std::vector<std::size_t> order_of_keys(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) order_of_keys[i] = i;
  std::ranges::stable_sort(order_of_keys, {}, [&](std::size_t i) { return order_of_key(entries[i].first); });
  std::vector<bool> dropped(entries.size(), false);
  for (std::size_t i = order_of_keys.size(); i-- > 1;) {
    const std::size_t first = order_of_keys[i - 1];
    const std::size_t again = order_of_keys[i];
    if (order_of_key(entries[first].first) != order_of_key(entries[again].first)) continue;
    entries[first].second = std::move(entries[again].second);
    dropped[again] = true;
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (dropped[i]) continue;
    deepest = std::max(deepest, depth_of(entries[i].second));
    dict.entries.push_back(std::move(entries[i]));
  }
  KVIST_TRY(dict.depth, one_deeper(deepest));
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

std::string kind_of(const Value& value) {
  struct Name {
    std::string operator()(const Undefined& undefined) const {
      return undefined.name == nullptr ? "undefined" : fmt::format("undefined ('{}')", *undefined.name);
    }
    std::string operator()(None) const { return "none"; }
    std::string operator()(bool) const { return "true or false"; }
    std::string operator()(std::int64_t) const { return "an integer"; }
    std::string operator()(LargeInteger) const { return "a large integer"; }
    std::string operator()(double) const { return "a number"; }
    std::string operator()(const TextPtr&) const { return "a text"; }
    std::string operator()(const ListPtr& list) const { return list->tuple ? "a tuple" : "a list"; }
    std::string operator()(const DictPtr&) const { return "a dictionary"; }
    std::string operator()(const std::shared_ptr<Namespace>&) const { return "a namespace"; }
    std::string operator()(const std::shared_ptr<const Loop>&) const { return "a loop"; }
    std::string operator()(Callable) const { return "a function"; }
  };
  return std::visit(Name(), value.data());
}

bool is_true(const Value& value) {
  struct Truth {
    bool operator()(const Undefined&) const { return false; }
    bool operator()(None) const { return false; }
    bool operator()(bool flag) const { return flag; }
    bool operator()(std::int64_t number) const { return number != 0; }
    bool operator()(LargeInteger) const { return true; }
    bool operator()(double number) const { return number != 0; }
    bool operator()(const TextPtr& text) const { return !text->empty(); }
    bool operator()(const ListPtr& list) const { return !list->items.empty(); }
    bool operator()(const DictPtr& dict) const { return !dict->entries.empty(); }
    bool operator()(const std::shared_ptr<Namespace>&) const { return true; }
    bool operator()(const std::shared_ptr<const Loop>&) const { return true; }
    bool operator()(Callable) const { return true; }
  };
  return std::visit(Truth(), value.data());
}

Result<bool> equal(Meter& meter, const Value& a, const Value& b) {
  KVIST_TRY_VOID(meter.step());
  if (const auto x = a.integer(), y = b.integer(); x && y) return *x == *y;
  if (const std::optional<int> large = order_of_large(a, b)) return *large == 0;
  if (const auto x = a.number(), y = b.number(); x && y) return *x == *y;
  if (a.data().index() != b.data().index()) return false;
  if (const MarkedText* text = a.text()) {
    if (text->size() != b.text()->size()) return false;
    KVIST_TRY_VOID(meter.scan(text->size()));
    return text->bytes() == b.text()->bytes();
  }
  if (const List* list = a.list()) return equal_lists(meter, *list, *b.list());
  if (const Dict* dict = a.dict()) return equal_dicts(meter, *dict, *b.dict());
  if (const auto* space = a.as<std::shared_ptr<Namespace>>()) return *space == *b.as<std::shared_ptr<Namespace>>();
  return a.is_none() || a.is_undefined();
}

Result<int> compare(Meter& meter, const Value& a, const Value& b) {
  KVIST_TRY_VOID(meter.step());
  if (const auto x = a.integer(), y = b.integer(); x && y) return order(*x, *y);
  if (const std::optional<int> large = order_of_large(a, b)) return *large;
  if (const auto x = a.number(), y = b.number(); x && y) return order(*x, *y);
  if (a.text() != nullptr && b.text() != nullptr) {
    KVIST_TRY_VOID(meter.scan(std::min(a.text()->size(), b.text()->size())));
    return order(a.text()->bytes(), b.text()->bytes());
  }
  if (a.list() != nullptr && b.list() != nullptr) {
    const std::vector<Value>& x = a.list()->items;
    const std::vector<Value>& y = b.list()->items;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      KVIST_TRY(const bool same, equal(meter, x[i], y[i]));
      if (!same) return compare(meter, x[i], y[i]);
    }
    return order(x.size(), y.size());
  }
  return fail(ErrorCode::kInvalidArgument, fmt::format("{} and {} have no order", kind_of(a), kind_of(b)));
}

Result<bool> contains(Meter& meter, const Value& container, const Value& item) {
  if (const MarkedText* text = container.text()) {
    if (item.text() == nullptr)
      return fail(ErrorCode::kInvalidArgument, fmt::format("a text can hold a text, not {}", kind_of(item)));
    KVIST_TRY_VOID(meter.scan(text->size()));
    return find_in(text->bytes(), item.text()->bytes()) != std::string_view::npos;
  }
  if (const Dict* dict = container.dict()) {
    KVIST_TRY_VOID(meter.step(1 + dict->entries.size()));
    return dict->find(item) != nullptr;
  }
  if (const List* list = container.list()) {
    for (const Value& candidate : list->items) {
      KVIST_TRY(const bool same, equal(meter, candidate, item));
      if (same) return true;
    }
    return false;
  }
  if (container.is_undefined()) return false;
  return fail(ErrorCode::kInvalidArgument, fmt::format("{} can hold nothing", kind_of(container)));
}

Result<std::vector<Value>> items_of(Meter& meter, const Value& value) {
  std::vector<Value> items;
  if (const List* list = value.list()) {
    KVIST_TRY_VOID(meter.allocate(list->items.size() * sizeof(Value)));
    return list->items;
  }
  if (const Dict* dict = value.dict()) {
    KVIST_TRY_VOID(meter.allocate(dict->entries.size() * sizeof(Value)));
    for (const auto& [key, unused] : dict->entries) items.emplace_back(key);
    return items;
  }
  if (const MarkedText* text = value.text()) {
    for (std::size_t at = 0; at < text->size();) {
      const std::size_t bytes = code_point_at(text->bytes(), at).bytes;
      KVIST_TRY(Value character, make_text(meter, text->part(at, at + bytes)));
      KVIST_TRY_VOID(meter.allocate(sizeof(Value)));
      items.push_back(std::move(character));
      at += bytes;
    }
    return items;
  }
  if (value.is_undefined()) return items;
  return fail(ErrorCode::kInvalidArgument, fmt::format("{} has no items to go through", kind_of(value)));
}

}  // namespace kvist::jinja
