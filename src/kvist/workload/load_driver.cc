#include "kvist/workload/load_driver.h"

#include <fmt/format.h>

#include <algorithm>
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

Result<void> check_prefix_groups(const spec::WorkloadSpec& spec) {
  if ((spec.prefix_groups == 0) != (spec.prefix_tokens == 0)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("workload: prefix_groups is {} and prefix_tokens is {}; want both or none",
                            spec.prefix_groups, spec.prefix_tokens));
  }
  const std::uint64_t bytes = std::uint64_t{spec.prefix_groups} * spec.prefix_tokens;
  if (spec.prefix_groups > spec::kMaxPrefixGroups || bytes > spec::kMaxPrefixBytes) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("workload: {} prefix_groups of {} prefix_tokens; want at most {} groups and {} tokens in all",
                    spec.prefix_groups, spec.prefix_tokens, spec::kMaxPrefixGroups, spec::kMaxPrefixBytes));
  }
  if (spec.prefix_skew >= 0 && spec.prefix_skew <= spec::kMaxPrefixSkew) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("workload: prefix_skew is {}; want 0 to {}", spec.prefix_skew, spec::kMaxPrefixSkew));
}

/// Of a closed loop of requests: so that a long think time before slow turns does not fill the memory.
constexpr std::size_t kMostAlivePerPlace = 1'000;

std::unexpected<Error> too_few(const char* name, const Shard& shard) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: want at least {}, one for each thread", name, shard.count));
}

}  // namespace

Result<void> check_workload(const spec::WorkloadSpec& spec) {
  KVIST_TRY_VOID(check_range("turns", spec.turns_min, spec.turns_max));
  KVIST_TRY_VOID(check_range("starter_tokens", spec.starter_tokens_min, spec.starter_tokens_max));
  KVIST_TRY_VOID(check_prefix_groups(spec));
  KVIST_TRY_VOID(check_range("follow_up_tokens", spec.follow_up_tokens_min, spec.follow_up_tokens_max));
  if (spec.max_tokens == 0) return fail(ErrorCode::kInvalidArgument, "workload: max_tokens is 0; want at least 1");
  if (spec.max_tokens_min > spec.max_tokens) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("workload: max_tokens_min is {}; want at most max_tokens, {}",
                                                         spec.max_tokens_min, spec.max_tokens));
  }
  if (!std::isfinite(spec.target_rps) || spec.target_rps < 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("workload: target_rps is {}; want > 0, or 0 for no limit", spec.target_rps));
  }
  if (spec.request_timeout <= Duration::zero()) {
    return fail(ErrorCode::kInvalidArgument, "workload: request_timeout must be above 0");
  }
  const spec::ArrivalSpec& arrivals = spec.arrivals;
  if (!(arrivals.variation >= spec::kMinArrivalVariation && arrivals.variation <= spec::kMaxArrivalVariation)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("workload: arrival_variation is {}; want {} to {}", arrivals.variation,
                            spec::kMinArrivalVariation, spec::kMaxArrivalVariation));
  }
  if (arrivals.burst_size == 0 || arrivals.burst_size > spec::kMaxBurstSize) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("workload: burst_size is {}; want 1 to {}", arrivals.burst_size, spec::kMaxBurstSize));
  }
  if (!std::isfinite(arrivals.rate_per_s) || arrivals.rate_per_s < 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("workload: the rate of arrivals is {}; want above 0", arrivals.rate_per_s));
  }
  KVIST_TRY_VOID(check_profile(arrivals.profile));
  if (arrivals.max_conversations == 0) {
    return fail(ErrorCode::kInvalidArgument, "workload: max_conversations is 0; want at least 1");
  }
  return {};
}

Result<void> check_change_of(const spec::WorkloadSpec& spec, const Shard& shard, const LoadChange& change) {
  KVIST_TRY_VOID(check_change(change));
  if (!spec.arrivals.is_open()) {
    if (change.rate || change.max_in_flight) {
      return fail(ErrorCode::kUnsupported,
                  "rate and max_in_flight are of an open loop; a closed one has concurrency and max_start_rate");
    }
    if (change.concurrency.value_or(shard.count) < shard.count) return too_few("concurrency", shard);
    return {};
  }
  if (change.concurrency || change.max_start_rate) {
    return fail(ErrorCode::kUnsupported,
                "concurrency and max_start_rate are of a closed loop; an open one has rate and max_in_flight");
  }
  if (change.max_in_flight.value_or(shard.count) < shard.count) return too_few("max_in_flight", shard);
  return {};
}

