#include "kvist/laboratory/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "kvist/render/figures.h"

namespace kvist::laboratory {
namespace {

constexpr std::size_t kMaxLength = 4'096;
constexpr int kMaxNesting = 32;

using Value = std::optional<double>;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

template <class Operation>
Value combine(const Value& a, const Value& b, const Operation& operation) {
  if (!a || !b) return std::nullopt;
  const double value = operation(*a, *b);
  return std::isfinite(value) ? Value(value) : std::nullopt;
}

/// Recursive descent, computing as it reads:
///   or = and {"or" and}; and = comparison {"and" comparison}; comparison = sum [op sum];
///   sum = product {+|- product}; product = factor {*|/ factor}; factor = number | call | "(" or ")" | "-" factor
class Evaluator {
 public:
  Evaluator(std::string_view text, const FigureLookup& lookup) : text_(text), lookup_(lookup) {}

  Result<Value> run() {
    if (text_.size() > kMaxLength) return fail(ErrorCode::kTooLarge, "an expression of more than 4096 characters");
    KVIST_TRY(const Value value, any_of());
    skip_spaces();
    if (at_ < text_.size()) return error("what follows is no operator");
    return value;
  }

 private:
  std::unexpected<Error> error(std::string_view what) const {
    return fail(ErrorCode::kInvalidArgument, fmt::format("\"{}\", character {}: {}", text_, at_ + 1, what));
  }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(std::string_view symbol) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(symbol)) return false;
    const std::size_t end = at_ + symbol.size();
    if (is_letter(symbol.front()) && end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end])))
      return false;
    at_ = end;
    return true;
  }

  Result<Value> any_of() {
    KVIST_TRY(Value left, all_of());
    while (take("or")) {
      KVIST_TRY(const Value right, all_of());
      left = combine(left, right, [](double a, double b) { return std::abs(a) > 0 || std::abs(b) > 0 ? 1.0 : 0.0; });
    }
    return left;
  }

  Result<Value> all_of() {
    KVIST_TRY(Value left, comparison());
    while (take("and")) {
      KVIST_TRY(const Value right, comparison());
      left = combine(left, right, [](double a, double b) { return std::abs(a) > 0 && std::abs(b) > 0 ? 1.0 : 0.0; });
    }
    return left;
  }

  Result<Value> comparison() {
    KVIST_TRY(const Value left, sum());
    using Compare = double (*)(double, double);
    constexpr std::pair<std::string_view, Compare> kOperators[] = {
        {"<=", [](double a, double b) { return a <= b ? 1.0 : 0.0; }},
        {">=", [](double a, double b) { return a >= b ? 1.0 : 0.0; }},
        {"<", [](double a, double b) { return a < b ? 1.0 : 0.0; }},
        {">", [](double a, double b) { return a > b ? 1.0 : 0.0; }}};
    for (const auto& [symbol, compare] : kOperators) {
      if (!take(symbol)) continue;
      KVIST_TRY(const Value right, sum());
      return combine(left, right, compare);
    }
    return left;
  }

  Result<Value> sum() {
    KVIST_TRY(Value left, product());
    while (true) {
      if (take("+")) {
        KVIST_TRY(const Value right, product());
        left = combine(left, right, [](double a, double b) { return a + b; });
      } else if (take("-")) {
        KVIST_TRY(const Value right, product());
        left = combine(left, right, [](double a, double b) { return a - b; });
      } else {
        return left;
      }
    }
  }

  Result<Value> product() {
    KVIST_TRY(Value left, factor());
    while (true) {
      if (take("*")) {
        KVIST_TRY(const Value right, factor());
        left = combine(left, right, [](double a, double b) { return a * b; });
      } else if (take("/")) {
        KVIST_TRY(const Value right, factor());
        left = combine(left, right, [](double a, double b) { return a / b; });  // by 0: not finite, hence missing
      } else {
        return left;
      }
    }
  }

  Result<Value> factor() {
    if (++nesting_ > kMaxNesting) return error("nested too deeply");
    Result<Value> value = unnested_factor();
    --nesting_;
    return value;
  }

  Result<Value> unnested_factor() {
    if (take("-")) {
      KVIST_TRY(const Value value, factor());
      return value ? Value(-*value) : value;
    }
    if (take("(")) {
      KVIST_TRY(const Value value, any_of());
      if (!take(")")) return error("expected )");
      return value;
    }
    if (at_ < text_.size() && is_digit(text_[at_])) return number();
    if (at_ < text_.size() && is_letter(text_[at_])) return call();
    return error("expected a number, a figure or (");
  }

  Result<Value> number() {
    double value = 0;
    const auto [end, code] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (code != std::errc()) return error("no number");
    at_ = static_cast<std::size_t>(end - text_.data());
    return Value(value);
  }

  std::string word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (is_letter(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '.' || (at_ > begin && text_[at_] == '-'))) {
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  Result<Value> call() {
    const std::string name = word();
    if (!take("(")) return error("expected ( behind " + name);
    if (name == "min" || name == "max" || name == "mean" || name == "abs") return function_of(name);
    std::vector<std::string> arguments;
    while (!take(")")) {
      if (!arguments.empty() && !take(",")) return error("expected , or )");
      skip_spaces();
      arguments.push_back(word());
      if (arguments.back().empty()) return error("expected a word or a whole number");
    }
    Result<Value> value = lookup_(name, arguments);
    if (!value) return std::unexpected(std::move(value).error().in(fmt::format("\"{}\"", text_)));
    return value;
  }

  Result<Value> function_of(const std::string& name) {
    std::vector<double> values;
    bool missing = false;
    do {
      KVIST_TRY(const Value value, any_of());
      missing = missing || !value;
      values.push_back(value.value_or(0));
    } while (take(","));
    if (!take(")")) return error("expected , or )");
    if (missing) return Value();
    if (name == "min") return Value(std::ranges::min(values));
    if (name == "max") return Value(std::ranges::max(values));
    if (name == "abs")
      return values.size() == 1 ? Result<Value>(std::abs(values.front())) : error("abs takes one value");
    double sum = 0;
    for (const double value : values) sum += value;
    const double mean = sum / static_cast<double>(values.size());
    return std::isfinite(mean) ? Value(mean) : Value();
  }

  std::string_view text_;
  const FigureLookup& lookup_;
  std::size_t at_ = 0;
  int nesting_ = 0;
};

