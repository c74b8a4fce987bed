#include "kvist/workload/load_driver.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::workload {
namespace {

Result<void> check_range(const char* name, std::uint32_t low, std::uint32_t high) {
  if (low >= 1 && low <= high) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("workload: {0}_min is {1} and {0}_max is {2}; want 1 <= min <= max", name, low, high));
}

}  // namespace

Result<void> check_workload(const spec::WorkloadSpec& spec) {
  KVIST_TRY_VOID(check_range("turns", spec.turns_min, spec.turns_max));
  KVIST_TRY_VOID(check_range("starter_tokens", spec.starter_tokens_min, spec.starter_tokens_max));
  KVIST_TRY_VOID(check_range("follow_up_tokens", spec.follow_up_tokens_min, spec.follow_up_tokens_max));
  if (spec.starters == 0) return fail(ErrorCode::kInvalidArgument, "workload: starters is 0; want at least 1");
  if (spec.max_tokens == 0) return fail(ErrorCode::kInvalidArgument, "workload: max_tokens is 0; want at least 1");
  if (!std::isfinite(spec.target_rps) || spec.target_rps <= 0) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("workload: target_rps is {}; want > 0", spec.target_rps));
  }
  if (spec.request_timeout <= Duration::zero()) {
    return fail(ErrorCode::kInvalidArgument, "workload: request_timeout must be above 0");
  }
  return {};
}

LoadDriver::LoadDriver(const spec::WorkloadSpec& spec, std::uint32_t concurrency, std::uint64_t run_seed,
                       TimePoint start)
    : spec_(spec), run_seed_(run_seed), dataset_(spec, run_seed), pacer_(spec.target_rps, concurrency, start) {}

std::optional<TimePoint> LoadDriver::next_wakeup() const {
  if (stopped_) return std::nullopt;
  return pacer_.next_start();
}

std::vector<StartTurn> LoadDriver::poll(TimePoint now) {
  std::vector<StartTurn> actions;
  if (stopped_) return actions;
  while (const std::optional<TimePoint> due = pacer_.try_start(now)) {
    const ConversationId id(next_id_++);
    const auto [entry, inserted] = alive_.emplace(id, Conversation(spec_, dataset_, run_seed_, id));
    actions.push_back(turn_of(entry->second, *due));
  }
  return actions;
}

std::vector<StartTurn> LoadDriver::on_turn_finished(ConversationId conversation, std::string reply, TurnOutcome outcome,
                                                    TimePoint now) {
  const auto entry = alive_.find(conversation);
  KVIST_CHECK(entry != alive_.end(), fmt::format("conversation {} has no turn in flight", conversation.value()));
  std::vector<StartTurn> actions;
  const bool goes_on = !stopped_ && outcome == TurnOutcome::kSucceeded && entry->second.advance(std::move(reply));
  if (goes_on) {
    actions.push_back(turn_of(entry->second, now));
    return actions;
  }
  alive_.erase(entry);
  pacer_.release(now);
  return poll(now);
}

StartTurn LoadDriver::turn_of(const Conversation& conversation, TimePoint intended) const {
  return {.conversation = conversation.id(),
          .turn = conversation.turn(),
          .messages = conversation.messages(),
          .max_tokens = spec_.max_tokens,
          .seed = conversation.answer_seed(),
          .intended = intended};
}

}  // namespace kvist::workload
