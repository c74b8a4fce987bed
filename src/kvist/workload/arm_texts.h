// What the arm of a comparison changes in the texts that are sent.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kvist/workload/turn_source.h"

namespace kvist::workload {

/// Changes of a load's texts. Without any the load has the texts that were drawn.
struct ArmTexts {
  std::string opening = {};     ///< before the first message of every conversation
  bool frozen_replies = false;  ///< histories have seeded texts in place of the answers
  [[nodiscard]] bool change_anything() const { return !opening.empty() || frozen_replies; }
};

/// The length of opening_of(), in bytes.
inline constexpr std::uint32_t kOpeningBytes = 19;

/// An opening that depends on the key, the same length for all keys: "[0f3c...] ".
[[nodiscard]] std::string opening_of(std::uint64_t key);

/// The text that stands for an answer of at most `max_tokens` bytes: follows from (run seed, conversation, turn) alone.
[[nodiscard]] std::string frozen_reply(std::uint64_t run_seed, ConversationId conversation, std::uint32_t turn,
                                       std::uint32_t max_tokens);

/// A source whose texts are changed on their way. Memory: a few words per turn in flight. Threads: one.
class ArmTextsSource final : public TurnSource {
 public:
  ArmTextsSource(std::unique_ptr<TurnSource> inner, ArmTexts texts, std::uint64_t run_seed)
      : inner_(std::move(inner)), texts_(std::move(texts)), run_seed_(run_seed) {}

  [[nodiscard]] std::optional<TimePoint> next_wakeup() const override { return inner_->next_wakeup(); }
  [[nodiscard]] std::vector<StartTurn> poll(TimePoint now) override { return changed(inner_->poll(now)); }
  [[nodiscard]] std::vector<StartTurn> on_turn_finished(ConversationId conversation, std::string reply,
                                                        TurnOutcome outcome, TimePoint now) override;
  [[nodiscard]] Result<void> raise(std::uint32_t concurrency, TimePoint now) override {
    return inner_->raise(concurrency, now);
  }
  void stop() override { inner_->stop(); }
  [[nodiscard]] bool stopped() const override { return inner_->stopped(); }
  [[nodiscard]] bool is_exhausted() const override { return inner_->is_exhausted(); }
  [[nodiscard]] std::uint32_t in_flight() const override { return inner_->in_flight(); }
  [[nodiscard]] std::uint64_t conversations_started() const override { return inner_->conversations_started(); }
  [[nodiscard]] std::uint64_t dropped_slots() const override { return inner_->dropped_slots(); }
  [[nodiscard]] HeldBack held_back(TimePoint now) const override { return inner_->held_back(now); }

 private:
  struct InFlight {
    std::uint32_t turn = 0;
    std::uint32_t max_tokens = 0;
  };

  [[nodiscard]] std::vector<StartTurn> changed(std::vector<StartTurn> turns);

  std::unique_ptr<TurnSource> inner_;
  ArmTexts texts_;
  std::uint64_t run_seed_;
  std::map<ConversationId, InFlight> in_flight_;
};

}  // namespace kvist::workload
