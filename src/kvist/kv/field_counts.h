// Counts of the fields that kvist does not use, by name. Peers choose the names, so the number of names is bounded.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvist::kv {

/// Counts by name, in the order in which names first came. Names beyond kMaxNames, and names that are not plain words
/// of at most kMaxNameBytes, are counted as kOther. Threads: a value, used by one thread at a time.
class FieldCounts {
 public:
  static constexpr std::size_t kMaxNames = 16;
  static constexpr std::size_t kMaxNameBytes = 48;
  static constexpr std::string_view kOther = "other";

  void add(std::string_view name, std::uint64_t count = 1) {
    if (!is_plain(name)) name = kOther;
    if (bump(name, count)) return;
    const bool has_room = counts_.size() < kMaxNames || name == kOther;
    if (!has_room && bump(kOther, count)) return;
    counts_.emplace_back(has_room ? name : kOther, count);
  }
  void add(const FieldCounts& others) {
    for (const auto& [name, count] : others.counts_) add(name, count);
  }

  [[nodiscard]] bool empty() const { return counts_.empty(); }
  [[nodiscard]] std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const auto& [name, count] : counts_) sum += count;
    return sum;
  }
  [[nodiscard]] const std::vector<std::pair<std::string, std::uint64_t>>& counts() const { return counts_; }

 private:
  [[nodiscard]] static bool is_plain(std::string_view name) {
    return !name.empty() && name.size() <= kMaxNameBytes && std::ranges::all_of(name, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    });
  }
  [[nodiscard]] bool bump(std::string_view name, std::uint64_t count) {
    const auto known = std::ranges::find(counts_, name, [](const auto& one) { return std::string_view(one.first); });
    if (known == counts_.end()) return false;
    known->second += count;
    return true;
  }

  std::vector<std::pair<std::string, std::uint64_t>> counts_;  // at most one more than kMaxNames
};

}  // namespace kvist::kv
