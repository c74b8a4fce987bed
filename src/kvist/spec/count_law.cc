#include "kvist/spec/count_law.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

namespace kvist::spec {
namespace {

/// Without bounds of its own a law ends so many standard deviations (of a geometric one: means) above its mean.
constexpr double kFarDeviations = 10;
constexpr double kFarMeans = 20;

constexpr std::array kLaws = {std::pair{std::string_view("geometric"), CountLawKind::kGeometric},
                              std::pair{std::string_view("normal"), CountLawKind::kNormal},
                              std::pair{std::string_view("lognormal"), CountLawKind::kLognormal},
                              std::pair{std::string_view("list"), CountLawKind::kList}};

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The part up to a separator, which is removed with it; all of it without one.
std::string_view cut(std::string_view& rest, char separator) {
  const std::string_view part = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  return part;
}

class CountParser {
 public:
  CountParser(std::string_view text, std::uint32_t least, std::uint32_t most)
      : text_(text), least_(least), most_(most) {}

  [[nodiscard]] Result<BoundedCount> parse() const {
    std::string_view rest = text_;
    const std::string_view name = cut(rest, ':');
    const auto law = std::ranges::find(kLaws, name, [](const auto& entry) { return entry.first; });
    if (law == kLaws.end()) return range(text_);
    return law->second == CountLawKind::kList ? list(rest) : shaped(law->second, rest);
  }

 private:
  [[nodiscard]] std::unexpected<Error> wrong() const {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("\"{}\"; want {} to {}, a range like 100-900, geometric:MEAN, normal:MEAN/DEVIATION or "
                            "lognormal:MEAN/DEVIATION (each with :LOW-HIGH if it is bounded), or list:1*5,2*3,8",
                            text_, least_, most_));
  }

  [[nodiscard]] Result<BoundedCount> range(std::string_view text) const {
    std::string_view rest = text;
    const std::optional<std::uint32_t> low = number<std::uint32_t>(cut(rest, '-'));
    const bool is_range = text.find('-') != std::string_view::npos;
    const std::optional<std::uint32_t> high = is_range ? number<std::uint32_t>(rest) : low;
    if (!low || !high || *low < least_ || *high > most_) return wrong();
    if (*low > *high) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("\"{}\"; the first end is above the second", text_));
    }
    return BoundedCount{.low = *low, .high = *high};
  }

  [[nodiscard]] Result<BoundedCount> shaped(CountLawKind kind, std::string_view rest) const {
    std::string_view figures = cut(rest, ':');
    const std::optional<double> mean = number<double>(cut(figures, '/'));
    const bool geometric = kind == CountLawKind::kGeometric;
    const std::optional<double> deviation = geometric ? std::optional(0.0) : number<double>(figures);
    const bool good = mean && deviation && *mean >= 1 && *mean <= most_ && *deviation <= most_ &&
                      (geometric ? figures.empty() : *deviation > 0);
    if (!good) return wrong();
    BoundedCount count{.low = least_, .high = 0, .law = {.kind = kind, .mean = *mean, .deviation = *deviation}};
    const double far = geometric ? kFarMeans * *mean : *mean + kFarDeviations * *deviation;
    count.high = static_cast<std::uint32_t>(std::min(std::ceil(far), static_cast<double>(most_)));
    if (!rest.empty()) {
      KVIST_TRY(const BoundedCount bounds, range(rest));
      count.low = bounds.low;
      count.high = bounds.high;
    }
    // Otherwise nearly everything would have to be drawn again.
    if (*mean + 1 >= count.low && *mean - 1 <= count.high) return count;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("\"{}\"; the mean is not within {}-{}", text_, count.low, count.high));
  }

  [[nodiscard]] Result<BoundedCount> list(std::string_view rest) const {
    BoundedCount count{.low = most_, .high = 0, .law = {.kind = CountLawKind::kList}};
    while (!rest.empty()) {
      std::string_view item = cut(rest, ',');
      const bool weighted = item.find('*') != std::string_view::npos;
      const std::optional<std::uint32_t> value = number<std::uint32_t>(cut(item, '*'));
      const std::optional<double> weight = weighted ? number<double>(item) : std::optional(1.0);
      if (!value || !weight || *value < least_ || *value > most_ || !(*weight > 0 && *weight <= 1e9)) return wrong();
      count.law.shares.push_back({.value = *value, .weight = *weight});
      count.low = std::min(count.low, *value);
      count.high = std::max(count.high, *value);
    }
    if (count.law.shares.empty() || count.law.shares.size() > kMaxListedCounts) return wrong();
    return count;
  }

  std::string_view text_;
  std::uint32_t least_;
  std::uint32_t most_;
};

}  // namespace

Result<BoundedCount> parse_count(std::string_view text, std::uint32_t least, std::uint32_t most) {
  return CountParser(text, least, most).parse();
}

std::string text_of(const BoundedCount& count) {
  const CountLaw& law = count.law;
  const std::string bounds =
      count.low == count.high ? fmt::format("{}", count.low) : fmt::format("{}-{}", count.low, count.high);
  switch (law.kind) {
    case CountLawKind::kUniform:
      return bounds;
    case CountLawKind::kGeometric:
      return fmt::format("geometric:{}:{}-{}", law.mean, count.low, count.high);
    case CountLawKind::kNormal:
    case CountLawKind::kLognormal:
      return fmt::format("{}:{}/{}:{}-{}", law.kind == CountLawKind::kNormal ? "normal" : "lognormal", law.mean,
                         law.deviation, count.low, count.high);
    case CountLawKind::kList:
      break;
  }
  std::vector<std::string> items;
  for (const CountLaw::Share& share : law.shares) items.push_back(fmt::format("{}*{}", share.value, share.weight));
  return fmt::format("list:{}", fmt::join(items, ","));
}

BoundedCount scaled(BoundedCount count, double factor) {
  const auto times = [factor](std::uint32_t value) {
    return static_cast<std::uint32_t>(std::clamp(std::round(value * factor), 1.0, 1e9));
  };
  count.low = times(count.low);
  count.high = times(count.high);
  count.law.mean *= factor;
  count.law.deviation *= factor;
  for (CountLaw::Share& share : count.law.shares) share.value = times(share.value);
  return count;
}

}  // namespace kvist::spec