LoadTexts make_texts(const spec::WorkloadSpec& spec, std::uint64_t run_seed,
                     std::shared_ptr<const std::vector<ChatScript>> scripts,
                     const std::shared_ptr<const std::vector<WorkloadPart>>& mix,
                     const std::shared_ptr<const text::TokenProse>& tokens) {
  if (mix) return std::make_shared<const Mix>(*mix, run_seed, tokens);
  const std::vector one{WorkloadPart{.weight = 1, .spec = spec, .scripts = std::move(scripts)}};
  return std::make_shared<const Mix>(one, run_seed, tokens);
}

std::uint32_t most_in_flight(const spec::WorkloadSpec& spec, std::uint32_t level) {
  return spec.arrivals.is_open() ? spec.arrivals.max_conversations : level;
}

LoadDriver::LoadDriver(const spec::WorkloadSpec& spec, std::uint32_t level, std::uint64_t run_seed, TimePoint start,
                       std::shared_ptr<const std::vector<ChatScript>> scripts,
                       const std::shared_ptr<const std::vector<WorkloadPart>>& mix, const ThinkTime& think_time)
    : LoadDriver(spec, level, run_seed, start, make_texts(spec, run_seed, std::move(scripts), mix), think_time) {}

LoadDriver::LoadDriver(const spec::WorkloadSpec& spec, std::uint32_t level, std::uint64_t run_seed, TimePoint start,
                       LoadTexts texts, const ThinkTime& think_time, const Shard& shard)
    : spec_(spec),
      run_seed_(run_seed),
      texts_(std::move(texts)),
      shard_(shard),
      starts_(starts_of(spec, level, run_seed, start, shard)),
      think_time_(think_time) {}

LoadDriver::Starts LoadDriver::starts_of(const spec::WorkloadSpec& spec, std::uint32_t level, std::uint64_t run_seed,
                                         TimePoint start, const Shard& shard) {
  if (spec.arrivals.is_open()) {
    return OpenArrivals(spec.arrivals, spec.arrivals.starts_per_second(level), run_seed, start, shard);
  }
  // Slot j of a part is slot j x count + index of the load.
  return Pacer(spec.target_rps / shard.count, shard.share(level), start,
               static_cast<double>(shard.index) / shard.count);
}

const Pacer* LoadDriver::places_of_requests() const {
  return think_time_.frees_place ? std::get_if<Pacer>(&starts_) : nullptr;
}

bool LoadDriver::is_full_of_thinkers() const {
  const Pacer* const pacer = places_of_requests();
  return pacer != nullptr && alive_.size() >= kMostAlivePerPlace * pacer->places();
}

std::optional<TimePoint> LoadDriver::next_wakeup() const {
  if (stopped_) return std::nullopt;
  std::optional<TimePoint> next = std::visit([](const auto& starts) { return starts.next_start(); }, starts_);
  if (places_of_requests() != nullptr) {
    if (!next) return std::nullopt;  // every place is taken
    if (is_full_of_thinkers()) next.reset();
  }
  if (!thinking_.empty() && (!next || thinking_.begin()->first < *next)) next = thinking_.begin()->first;
  return next;
}

std::optional<StartTurn> LoadDriver::next_follow_up(TimePoint now) {
  if (thinking_.empty() || thinking_.begin()->first > now) return std::nullopt;
  const auto [due, id] = *thinking_.begin();
  std::optional<TimePoint> free_since;
  if (const Pacer* const places = places_of_requests()) {
    const std::optional<TimePoint> start = places->next_start();
    // Whoever was due first: a conversation that could begin before has the place, however late this is asked.
    if (start && *start < due && !is_full_of_thinkers()) return std::nullopt;
    free_since = std::get<Pacer>(starts_).try_take_place();
    if (!free_since) return std::nullopt;
  }
  thinking_.erase(thinking_.begin());
  StartTurn turn = turn_of(alive_.at(id), due);
  if (free_since && *free_since > due) turn.ready = *free_since;
  return turn;
}

std::optional<StartTurn> LoadDriver::next_conversation(TimePoint now) {
  if (is_full_of_thinkers()) return std::nullopt;
  const std::optional<TimePoint> due = std::visit([now](auto& starts) { return starts.try_start(now); }, starts_);
  if (!due) return std::nullopt;
  const ConversationId id(started_id());
  ++started_;
  const Mix::Part& part = texts_->part_of(id);
  const auto [entry, inserted] = alive_.emplace(id, Conversation(part.spec, part.dataset, run_seed_, id));
  StartTurn turn = turn_of(entry->second, *due);
  if (const OpenArrivals* const open = std::get_if<OpenArrivals>(&starts_)) turn.ready = open->ready_since(*due);
  return turn;
}

