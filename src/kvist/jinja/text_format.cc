#include "kvist/jinja/text_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "kvist/jinja/code_points.h"

namespace kvist::jinja {
namespace {

constexpr std::size_t kMostWidth = 1'000;
constexpr std::size_t kMostPrecision = 100;

std::unexpected<Error> wrong_format(std::string_view what) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("format: {}", what));
}

bool is_align(char c) {
  return c == '<' || c == '>' || c == '^';
}

/// Takes a number from the beginning of the text, if there is one.
Result<std::optional<std::size_t>> take_number(std::string_view& text, std::size_t most) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::invalid_argument) return std::optional<std::size_t>();
  if (error != std::errc() || number > most) return wrong_format(fmt::format("a number greater than {}", most));
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return std::optional(number);
}

Result<FormatSpec> read_spec(std::string_view text) {
  FormatSpec spec;
  const std::string_view whole = text;
  const auto take = [&](char c) {
    if (!text.starts_with(c)) return false;
    text.remove_prefix(1);
    return true;
  };
  const std::size_t fill = text.empty() ? 0 : code_point_at(text, 0).bytes;
  const bool given = fill < text.size() && is_align(text[fill]);
  if (given) {
    spec.fill = text.substr(0, fill);
    text.remove_prefix(fill);
  }
  if (!text.empty() && is_align(text.front())) {
    spec.align = text.front();
    text.remove_prefix(1);
  }
  for (const char sign : {'-', '+', ' '})
    if (take(sign)) {
      spec.sign = sign;
      break;
    }
  // Where an alignment is given, zeros are just another fill.
  spec.zeros = text.starts_with('0') && spec.align == '\0';
  if (text.starts_with('0') && spec.align != '\0' && !given) spec.fill = "0";
  KVIST_TRY(const std::optional<std::size_t> width, take_number(text, kMostWidth));
  spec.width = width.value_or(0);
  spec.thousands = take(',');
  if (take('.')) {
    KVIST_TRY(spec.precision, take_number(text, kMostPrecision));
    if (!spec.precision) return wrong_format("a point without a precision");
  }
  if (text.size() == 1 && std::string_view("sdxXobfe%").contains(text.front())) {
    spec.type = text.front();
    text.remove_prefix(1);
  }
  if (!text.empty() || (spec.zeros && spec.thousands)) return wrong_format(fmt::format("'{}' is not supported", whole));
  return spec;
}

std::string with_thousands(std::string digits) {
  const std::size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (std::size_t at = end; at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

/// A number without its sign, or the reason why the specification is not for it.
Result<std::string> digits_of(std::uint64_t number, const FormatSpec& spec) {
  if (spec.precision) return wrong_format("an integer has no precision");
  switch (spec.type) {
    case 'x':
      return fmt::format("{:x}", number);
    case 'X':
      return fmt::format("{:X}", number);
    case 'o':
      return fmt::format("{:o}", number);
    case 'b':
      return fmt::format("{:b}", number);
    default:
      return std::to_string(number);
  }
}

Result<std::string> digits_of(Meter& meter, double number, const FormatSpec& spec) {
  if (spec.type == '\0') {
    if (spec.precision) return wrong_format("a precision needs one of the types f, e and %");
    MarkedText out;
    KVIST_TRY_VOID(print(meter, Value(number), out));
    return std::string(out.bytes());
  }
  if (spec.type == '%') number *= 100;
  std::array<char, 512> digits{};  // 309 before the point
  const auto style = spec.type == 'e' ? std::chars_format::scientific : std::chars_format::fixed;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number, style,
                                          static_cast<int>(spec.precision.value_or(6)));
  if (error != std::errc()) return wrong_format("the number is too long");
  return std::string(digits.data(), end) + (spec.type == '%' ? "%" : "");
}

class FieldWriter {
 public:
  FieldWriter(Meter& meter, const FormatSpec& spec, MarkedText& out) : meter_(&meter), spec_(&spec), out_(&out) {}

  Result<void> write(const Value& value) {
    KVIST_TRY_VOID(meter_->step());
    KVIST_TRY_VOID(meter_->allocate(4 * spec_->width));
    if (const MarkedText* text = value.text()) return write(*text);
    if (*spec_ == FormatSpec()) return print(*meter_, value, *out_);
    if (!value.number()) return wrong_format(fmt::format("{} takes no specification", kind_of(value)));
    return write_number(value);
  }

 private:
  Result<void> write(const MarkedText& text) {
    if ((spec_->type != '\0' && spec_->type != 's') || spec_->sign != '\0' || spec_->zeros || spec_->thousands)
      return wrong_format("the specification is not one for a text");
    KVIST_TRY_VOID(meter_->scan(text.size()));
    KVIST_TRY_VOID(meter_->allocate(text.size()));
    std::size_t end = text.size();
    if (spec_->precision && count_code_points(text.bytes()) > *spec_->precision)
      end = position_of_code_point(text.bytes(), *spec_->precision);
    const std::size_t length = count_code_points(text.bytes().substr(0, end));
    pad(length, '<', true);
    out_->append(text, 0, end);
    pad(length, '<', false);
    return {};
  }

  Result<void> write_number(const Value& value) {
    const char type = spec_->type;
    const bool real = value.as<double>() != nullptr;
    const bool as_real = type == 'f' || type == 'e' || type == '%';
    if (type == 's' || (real && type != '\0' && !as_real) ||
        (spec_->thousands && (type == 'x' || type == 'X' || type == 'o' || type == 'b')))
      return wrong_format(fmt::format("the specification is not one for {}", kind_of(value)));
    bool negative = false;
    std::string digits;
    if (real || as_real) {
      const double number = *value.number();
      negative = std::signbit(number) && !std::isnan(number);
      KVIST_TRY(digits, digits_of(*meter_, std::abs(number), *spec_));
    } else {
      const auto* large = value.as<LargeInteger>();
      const std::int64_t number = value.integer().value_or(0);
      negative = number < 0;
      const auto whole = static_cast<std::uint64_t>(number);
      KVIST_TRY(digits, digits_of(large != nullptr ? large->value : negative ? -whole : whole, *spec_));
    }
    if (spec_->thousands) digits = with_thousands(std::move(digits));
    const bool signed_always = spec_->sign == '+' || spec_->sign == ' ';
    const std::string sign = negative ? "-" : signed_always ? std::string(1, spec_->sign) : "";
    if (spec_->zeros && sign.size() + digits.size() < spec_->width)
      digits.insert(0, spec_->width - sign.size() - digits.size(), '0');
    pad(sign.size() + digits.size(), '>', true);
    out_->append(sign + digits);
    pad(sign.size() + digits.size(), '>', false);
    return {};
  }

  void pad(std::size_t length, char usual, bool before) {
    if (length >= spec_->width) return;
    const std::size_t missing = spec_->width - length;
    const char align = spec_->align == '\0' ? usual : spec_->align;
    const std::size_t left = align == '<' ? 0 : align == '>' ? missing : missing / 2;
    for (std::size_t i = before ? left : missing - left; i > 0; --i) out_->append(spec_->fill);
  }

  Meter* meter_;
  const FormatSpec* spec_;
  MarkedText* out_;
};

}  // namespace

