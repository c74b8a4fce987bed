// What an engine admits, seen from outside: when it leaves a request waiting, and how much memory is taken then.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kvist/base/time.h"

namespace kvist::routing {

/// If a request should have been computed by now and the engine goes on decoding without it, the engine has no room for
/// it: a step with a prompt would have taken longer. Then the memory that its running requests will hold at their ends
/// is an upper bound of what it admits. That may be less than its KV blocks, for instance because it reserves as much
/// as a client allows an answer to have. What it does admit is a lower bound. A bound is forgotten slowly, because the
/// memory that others leave free changes, and so does what clients ask for. One object per worker. Threads: one.
class Admission {
 public:
  /// So many decode-only steps in a row show that it has no room.
  static constexpr std::uint32_t kSteps = 8;
  static constexpr Duration kMemory = std::chrono::seconds(60);

  /// 0 stands for unknown.
  void set_limits(std::uint32_t kv_blocks, std::uint32_t slots) {
    kv_blocks_ = kv_blocks;
    slots_ = slots;
  }
  /// A step only decoded, although a request waits. `asked()`: the blocks that the running requests and the oldest
  /// waiting one will hold.
  template <class Blocks>
  void on_refused(std::uint32_t decoding, TimePoint now, Blocks asked) {
    if (++steps_ < kSteps || kv_blocks_ == 0 || is_full(decoding, slots_)) return;
    bound(std::min(usable_share(now), asked() / kv_blocks_), now);
  }
  /// Prompts were computed in a step, or nobody waited.
  void on_other_step() { steps_ = 0; }
  /// A request got its first token. `running()`: the blocks that it and the other running ones will hold.
  template <class Blocks>
  void on_admitted(Blocks running, TimePoint now) {
    steps_ = 0;
    const double share = usable_share(now);
    if (share < 1 && kv_blocks_ != 0) bound(std::max(share, running() / kv_blocks_), now);
  }

  /// Whether a batch of so many requests that decode may have no free slot. When one ends, the next one is admitted a
  /// step later and gives its first token after its prefill. `slots` 0: unknown.
  [[nodiscard]] static bool is_full(std::uint32_t decoding, std::uint32_t slots) {
    return slots != 0 && decoding + 1 + slots / 16 >= slots;
  }
  /// The engine leaves a request waiting.
  [[nodiscard]] bool stalled() const { return steps_ >= kSteps; }
  /// The share of the KV blocks that the engine gives to requests, counted by what they hold at their ends.
  [[nodiscard]] double usable_share(TimePoint now) const {
    if (share_ >= 1) return 1;
    return 1 - (1 - share_) * std::exp(-to_seconds(now - bounded_) / to_seconds(kMemory));
  }

 private:
  void bound(double share, TimePoint now) {
    share_ = std::clamp(share, 0.0, 1.0);
    bounded_ = now;
  }

  std::uint32_t steps_ = 0;  // in a row
  std::uint32_t kv_blocks_ = 0;
  std::uint32_t slots_ = 0;
  double share_ = 1;  // at the time of the next
  TimePoint bounded_{};
};

}  // namespace kvist::routing
