#include "kvist/loadgen/agents/coordination.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/loadgen/load_merge.h"
#include "kvist/loadgen/load_settings.h"
#include "kvist/loadgen/service.h"
#include "kvist/workload/load_driver.h"

namespace kvist::loadgen {

std::vector<workload::Shard> divide(const std::vector<std::uint32_t>& threads) {
  std::uint32_t count = 0;
  for (const std::uint32_t one : threads) count += one;
  std::vector<workload::Shard> parts;
  std::uint32_t first = 0;
  for (const std::uint32_t one : threads) {
    parts.push_back({.index = first, .count = count});
    first += one;
  }
  return parts;
}

Coordination::Coordination(const std::vector<std::string>& names, const CoordinatedLoad& load,
                           spec::WorkloadSpec workload, std::uint32_t level)
    : workload_(std::move(workload)), level_(level) {
  KVIST_CHECK(!names.empty(), "a load has an agent");
  const auto shared = std::make_shared<const CoordinatedLoad>(load);
  workload::RecorderLimits limits;  // of all agents together
  limits.samples /= names.size();
  limits.bytes /= names.size();
  for (const std::string& name : names) agents_.emplace_back(name, shared, limits);
}

void Coordination::advance() {
  if (state_ == State::kPreparing || state_ == State::kReady) {
    for (const AgentDialogue& agent : agents_) {
      if (agent.phase() == AgentPhase::kFailed) return fail_all(Error(*agent.error()).in("agent " + agent.name()));
    }
  }
  if (state_ == State::kPreparing) {
    if (all_in(AgentPhase::kGreeted)) give_parts();
    if (all_in(AgentPhase::kReady)) state_ = State::kReady;
    return;
  }
  const bool over = std::ranges::all_of(agents_, [](const AgentDialogue& agent) { return agent.is_over(); });
  if (state_ == State::kRunning && over) state_ = State::kDone;
}

void Coordination::give_parts() {
  std::vector<std::uint32_t> threads;
  for (const AgentDialogue& agent : agents_) threads.push_back(agent.report().threads);
  const std::vector<workload::Shard> parts = divide(threads);
  parts_ = parts.front().count;
  if (parts_ > kMostShards) {
    return fail_all(
        {ErrorCode::kInvalidArgument, fmt::format("the agents have {} threads; want at most {}", parts_, kMostShards)});
  }
  if (workload::most_in_flight(workload_, level_) < parts_) {
    return fail_all({ErrorCode::kInvalidArgument,
                     fmt::format("{} conversations at once on {} threads of {} agents; want at least one each",
                                 workload::most_in_flight(workload_, level_), parts_, agents_.size())});
  }
  for (std::size_t i = 0; i < agents_.size(); ++i) agents_[i].order(parts[i]);
}

void Coordination::fail_all(Error error) {
  error_ = std::move(error);
  state_ = State::kFailed;
  for (AgentDialogue& agent : agents_) agent.abandon();
}

bool Coordination::all_in(AgentPhase phase) const {
  return std::ranges::all_of(agents_, [phase](const AgentDialogue& agent) { return agent.phase() == phase; });
}

Duration Coordination::lead() const {
  Duration slowest{};
  for (const AgentDialogue& agent : agents_) {
    if (agent.clock()) slowest = std::max(slowest, 2 * agent.clock()->bound());  // the best round trip
  }
  constexpr int kRoundTrips = 10;
  return kLead + kRoundTrips * slowest;
}

TimePoint Coordination::start(std::optional<Duration> duration, TimePoint now) {
  KVIST_CHECK(state_ == State::kReady, "only a load that is ready can be started");
  const TimePoint at = now + lead();
  for (AgentDialogue& agent : agents_) {
    agent.start(at, duration ? std::optional(at + *duration) : std::nullopt, now);
  }
  changes_.clear();
  state_ = State::kRunning;
  return at;
}

Result<void> Coordination::change(const workload::LoadChange& change, TimePoint now) {
  if (state_ != State::kRunning) return fail(ErrorCode::kInvalidArgument, "not running: start first");
  if (changes_.size() >= kMostChanges) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the load was changed {} times: start another one", kMostChanges));
  }
  KVIST_TRY_VOID(workload::check_change_of(workload_, {.index = 0, .count = parts_}, change));
  const auto is_running = [](const AgentDialogue& agent) { return agent.phase() == AgentPhase::kRunning; };
  if (std::ranges::none_of(agents_, is_running)) return fail(ErrorCode::kInvalidArgument, "the load has just ended");
  const TimePoint at = now + lead();
  for (AgentDialogue& agent : agents_) agent.change(change, at);
  changes_.push_back({.at = at, .change = change});
  return {};
}

