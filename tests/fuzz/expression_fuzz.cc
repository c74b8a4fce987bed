// fuzz: laboratory
// Expressions over figures, and texts that hold such: a finite value, a missing one, or an error; the same every time.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/laboratory/expression.h"

namespace {

using Value = kvist::Result<std::optional<double>>;

/// f is a figure whose value follows from its arguments, g one that is missing; there are no others.
Value find(const std::string& name, const std::vector<std::string>& arguments) {
  if (name == "g") return std::nullopt;
  double value = 1;
  for (const std::string& argument : arguments) value = value * 10 + static_cast<double>(argument.size());
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const kvist::laboratory::Figures figures{.names = {"f", "g"}, .find = find};
  const Value value = kvist::laboratory::evaluate(text, figures);
  const Value again = kvist::laboratory::evaluate(text, figures);
  KVIST_CHECK(value.has_value() == again.has_value(), "the same expression, the same outcome");
  if (value) {
    KVIST_CHECK(*value == *again, "the same expression, the same value");
    KVIST_CHECK(!*value || std::isfinite(**value), "a value is finite");
    if (text.find_first_of("{}") == std::string_view::npos) {
      const auto shown = kvist::laboratory::fill_in("{{" + std::string(text) + "}}", figures);
      KVIST_CHECK(shown.has_value(), "what can be computed can be shown");
    }
  } else {
    KVIST_CHECK(!value.error().message.empty(), "an error says what is wrong");
  }
  const auto filled = kvist::laboratory::fill_in(text, figures);
  KVIST_CHECK(!filled || text.find("{{") != std::string_view::npos || *filled == text, "text without figures stays");
  return 0;
}
