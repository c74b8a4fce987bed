// The bytes of pages between agents and their coordinator.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/loadgen/agents/clock_offset.h"

namespace kvist::loadgen {

static_assert(std::endian::native == std::endian::little, "numbers are written as they are in memory");

/// Writes numbers in little-endian order, and texts and lists with their lengths before them.
class PageWriter {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  void number(T value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  void instant(TimePoint at) { number(at.time_since_epoch().count()); }
  /// What is longer than `most` is cut.
  void text(std::string_view text, std::size_t most) {
    text = text.substr(0, most);
    number(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
  }
  void list(const std::vector<float>& values) {
    number(static_cast<std::uint32_t>(values.size()));
    const std::size_t at = bytes_.size();
    bytes_.resize(at + values.size() * sizeof(float));
    if (!values.empty()) std::memcpy(bytes_.data() + at, values.data(), values.size() * sizeof(float));
  }
  void raw(std::string_view bytes) { bytes_ += bytes; }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads them. Errors are kCorrupt and name the byte: an end in the middle, a number that is not finite, an instant out
/// of bounds (kMostClockNs), a text or list that is longer than what follows it.
class PageReader {
 public:
  /// `what` names the page in errors, and outlives this.
  PageReader(std::string_view bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  template <class T>
    requires std::is_arithmetic_v<T>
  [[nodiscard]] Result<T> number() {
    if (left() < sizeof(T)) return broken("ends in a number");
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(value)) return broken("has a number that is not finite");
    }
    return value;
  }
  [[nodiscard]] Result<TimePoint> instant();
  [[nodiscard]] Result<std::string> text(std::size_t most);
  [[nodiscard]] Result<std::vector<float>> list();
  /// The length of a list whose entries take at least `bytes_each`.
  [[nodiscard]] Result<std::uint32_t> length(std::size_t bytes_each);
  [[nodiscard]] bool begins_with(std::string_view mark);
  [[nodiscard]] std::size_t left() const { return bytes_.size() - at_; }
  [[nodiscard]] std::unexpected<Error> broken(std::string_view how) const;

 private:
  std::string_view bytes_;
  std::string_view what_;
  std::size_t at_ = 0;
};

}  // namespace kvist::loadgen
