// A source that ends after so many turns.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/workload/turn_source.h"

namespace kvist::workload {

/// Passes on the first `turns` turns of another source and then stops it. Further turns are not sent but given back to
/// that source as abandoned. Threads: one.
class LimitedSource final : public TurnSource {
 public:
  LimitedSource(std::unique_ptr<TurnSource> source, std::uint64_t turns) : source_(std::move(source)), left_(turns) {}

  [[nodiscard]] std::optional<TimePoint> next_wakeup() const override { return source_->next_wakeup(); }
  [[nodiscard]] std::vector<StartTurn> poll(TimePoint now) override { return first_of(source_->poll(now), now); }
  [[nodiscard]] std::vector<StartTurn> on_turn_finished(ConversationId conversation, std::string reply,
                                                        TurnOutcome outcome, TimePoint now) override {
    return first_of(source_->on_turn_finished(conversation, std::move(reply), outcome, now), now);
  }
  [[nodiscard]] Result<void> raise(std::uint32_t concurrency, TimePoint now) override {
    return source_->raise(concurrency, now);
  }
  [[nodiscard]] Result<void> change(const LoadChange& change, TimePoint now) override {
    return source_->change(change, now);
  }
  void stop() override { source_->stop(); }
  [[nodiscard]] bool stopped() const override { return source_->stopped(); }
  [[nodiscard]] bool is_exhausted() const override { return source_->is_exhausted(); }
  [[nodiscard]] std::uint32_t in_flight() const override { return source_->in_flight(); }
  [[nodiscard]] std::uint64_t conversations_started() const override { return source_->conversations_started(); }
  [[nodiscard]] std::uint64_t dropped_slots() const override { return source_->dropped_slots(); }
  [[nodiscard]] HeldBack held_back(TimePoint now) const override { return source_->held_back(now); }

 private:
  [[nodiscard]] std::vector<StartTurn> first_of(std::vector<StartTurn> turns, TimePoint now) {
    if (turns.size() >= left_ && !source_->stopped()) source_->stop();
    while (turns.size() > left_) {
      const ConversationId extra = turns.back().conversation;
      turns.pop_back();
      (void)source_->on_turn_finished(extra, "", TurnOutcome::kAbandoned, now);  // it has stopped: nothing follows
    }
    left_ -= turns.size();
    return turns;
  }

  std::unique_ptr<TurnSource> source_;
  std::uint64_t left_;
};

}  // namespace kvist::workload