std::vector<StartTurn> LoadDriver::poll(TimePoint now) {
  std::vector<StartTurn> actions;
  while (!stopped_) {
    std::optional<StartTurn> next = next_follow_up(now);
    if (!next) next = next_conversation(now);
    if (!next) break;
    actions.push_back(*std::move(next));
  }
  return actions;
}

std::vector<StartTurn> LoadDriver::on_turn_finished(ConversationId conversation, std::string reply, TurnOutcome outcome,
                                                    TimePoint now) {
  const auto entry = alive_.find(conversation);
  KVIST_CHECK(entry != alive_.end(), fmt::format("conversation {} has no turn in flight", conversation.value()));
  std::vector<StartTurn> actions;
  const bool goes_on = !stopped_ && outcome == TurnOutcome::kSucceeded && entry->second.advance(std::move(reply));
  const auto release = [&] { std::visit([now](auto& starts) { starts.release(now); }, starts_); };
  if (goes_on && !think_time_.is_none()) {
    thinking_.emplace(now + think_time_.before(run_seed_, conversation, entry->second.turn()), conversation);
    if (places_of_requests() == nullptr) return actions;
    release();
    return poll(now);
  }
  if (goes_on) {
    actions.push_back(turn_of(entry->second, now));
    return actions;
  }
  alive_.erase(entry);
  release();
  return poll(now);
}

Result<void> LoadDriver::raise(std::uint32_t concurrency, TimePoint now) {
  Pacer* const pacer = std::get_if<Pacer>(&starts_);
  if (pacer == nullptr) return TurnSource::raise(concurrency, now);
  const std::uint32_t places = shard_.share(concurrency);
  if (places < pacer->places()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} conversations at once are running; {} are fewer", pacer->places(), places));
  }
  pacer->set_places(places, now);
  return {};
}

Result<void> LoadDriver::change(const LoadChange& change, TimePoint now) {
  KVIST_TRY_VOID(check_change_of(spec_, shard_, change));
  if (Pacer* const pacer = std::get_if<Pacer>(&starts_)) {
    if (change.concurrency) pacer->set_places(shard_.share(*change.concurrency), now);
    if (change.max_start_rate) pacer->set_rate(*change.max_start_rate / shard_.count, now);
    return {};
  }
  OpenArrivals& open = std::get<OpenArrivals>(starts_);
  if (change.rate) open.set_rate(*change.rate, now);
  if (change.max_in_flight) open.set_limit(shard_.share(*change.max_in_flight), now);
  return {};
}

void LoadDriver::stop() {
  stopped_ = true;
  for (const auto& [due, id] : thinking_) alive_.erase(id);  // what they would have said is not asked for any more
  thinking_.clear();
}

bool LoadDriver::is_exhausted() const {
  if (stopped_) return true;
  const OpenArrivals* open = std::get_if<OpenArrivals>(&starts_);
  return open != nullptr && open->is_over() && thinking_.empty() &&
         std::ranges::all_of(alive_, [](const auto& entry) { return entry.second.is_at_last_turn(); });
}

std::uint64_t LoadDriver::started_id() const {
  const OpenArrivals* open = std::get_if<OpenArrivals>(&starts_);
  return open != nullptr ? open->accepted() : started_ * shard_.count + shard_.index;
}

std::uint64_t LoadDriver::dropped_slots() const {
  if (const OpenArrivals* open = std::get_if<OpenArrivals>(&starts_)) return open->refused();
  return std::get<Pacer>(starts_).dropped_slots();
}

HeldBack LoadDriver::held_back(TimePoint now) const {
  const OpenArrivals* open = std::get_if<OpenArrivals>(&starts_);
  if (open == nullptr) return {};
  return {.sent_late = open->held_back(), .not_sent = stopped_ ? 0 : open->waiting(now)};
}

StartTurn LoadDriver::turn_of(const Conversation& conversation, TimePoint intended) const {
  return {.conversation = conversation.id(),
          .turn = conversation.turn(),
          .messages = conversation.messages(),
          .max_tokens = conversation.max_tokens(),
          .seed = conversation.answer_seed(),
          .ignore_eos = conversation.ignore_eos(),
          .intended = intended};
}

}  // namespace kvist::workload