void Coordination::stop(bool drain) {
  if (state_ == State::kPreparing || state_ == State::kReady) {
    return fail_all({ErrorCode::kCancelled, "given up before its start"});
  }
  for (AgentDialogue& agent : agents_) agent.stop(drain);
}

Progress Coordination::progress(TimePoint now) const {
  std::vector<Progress> parts;
  for (const AgentDialogue& agent : agents_) {
    if (agent.phase() != AgentPhase::kLost) parts.push_back(agent.report().progress);
  }
  return merge_progress(parts, now);
}

ClientLoad Coordination::client_load() const {
  ClientLoad all;
  for (const AgentDialogue& agent : agents_) add_client_load(agent.report().client, all);
  return all;
}

workload::HeldBack Coordination::held_back() const {
  workload::HeldBack all;
  for (const AgentDialogue& agent : agents_) {
    all.sent_late += agent.report().held_back.sent_late;
    all.not_sent += agent.report().held_back.not_sent;
  }
  return all;
}

bool Coordination::is_exhausted() const {
  return std::ranges::all_of(agents_, [](const AgentDialogue& agent) {
    return agent.phase() == AgentPhase::kLost || agent.report().exhausted;
  });
}

std::uint64_t Coordination::samples_refused() const {
  std::uint64_t sum = 0;
  for (const AgentDialogue& agent : agents_) sum += agent.samples_refused();
  return sum;
}

workload::LoadBatch Coordination::take_batch() {
  // Who counts by windows wants one order: what one agent has told is kept back until the others have told as much.
  TimePoint until = TimePoint::max();
  for (const AgentDialogue& agent : agents_) {
    const bool tells_more =
        !agent.is_over() && agent.phase() != AgentPhase::kComparingAgain && agent.phase() != AgentPhase::kReleasing;
    if (tells_more) until = std::min(until, agent.feed_until().value_or(TimePoint{}));
  }
  std::vector<workload::LoadBatch> parts;
  for (AgentDialogue& agent : agents_) parts.push_back(agent.take_batch(until));
  return merge_batches(std::move(parts));
}

workload::RecorderTotals Coordination::totals() const {
  workload::RecorderTotals all;
  for (const AgentDialogue& agent : agents_) add_totals(agent.totals(), all);
  return all;
}

workload::LoadChange Coordination::settings(TimePoint now) const {
  workload::LoadChange settings = settings_at(workload_, level_);
  for (const workload::AppliedChange& applied : changes_) {
    if (applied.at > now) break;
    const workload::LoadChange& change = applied.change;
    if (change.concurrency) settings.concurrency = change.concurrency;
    if (change.max_start_rate) settings.max_start_rate = change.max_start_rate;
    if (change.rate) settings.rate = change.rate;
    if (change.max_in_flight) settings.max_in_flight = change.max_in_flight;
  }
  return settings;
}

std::vector<workload::TurnSample> Coordination::take_samples() {
  std::vector<workload::TurnSample> all;
  for (AgentDialogue& agent : agents_) add_samples(agent.take_samples(), all);
  sort_samples(all);
  return all;
}

}  // namespace kvist::loadgen
