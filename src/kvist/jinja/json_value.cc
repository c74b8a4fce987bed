#include "kvist/jinja/json_value.h"

#include <utility>
#include <vector>

#include "kvist/base/json.h"

namespace kvist::jinja {
namespace {

class Converter {
 public:
  Converter(Meter& meter, bool marked) : meter_(&meter), marked_(marked) {}

  Result<Value> value(const JsonValue& json) {
    KVIST_TRY_VOID(meter_->step());
    switch (json.kind()) {
      case JsonKind::kArray:
        return array(*json.if_array());
      case JsonKind::kObject:
        return object(*json.if_object());
      case JsonKind::kString:
        return text(*json.if_string());
      case JsonKind::kNumber:
        if (const auto whole = json.if_int()) return Value(*whole);
        if (const auto large = json.if_unsigned()) return Value(LargeInteger{*large});
        return Value(*json.if_double());
      case JsonKind::kBool:
        return Value(*json.if_bool());
      case JsonKind::kNull:
        break;
    }
    return Value(None());
  }

 private:
  Result<Value> text(std::string_view bytes) { return make_text(*meter_, MarkedText(std::string(bytes), marked_)); }

  Result<Value> array(const JsonArray& array) {
    std::vector<Value> items;
    items.reserve(array.size());
    for (const JsonValue json : array) {
      KVIST_TRY(Value item, value(json));
      items.push_back(std::move(item));
    }
    return make_list(*meter_, std::move(items));
  }

  Result<Value> object(const JsonObject& object) {
    std::vector<std::pair<Value, Value>> entries;
    for (const JsonObject::Member field : object) {
      KVIST_TRY(Value key, text(field.key));
      KVIST_TRY(Value item, value(field.value));
      entries.emplace_back(std::move(key), std::move(item));
    }
    return make_dict(*meter_, std::move(entries));
  }

  Meter* meter_;
  bool marked_;
};

}  // namespace

Result<Value> value_of_json(Meter& meter, std::string_view json, bool marked) {
  KVIST_TRY_VOID(meter.allocate(json.size()));
  JsonDocument document({.wrong = ErrorCode::kInvalidArgument, .most_depth = kMaxValueDepth});
  KVIST_TRY(const JsonValue root, document.parse(json));
  return Converter(meter, marked).value(root);
}

}  // namespace kvist::jinja
