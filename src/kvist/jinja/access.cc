// Attributes and items of values.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "kvist/jinja/code_points.h"
#include "kvist/jinja/functions.h"

namespace kvist::jinja {
namespace {

std::unexpected<Error> of_nothing(const Value& value) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("{} has no attributes or items", kind_of(value)));
}

Value loop_attribute(const Loop& loop, std::string_view name) {
  const auto size = static_cast<std::int64_t>(loop.items->items.size());
  const auto index = static_cast<std::int64_t>(loop.index);
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == size;
  if (name == "length") return size;
  if (name == "revindex") return size - index;
  if (name == "revindex0") return size - index - 1;
  if (name == "depth") return std::int64_t{1};
  if (name == "depth0") return std::int64_t{0};
  if (name == "previtem" && index > 0) return loop.items->items[loop.index - 1];
  if (name == "nextitem" && index + 1 < size) return loop.items->items[loop.index + 1];
  return {};
}

Result<Value> one_attribute(Meter& meter, const Value& value, std::string_view name) {
  if (value.is_undefined()) return of_nothing(value);
  if (const Dict* dict = value.dict()) {
    KVIST_TRY_VOID(meter.step(1 + dict->entries.size() / 8));
    const Value* found = dict->find(name);
    return found == nullptr ? Value() : *found;
  }
  if (const auto* space = value.as<std::shared_ptr<Namespace>>()) {
    const auto& attributes = (*space)->attributes;
    KVIST_TRY_VOID(meter.step(1 + attributes.size() / 8));
    const auto found =
        std::ranges::find(attributes, name, [](const auto& entry) -> std::string_view { return entry.first; });
    return found == attributes.end() ? Value() : found->second;
  }
  if (const auto* loop = value.as<std::shared_ptr<const Loop>>()) return loop_attribute(**loop, name);
  return Value();
}

std::optional<std::int64_t> index_in(std::string_view text) {
  std::int64_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return index;
}

}  // namespace

Result<Value> attribute_of(Meter& meter, const Value& value, std::string_view name) {
  Value current = value;
  while (true) {
    const std::size_t dot = name.find('.');
    const std::string_view part = name.substr(0, dot);
    if (const std::optional<std::int64_t> index = index_in(part)) {
      KVIST_TRY(current, item_of(meter, current, Value(*index)));
    } else {
      KVIST_TRY(current, one_attribute(meter, current, part));
    }
    if (dot == std::string_view::npos) return current;
    name.remove_prefix(dot + 1);
  }
}

Result<Value> item_of(Meter& meter, const Value& value, const Value& key) {
  if (value.is_undefined()) return of_nothing(value);
  if (key.text() != nullptr) {
    if (value.dict() == nullptr && value.as<std::shared_ptr<Namespace>>() == nullptr) return Value();
    return one_attribute(meter, value, key.text()->bytes());
  }
  if (const Dict* dict = value.dict()) {
    KVIST_TRY_VOID(meter.step(1 + dict->entries.size() / 8));
    const Value* found = dict->find(key);
    return found == nullptr ? Value() : *found;
  }
  const auto* index = key.as<std::int64_t>();
  if (index == nullptr) return Value();
  if (const List* list = value.list()) {
    const auto size = static_cast<std::int64_t>(list->items.size());
    if (*index >= size || *index < -size) return Value();
    return list->items[static_cast<std::size_t>(*index < 0 ? *index + size : *index)];
  }
  if (const MarkedText* text = value.text()) {
    KVIST_TRY_VOID(meter.scan(text->size()));
    const auto size = static_cast<std::int64_t>(count_code_points(text->bytes()));
    if (*index >= size || *index < -size) return Value();
    const std::size_t at =
        position_of_code_point(text->bytes(), static_cast<std::size_t>(*index < 0 ? *index + size : *index));
    return make_text(meter, text->part(at, at + code_point_at(text->bytes(), at).bytes));
  }
  return Value();
}

}  // namespace kvist::jinja