Result<TextFormat> TextFormat::read(std::string_view text) {
  TextFormat format;
  Numbering numbering;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t brace = std::min(text.find_first_of("{}", at), text.size());
    if (brace > at) format.parts_.emplace_back(Literal{at, brace});
    at = brace;
    if (at == text.size()) break;
    if (text.substr(at + 1).starts_with(text[at])) {  // two of them are one
      format.parts_.emplace_back(Literal{at, at + 1});
      at += 2;
      continue;
    }
    const std::size_t end = text.find_first_of("{}", at + 1);
    if (text[at] == '}' || end == std::string_view::npos) return wrong_format("a single brace");
    if (text[end] == '{') return wrong_format("a field within a field is not supported");
    KVIST_TRY_VOID(format.add_field(text.substr(at + 1, end - at - 1), numbering));
    at = end + 1;
  }
  return format;
}

Result<TextFormat> TextFormat::read(Meter& meter, std::string_view text) {
  const auto braces =
      static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return c == '{' || c == '}'; }));
  KVIST_TRY_VOID(meter.scan(text.size()));
  KVIST_TRY_VOID(meter.step(braces));
  KVIST_TRY_VOID(meter.allocate((braces + 1) * 2 * sizeof(decltype(parts_)::value_type)));
  return read(text);
}

Result<void> TextFormat::add_field(std::string_view inside, Numbering& numbering) {
  const std::size_t colon = inside.find(':');
  std::string_view name = inside.substr(0, colon);
  Field field;
  if (colon != std::string_view::npos) {
    KVIST_TRY(field.spec, read_spec(inside.substr(colon + 1)));
  }
  if (name.empty()) {
    field.argument = numbering.next++;
  } else {
    const std::string_view whole = name;
    KVIST_TRY(const std::optional<std::size_t> number, take_number(name, kMostWidth));
    const auto is_name = [](char c) {
      return c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    };
    if (number ? !name.empty() : !std::ranges::all_of(name, is_name))
      return wrong_format(fmt::format("the field '{}' is not supported", whole));
    numbering.given = numbering.given || number.has_value();
    if (number) {
      field.argument = *number;
    } else {
      field.argument = whole;
    }
  }
  if (numbering.next > 0 && numbering.given) return wrong_format("fields with and without a number");
  parts_.emplace_back(field);
  return {};
}

std::size_t TextFormat::positions() const {
  std::size_t positions = 0;
  for (const auto& part : parts_) {
    const auto* field = std::get_if<Field>(&part);
    const auto* number = field == nullptr ? nullptr : std::get_if<std::size_t>(&field->argument);
    if (number != nullptr) positions = std::max(positions, *number + 1);
  }
  return positions;
}

std::vector<std::string_view> TextFormat::names() const {
  std::vector<std::string_view> names;
  for (const auto& part : parts_) {
    const auto* field = std::get_if<Field>(&part);
    const auto* name = field == nullptr ? nullptr : std::get_if<std::string_view>(&field->argument);
    if (name != nullptr) names.push_back(*name);
  }
  return names;
}

Result<Value> TextFormat::apply(Meter& meter, const MarkedText& text, std::span<const Value> arguments,
                                const Named& named) const {
  MarkedText out;
  for (const auto& part : parts_) {
    if (const auto* literal = std::get_if<Literal>(&part)) {
      out.append(text, literal->begin, literal->end);
      continue;
    }
    const Field& field = std::get<Field>(part);
    const Value* value = nullptr;
    if (const auto* number = std::get_if<std::size_t>(&field.argument)) {
      if (*number >= arguments.size()) return wrong_format(fmt::format("there is no argument {}", *number));
      value = &arguments[*number];
    } else {
      const std::string_view name = std::get<std::string_view>(field.argument);
      const auto found = std::ranges::find(named, name, [](const auto& argument) { return argument.first; });
      if (found == named.end()) return wrong_format(fmt::format("there is no argument '{}'", name));
      value = &found->second;
    }
    KVIST_TRY_VOID(FieldWriter(meter, field.spec, out).write(*value));
  }
  return make_text(meter, std::move(out));
}

}  // namespace kvist::jinja