Result<std::string> formatted(const Value& value, std::string_view format) {
  if (format == "ms") return render::format_ms(value);
  if (format == "s") return render::format_ms_as_s(value);
  if (format == "pct") return render::format_pct(value);
  if (!value) return std::string(render::kMissing);
  if (format == "points") return fmt::format("{:.1f} points", *value);
  if (format == "x") return fmt::format("{:.2f} times", *value);
  if (format == "holds") return std::string(*value > 0 ? "holds" : "does not hold");
  if (format.size() == 1 && format[0] >= '0' && format[0] <= '3') return render::format_fixed(value, format[0] - '0');
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("no format \"{}\"; there are: ms, s, pct, points, x, holds, 0, 1, 2, 3", format));
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

Result<std::optional<double>> evaluate(std::string_view expression, const FigureLookup& lookup) {
  return Evaluator(trimmed(expression), lookup).run();
}

Result<std::string> fill_in(std::string_view text, const FigureLookup& lookup) {
  std::string out;
  while (true) {
    const std::size_t begin = text.find("{{");
    if (begin == std::string_view::npos) return out += text;
    const std::size_t end = text.find("}}", begin);
    if (end == std::string_view::npos) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("{{{{ without }}}}: \"{}\"", text.substr(begin, 40)));
    }
    out += text.substr(0, begin);
    const std::string_view field = text.substr(begin + 2, end - begin - 2);
    const std::size_t bar = field.rfind('|');
    KVIST_TRY(const std::optional<double> value, evaluate(field.substr(0, bar), lookup));
    KVIST_TRY(const std::string shown,
              formatted(value, bar == std::string_view::npos ? std::string_view("1") : trimmed(field.substr(bar + 1))));
    out += shown;
    text.remove_prefix(end + 2);
  }
}

}  // namespace kvist::laboratory
