// What prefill computes: tokens, and pairs of tokens in attention.
#pragma once

namespace kvist::routing {

/// The tokens of a prompt that prefill computes, and those that it reads from the cache.
struct PrefillWork {
  double uncached = 0;
  double cached = 0;

  /// The pairs (token, earlier token) that attention computes: each uncached token attends to all cached tokens and, on
  /// average, to half of the uncached ones.
  [[nodiscard]] double pairs() const { return uncached * (cached + uncached / 2); }
};

/// The work of some prompts together.
struct PrefillSum {
  double uncached = 0;
  double pairs = 0;

  void add(const PrefillWork& work) {
    uncached += work.uncached;
    pairs += work.pairs();
  }
  void add(const PrefillSum& other) {
    uncached += other.uncached;
    pairs += other.pairs;
  }
  void subtract(const PrefillSum& other) {
    uncached -= other.uncached;
    pairs -= other.pairs;
  }
};

}  // namespace kvist::routing
