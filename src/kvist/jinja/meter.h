// What one rendering may cost.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kvist/base/error.h"

namespace kvist::jinja {

/// Bounds of one rendering. Beyond any of them it ends with kTooLarge. A published template over a conversation of
/// 10,000 messages needs about a million steps, and about five times its text in memory.
struct Limits {
  /// Nodes evaluated, items looked at, and 64 bytes each of texts that are searched or compared.
  std::uint64_t steps = 20'000'000;
  std::size_t memory_bytes = 512UL << 20;  ///< of all texts, lists and dictionaries made, also of those given up since
  std::size_t output_bytes = 64UL << 20;
  std::uint32_t depth = 200;  ///< of nested blocks, expressions and macro calls
};

/// Counts what a rendering has cost. Used by one rendering.
class Meter {
 public:
  explicit Meter(const Limits& limits) : limits_(limits) {}

  [[nodiscard]] Result<void> step(std::uint64_t count = 1);
  /// A look at `bytes` of text.
  [[nodiscard]] Result<void> scan(std::size_t bytes) { return step(1 + bytes / 64); }
  [[nodiscard]] Result<void> allocate(std::size_t bytes);
  [[nodiscard]] Result<void> check_output(std::size_t bytes) const;

  /// One level deeper for as long as it lives.
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
