#include "kvist/simulation/simulated_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::simulation {

using workload::TurnOutcome;

namespace {

/// Memory that is reserved for an answer at once: its maximum, if that is small.
constexpr std::size_t kReplyReserveBytes = 2'048;

}  // namespace

SimulatedLoad::SimulatedLoad(Options options, workload::TurnSource& source, VirtualTime& time, Network& network,
                             TurnObserver& observer)
    : options_(std::move(options)),
      source_(&source),
      time_(&time),
      network_(&network),
      observer_(&observer),
      recorder_(options_.window),
      runs_(options_.worker_names.size()) {}

TurnId SimulatedLoad::next_turn_id() {
  ++last_turn_;
  if (free_places_.empty()) return make_turn_id(last_turn_, static_cast<std::uint32_t>(turns_.size()));
  const std::uint32_t place = free_places_.back();
  free_places_.pop_back();
  return make_turn_id(last_turn_, place);
}

void SimulatedLoad::poll() {
  launch(source_->poll(time_->now()));
  arm();
}

Result<void> SimulatedLoad::raise(std::uint32_t concurrency) {
  KVIST_TRY_VOID(source_->raise(concurrency, time_->now()));
  poll();
  return {};
}

void SimulatedLoad::arm() {
  const std::optional<TimePoint> wakeup = source_->next_wakeup();
  if (wakeup == armed_) return;
  armed_ = wakeup;
  ++armings_;  // events of earlier armings are ignored
  if (wakeup) time_->schedule(*wakeup, {.subject = armings_, .worker = {}, .kind = EventKind::kLoadWakeup});
}

void SimulatedLoad::on_wakeup(const Event& event) {
  if (event.subject != armings_ || source_->stopped()) return;
  armed_.reset();
  poll();
}

void SimulatedLoad::launch(std::vector<workload::StartTurn> turns) {
  const TimePoint now = time_->now();
  for (workload::StartTurn& turn : turns) {
    if (turn.turn == 0) recorder_.on_conversation_started(now);
    const TurnId id = next_turn_id();
    const auto gaps = options_.keep_token_gaps ? workload::TurnClock::Gaps::kKeep : workload::TurnClock::Gaps::kDrop;
    workload::TurnClock clock(turn.conversation, turn.turn, turn.intended, gaps);
    clock.on_session(turn.session);
    clock.on_sent(now);
    std::string reply;
    reply.reserve(std::min<std::size_t>(turn.max_tokens, kReplyReserveBytes));
    turns_.insert(id, {.clock = std::move(clock), .reply = std::move(reply)});
    observer_->on_turn_started(now);
    deadlines_.push(now + options_.request_timeout, id);
    network_->request_to_gateway({.id = id, .turn = std::move(turn)});
  }
  arm_deadline();
}

void SimulatedLoad::arm_deadline() {
  if (armed_deadline_) return;
  armed_deadline_ = deadlines_.next([this](TurnId turn) { return turns_.contains(turn); });
  if (armed_deadline_) {
    time_->schedule(*armed_deadline_, {.subject = 0, .worker = {}, .kind = EventKind::kClientDeadline});
  }
}

void SimulatedLoad::on_deadline() {
  armed_deadline_.reset();
  const auto is_live = [this](TurnId turn) { return turns_.contains(turn); };
  while (const std::optional<TurnId> turn = deadlines_.pop_due(time_->now(), is_live)) {
    network_->client_gone(*turn);
    finish(*turn, TurnOutcome::kFailed,
           fmt::format("no whole answer within {:g} s", to_seconds(options_.request_timeout)));
  }
  arm_deadline();
}

