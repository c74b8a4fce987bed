#include "kvist/jinja/json_value.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <utility>
#include <vector>

namespace kvist::jinja {
namespace {

class Converter {
 public:
  Converter(Meter& meter, bool marked) : meter_(&meter), marked_(marked) {}

  Result<Value> value(simdjson::dom::element element) {
    KVIST_TRY_VOID(meter_->step());
    switch (element.type()) {
      case simdjson::dom::element_type::ARRAY:
        return array(simdjson::dom::array(element));
      case simdjson::dom::element_type::OBJECT:
        return object(simdjson::dom::object(element));
      case simdjson::dom::element_type::STRING:
        return text(std::string_view(element));
      case simdjson::dom::element_type::INT64:
        return Value(std::int64_t(element));
      case simdjson::dom::element_type::UINT64:
        return Value(static_cast<double>(std::uint64_t(element)));
      case simdjson::dom::element_type::DOUBLE:
        return Value(double(element));
      case simdjson::dom::element_type::BOOL:
        return Value(bool(element));
      case simdjson::dom::element_type::NULL_VALUE:
        return Value(None());
    }
    return Value();
  }

 private:
  Result<Value> text(std::string_view bytes) { return make_text(*meter_, MarkedText(std::string(bytes), marked_)); }

  Result<Value> array(simdjson::dom::array array) {
    std::vector<Value> items;
    items.reserve(array.size());
    for (const simdjson::dom::element element : array) {
      KVIST_TRY(Value item, value(element));
      items.push_back(std::move(item));
    }
    return make_list(*meter_, std::move(items));
  }

  Result<Value> object(simdjson::dom::object object) {
    std::vector<std::pair<TextPtr, Value>> entries;
    for (const simdjson::dom::key_value_pair field : object) {
      KVIST_TRY(const Value key, text(field.key));
      KVIST_TRY(Value item, value(field.value));
      entries.emplace_back(*key.as<TextPtr>(), std::move(item));
    }
    return make_dict(*meter_, std::move(entries));
  }

  Meter* meter_;
  bool marked_;
};

}  // namespace

Result<Value> value_of_json(Meter& meter, std::string_view json, bool marked) {
  KVIST_TRY_VOID(meter.allocate(json.size()));
  simdjson::dom::parser parser;
  if (parser.allocate(json.size(), kMaxValueDepth) != simdjson::SUCCESS)
    return fail(ErrorCode::kTooLarge, "the JSON text is too large");
  simdjson::dom::element root;
  if (const simdjson::error_code error = parser.parse(json.data(), json.size()).get(root))
    return fail(ErrorCode::kInvalidArgument, fmt::format("not JSON: {}", simdjson::error_message(error)));
  return Converter(meter, marked).value(root);
}

}  // namespace kvist::jinja
