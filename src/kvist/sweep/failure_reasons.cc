#include "kvist/sweep/failure_reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace kvist::sweep {
namespace {

constexpr std::size_t kMostReasons = 64;
constexpr std::size_t kShownReasons = 2;

}  // namespace

void FailureReasons::add(const std::string& error) {
  ++count_;
  if (counts_.size() < kMostReasons || counts_.contains(error)) ++counts_[error];
}

std::string FailureReasons::text() const {
  if (counts_.empty()) return {};
  if (counts_.begin()->second == count_) return counts_.begin()->first;
  std::vector<std::pair<std::string, std::uint64_t>> most(counts_.begin(), counts_.end());
  std::ranges::stable_sort(most, std::ranges::greater(), [](const auto& entry) { return entry.second; });
  if (most.size() > kShownReasons) most.resize(kShownReasons);
  std::string text;
  std::uint64_t rest = count_;
  for (const auto& [error, times] : most) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", times, error);
    rest -= times;
  }
  return rest == 0 ? text : text + fmt::format("; {} for other reasons", rest);
}

}  // namespace kvist::sweep
