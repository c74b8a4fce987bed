// What happens in a load, for somebody who watches it from another thread: collected here, taken in batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/text/chat.h"
#include "kvist/workload/turn_sample.h"
#include "kvist/workload/turn_source.h"

namespace kvist::workload {

/// A message as it is shown: cut to a bound.
struct ShownMessage {
  std::string role;
  std::string text;
  bool cut = false;  ///< it was longer
};

/// What happened since the batch before, each list in the order of time.
struct LoadBatch {
  struct FirstToken {
    TimePoint at;
    Duration ttft{};
  };
  struct Chunks {
    TimePoint at;
    std::uint32_t count = 0;
  };
  struct StartedTurn {
    TimePoint at;
    ConversationId conversation;
    std::uint32_t turn = 0;                ///< from 0
    std::vector<ShownMessage> added = {};  ///< that the turn before did not have; empty: not kept
  };
  struct EndedTurn {
    TurnSample sample;  ///< without gaps and stamps of chunks
    ShownMessage answer = {};
  };
  std::vector<FirstToken> first_tokens;
  std::vector<Chunks> chunks;
  std::vector<float> gaps_ms;  ///< between content chunks
  std::vector<TimePoint> conversation_starts;
  std::vector<StartedTurn> started;
  std::vector<EndedTurn> ended;
  std::uint64_t lost = 0;  ///< entries that found no room, because nobody took the batch for long
};

struct LoadFeedLimits {
  std::size_t entries = 200'000;  ///< of each list
  std::size_t gaps = 2'000'000;
  std::size_t text_bytes = std::size_t{8} << 20;  ///< of all texts in a batch; later ones are left out
  std::size_t message_bytes = std::size_t{16} << 10;
};

/// Collects what happens. A call takes a few additions; a text is copied up to its bound. Threads: the load's, which
/// also takes the batches and hands them on. Memory: the limits.
class LoadFeed {
 public:
  explicit LoadFeed(LoadFeedLimits limits = {}) : limits_(limits) {}

  void on_turn_started(TimePoint now, const StartTurn& turn);
  void on_content(TimePoint at, std::uint32_t chunks, std::optional<Duration> ttft, std::span<const float> gaps_ms);
  void on_turn_finished(const TurnSample& sample, std::string_view answer);

  /// What was collected since the last call.
  [[nodiscard]] LoadBatch take();

 private:
  [[nodiscard]] bool has_room(std::size_t entries);
  [[nodiscard]] ShownMessage shown(std::string_view role, std::string_view text);

  const LoadFeedLimits limits_;
  LoadBatch batch_;
  std::size_t text_bytes_ = 0;
};

}  // namespace kvist::workload