void SimulatedLoad::on_step(const StepMessage& step) {
  const TimePoint now = time_->now();
  for (const Piece& piece : step.pieces) turns_.prefetch(piece.turn);
  for (const AnswerHead& head : step.heads) take_head(head);
  for (const TurnId id : step.left)
    if (Turn* const turn = turns_.find(id); turn != nullptr && turn->run == step.worker) leave_run(*turn);
  for (const TurnId id : step.joined)
    if (Turn* const turn = turns_.find(id)) join_run(*turn, step.worker);
  std::uint32_t chunks = 0;
  if (step.in_run > 0) {
    Run& run = runs_[step.worker.value()];
    run.times.add(now);
    chunks = run.answers;
  }
  for (const Piece& piece : step.pieces) {
    if (piece.is_last) observer_->on_usage(piece);
    Turn* const turn = turns_.find(piece.turn);
    if (turn == nullptr) continue;  // abandoned before
    turn->reply += step.text_of(piece);
    if (piece.text_bytes > 0) {
      if (!turn->clock.has_first_token()) recorder_.on_first_token(now, now - turn->clock.sample().sent);
      turn->clock.on_content(now);
      ++chunks;
    }
    if (piece.is_last) take_end(piece.turn, *turn, piece);
  }
  // Once per step, because the recorder only needs the sum.
  if (chunks > 0) recorder_.on_content_chunks(now, chunks);
}

void SimulatedLoad::join_run(Turn& turn, WorkerId worker) {
  Run& run = runs_[worker.value()];
  turn.run = worker;
  turn.run_times = run.times.reader();
  ++run.answers;
}

// Its chunks are measured now.
void SimulatedLoad::leave_run(Turn& turn) {
  if (!turn.run) return;
  --runs_[turn.run->value()].answers;
  turn.run.reset();
  turn.run_times.read([&turn](TimePoint at) { turn.clock.on_content(at); });
  turn.run_times = {};
}

void SimulatedLoad::take_head(const AnswerHead& head) {
  if (Turn* const turn = turns_.find(head.turn)) {
    turn->clock.on_route(options_.worker_names[head.worker.value()], head.predicted_cached_tokens);
  }
}

void SimulatedLoad::take_end(TurnId id, Turn& turn, const Piece& piece) {
  turn.clock.on_usage(piece.prompt_tokens, piece.cached_tokens, piece.completion_tokens);
  const Result<void> answer = turn.clock.check_answer();
  finish(id, answer ? TurnOutcome::kSucceeded : TurnOutcome::kFailed, answer ? "" : answer.error().message);
}

void SimulatedLoad::on_refusal(const Refusal& refusal) {
  if (!turns_.contains(refusal.turn)) return;
  if (refusal.head) take_head(*refusal.head);
  finish(refusal.turn, TurnOutcome::kFailed,
         fmt::format("{}: {}", to_string(refusal.error.code), refusal.error.message));
}

void SimulatedLoad::finish(TurnId id, TurnOutcome outcome, std::string error) {
  const TimePoint now = time_->now();
  Turn* const found = turns_.find(id);
  KVIST_CHECK(found != nullptr, "a turn ends once");
  leave_run(*found);
  std::string reply = std::move(found->reply);
  workload::TurnSample sample = found->clock.finish(outcome, std::move(error), now);
  forget(id);
  const ConversationId conversation = sample.conversation;
  observer_->on_turn_ended(sample, now);
  recorder_.on_turn_finished(std::move(sample), now);
  launch(source_->on_turn_finished(conversation, std::move(reply), outcome, now));
  if (!source_->stopped()) arm();
}

void SimulatedLoad::forget(TurnId id) {
  turns_.erase(id);
  free_places_.push_back(place_of(id));
}

void SimulatedLoad::abandon() {
  KVIST_CHECK(source_->stopped(), "turns are broken off when no new one can come");
  const TimePoint now = time_->now();
  std::vector<std::pair<ConversationId, TurnId>> all;
  turns_.for_each([&](TurnId id, const Turn& turn) { all.emplace_back(turn.clock.sample().conversation, id); });
  std::ranges::sort(all);
  for (const auto& [conversation, id] : all) {
    network_->client_gone(id);
    Turn& turn = *turns_.find(id);
    leave_run(turn);
    const workload::TurnSample sample = turn.clock.finish(TurnOutcome::kAbandoned, "", now);
    forget(id);
    observer_->on_turn_ended(sample, now);
    recorder_.on_turn_finished(sample, now);
    (void)source_->on_turn_finished(conversation, "", TurnOutcome::kAbandoned, now);
  }
}

}  // namespace kvist::simulation
