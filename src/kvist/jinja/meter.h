// Limits the cost of one rendering.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kvist/base/error.h"

namespace kvist::jinja {

/// Bounds of one rendering, which ends with kTooLarge beyond any of them. A published template needs about a million
/// steps for a conversation of 10,000 messages, and about five times its text in memory.
struct Limits {
  /// A step is an evaluated node, a visited item, or 64 bytes of a text that is searched or compared.
  std::uint64_t steps = 20'000'000;
  std::size_t memory_bytes = 512UL << 20;  ///< of all texts, lists and dictionaries ever made, including freed ones
  std::size_t output_bytes = 64UL << 20;
  std::uint32_t depth = 200;  ///< of nested blocks, expressions and macro calls
};

/// Counts the cost of one rendering.
class Meter {
 public:
  explicit Meter(const Limits& limits) : limits_(limits) {}

  [[nodiscard]] Result<void> step(std::uint64_t count = 1);
  /// Counts a scan of `bytes` of text.
  [[nodiscard]] Result<void> scan(std::size_t bytes) { return step(1 + bytes / 64); }
  [[nodiscard]] Result<void> allocate(std::size_t bytes);
  [[nodiscard]] Result<void> check_output(std::size_t bytes) const;

  /// Counts one more level of depth during its lifetime.
  class Level {
   public:
    explicit Level(Meter& meter) : meter_(&meter) { ++meter.depth_; }
    ~Level() { --meter_->depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Meter* meter_;
  };
  [[nodiscard]] Result<void> check_depth() const;

 private:
  Limits limits_;
  std::uint64_t steps_ = 0;
  std::size_t bytes_ = 0;
  std::uint32_t depth_ = 0;
};

}  // namespace kvist::jinja
