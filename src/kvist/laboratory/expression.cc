#include "kvist/laboratory/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "kvist/jinja/template.h"
#include "kvist/render/figures.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::laboratory {
namespace {

using jinja::Value;
using Arguments = std::span<const Value>;

constexpr std::size_t kMaxBytes = 4'096;
/// An expression reads a few dozen figures. These bounds only stop ones that are not meant as expressions.
constexpr jinja::Limits kLimits = {.steps = 100'000, .memory_bytes = 1 << 20, .output_bytes = 1 << 16, .depth = 200};
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

std::optional<double> number_of(const Value& value) {
  if (const auto* number = value.as<double>()) return *number;
  if (const auto* number = value.as<std::int64_t>()) return static_cast<double>(*number);
  if (const auto* flag = value.as<bool>()) return *flag ? 1 : 0;
  return std::nullopt;
}

Result<std::vector<double>> numbers_of(Arguments arguments, std::size_t at_least) {
  std::vector<double> numbers;
  for (const Value& argument : arguments) {
    const std::optional<double> number = number_of(argument);
    if (!number) return fail(ErrorCode::kInvalidArgument, "expected a number, got " + jinja::kind_of(argument));
    numbers.push_back(*number);
  }
  if (numbers.size() < at_least) return fail(ErrorCode::kInvalidArgument, "too few arguments");
  return numbers;
}

/// An argument of a figure: a word, a text or a whole number.
Result<std::string> word_of(const Value& value) {
  if (const jinja::MarkedText* text = value.text()) return std::string(text->bytes());
  if (const auto* number = value.as<std::int64_t>()) return fmt::format("{}", *number);
  const auto* callable = value.as<jinja::Callable>();
  if (callable != nullptr && callable->host != nullptr) return callable->host->name;
  return fail(ErrorCode::kInvalidArgument, "expected a word or a whole number, got " + jinja::kind_of(value));
}

/// The smallest or largest number. It is missing if one of the numbers is, which a plain comparison would not notice.
double extreme_of(const std::vector<double>& numbers, bool largest) {
  if (std::ranges::any_of(numbers, [](double number) { return std::isnan(number); })) return kNoNumber;
  return largest ? std::ranges::max(numbers) : std::ranges::min(numbers);
}

double mean_of(const std::vector<double>& numbers) {
  double sum = 0;
  for (const double number : numbers) sum += number;
  return sum / static_cast<double>(numbers.size());
}

std::string with_text(double value, int decimals, std::string_view text) {
  return std::isfinite(value) ? fmt::format("{:.{}f}{}", value, decimals, text) : std::string(render::kMissing);
}

/// The functions of one expression, and whether it used a missing figure.
class Language {
 public:
  explicit Language(const Figures& figures) {
    for (const std::string& name : figures.names) {
      add(name, [this, &figures, name](Arguments arguments) { return figure(figures, name, arguments); });
    }
    add_number("abs", [](const std::vector<double>& x) { return std::abs(x.front()); });
    add_number("min", [](const std::vector<double>& x) { return extreme_of(x, false); });
    add_number("max", [](const std::vector<double>& x) { return extreme_of(x, true); });
    add_number("mean", &mean_of);
    add_text("ms", [](const std::vector<double>& x) { return render::format_ms(x.front()); });
    add_text("s", [](const std::vector<double>& x) { return render::format_ms_as_s(x.front()); });
    add_text("pct", [](const std::vector<double>& x) { return render::format_pct(x.front()); });
    add_text("points", [](const std::vector<double>& x) { return with_text(x.front(), 1, " points"); });
    add_text("times", [](const std::vector<double>& x) { return with_text(x.front(), 2, " times"); });
    add_text("fixed", [](const std::vector<double>& x) {
      const double decimals = x.size() > 1 ? x[1] : 1;
      return with_text(x.front(), static_cast<int>(std::clamp(decimals, 0.0, 9.0)), "");
    });
  }
  Language(const Language&) = delete;
  Language& operator=(const Language&) = delete;

  /// The rendered text; nothing if it used a missing figure.
  Result<std::optional<std::string>> print(std::string_view text) {
    std::vector<std::string> names;
    for (const jinja::HostFunction& function : functions_) names.push_back(function.name);
    KVIST_TRY(const jinja::Template compiled, jinja::Template::compile(text, names));
    jinja::Template::Variables variables;
    for (const jinja::HostFunction& function : functions_) {
      variables.emplace_back(function.name, jinja::Callable{.macro = nullptr, .function = nullptr, .host = &function});
    }
    for (const spec::RoutingMode mode : spec::kRoutingModes) {
      const std::string_view name = to_string(mode);
      variables.emplace_back(name, std::make_shared<const jinja::MarkedText>(std::string(name)));
    }
    jinja::Meter meter(kLimits);
    KVIST_TRY(const jinja::MarkedText printed, compiled.render(meter, variables));
    if (missing_) return std::nullopt;
    return std::string(printed.bytes());
  }

 private:
  void add(std::string name, std::function<Result<Value>(Arguments)> body) {
    functions_.push_back({.name = std::move(name), .body = std::move(body)});
  }
  void add_number(std::string name, std::function<double(const std::vector<double>&)> body) {
    add(std::move(name), [body = std::move(body)](Arguments arguments) -> Result<Value> {
      KVIST_TRY(const std::vector<double> numbers, numbers_of(arguments, 1));
      return Value(body(numbers));
    });
  }
  void add_text(std::string name, std::function<std::string(const std::vector<double>&)> body) {
    add(std::move(name), [body = std::move(body)](Arguments arguments) -> Result<Value> {
      KVIST_TRY(const std::vector<double> numbers, numbers_of(arguments, 1));
      return Value(std::make_shared<const jinja::MarkedText>(body(numbers)));
    });
  }

  Result<Value> figure(const Figures& figures, const std::string& name, Arguments arguments) {
    std::vector<std::string> words;
    for (const Value& argument : arguments) {
      KVIST_TRY(std::string word, word_of(argument));
      words.push_back(std::move(word));
    }
    KVIST_TRY(const std::optional<double> value, figures.find(name, words));
    missing_ = missing_ || !value;
    return Value(value.value_or(kNoNumber));
  }

  std::vector<jinja::HostFunction> functions_;
  bool missing_ = false;
};

/// The value of an expression as text; nothing if it is missing.
Result<std::optional<std::string>> print(std::string_view expression, const Figures& figures) {
  if (expression.size() > kMaxBytes) return fail(ErrorCode::kTooLarge, "an expression of more than 4096 characters");
  // The spaces are needed because a minus sign next to the braces would be Jinja's whitespace control.
  const std::string field = fmt::format("{{{{ {} }}}}", expression);
  Result<std::optional<std::string>> printed = Language(figures).print(field);
  if (!printed) return std::unexpected(std::move(printed).error().in(fmt::format("\"{}\"", field)));
  return printed;
}

}  // namespace

Result<std::optional<double>> evaluate(std::string_view expression, const Figures& figures) {
  KVIST_TRY(const std::optional<std::string> printed, print(expression, figures));
  if (!printed) return std::nullopt;
  if (*printed == "True" || *printed == "False") return *printed == "True" ? 1.0 : 0.0;
  double value = 0;
  const auto [end, code] = std::from_chars(printed->data(), printed->data() + printed->size(), value);
  if (end != printed->data() + printed->size() || (code != std::errc() && code != std::errc::result_out_of_range)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("\"{}\" is no number", expression));
  }
  return code == std::errc() && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

Result<std::string> fill_in(std::string_view text, const Figures& figures) {
  std::string out;
  while (true) {
    const std::size_t begin = text.find("{{");
    if (begin == std::string_view::npos) return out += text;
    const std::size_t end = text.find("}}", begin);
    if (end == std::string_view::npos) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("{{{{ without }}}}: \"{}\"", text.substr(begin, 40)));
    }
    out += text.substr(0, begin);
    KVIST_TRY(const std::optional<std::string> printed, print(text.substr(begin + 2, end - begin - 2), figures));
    out += printed.value_or(std::string(render::kMissing));
    text.remove_prefix(end + 2);
  }
}

}  // namespace kvist::laboratory
