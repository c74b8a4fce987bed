#include "kvist/simulation/simulated_worker.h"

#include <algorithm>
#include <span>
#include <utility>

namespace kvist::simulation {

SimulatedWorker::SimulatedWorker(WorkerId id, std::unique_ptr<engine::EngineDriver> driver,
                                 const tokenizer::ByteTokenizer& tokenizer, VirtualTime& time, Network& network)
    : id_(id), driver_(std::move(driver)), tokenizer_(&tokenizer), time_(&time), network_(&network) {}

void SimulatedWorker::on_request(engine::Request request) {
  const TurnId turn(request.id.value());
  if (!up_) {
    network_->refusal_to_gateway(
        {.turn = turn, .error = {ErrorCode::kUnavailable, "nobody listens there"}, .worker = id_});
    return;
  }
  if (Result<void> submitted = driver_->submit(std::move(request), time_->now()); !submitted) {
    network_->refusal_to_gateway({.turn = turn, .error = std::move(submitted).error(), .worker = id_});
    return;
  }
  wake();
}

void SimulatedWorker::on_abort(TurnId turn) {
  driver_->abort(RequestId(turn.value()));
  wake();
}

void SimulatedWorker::on_change(const spec::WorkerChange& change) {
  if (change.slowness) driver_->set_slowness(*change.slowness);
  if (change.max_num_tokens) driver_->set_max_num_tokens(*change.max_num_tokens);
  if (change.restart && up_) die(*change.restart);
}

void SimulatedWorker::die(Duration back_in) {
  up_ = false;
  engine::DriverView view;
  driver_->look(view);
  std::vector<RequestId> ids;
  for (const engine::SequenceView& sequence : view.core.running) ids.push_back(sequence.request->id);
  for (const engine::SequenceView& sequence : view.core.waiting) ids.push_back(sequence.request->id);
  for (const engine::DriverView::Arrival& arrival : view.arrivals) ids.push_back(arrival.request->id);
  for (const RequestId id : ids) driver_->abort(id);
  wake();
  network_->worker_lost_to_gateway(id_);
  time_->schedule(time_->now() + back_in, {.subject = 0, .worker = id_, .kind = EventKind::kWorkerBack});
}

void SimulatedWorker::on_back() {
  constexpr Duration kAgain = std::chrono::milliseconds(10);  // the old process's last step has not ended
  if (!driver_->core().idle() || !driver_->reset_prefix_cache()) {
    time_->schedule(time_->now() + kAgain, {.subject = 0, .worker = id_, .kind = EventKind::kWorkerBack});
    return;
  }
  up_ = true;
  wake();
  network_->worker_back_to_gateway(id_);
}

void SimulatedWorker::wake() {
  if (wake_posted_) return;
  wake_posted_ = true;
  time_->schedule(time_->now(), {.subject = 0, .worker = id_, .kind = EventKind::kWorkerWake});
}

void SimulatedWorker::on_wake() {
  wake_posted_ = false;
  run();
}

void SimulatedWorker::on_timer(const Event& event, bool computed) {
  if (event.subject != armings_) return;
  armed_.reset();
  if (!computed) compute(time_->now());
  tell();
}

// Nothing in it may touch what other workers or threads use.
void SimulatedWorker::compute(TimePoint now) {
  const std::optional<TimePoint> end = driver_->step_end();
  if (end && *end <= now) longest_step_ = std::max(longest_step_, now - step_began_);
  driver_->poll(now, outputs_);
  // The device computes one step after the other, so the next begins when this one ends.
  if (driver_->step_end() != end) step_began_ = now;
  next_ = driver_->next_wakeup();
  if (!outputs_.outputs.empty() || !outputs_.left_run.empty() || outputs_.in_run > 0) write_step();
}

void SimulatedWorker::tell() {
  arm();
  if (!outputs_.events.empty()) network_->kv_events_to_gateway(id_, outputs_.events);
  if (!step_.pieces.empty() || !step_.left.empty() || step_.in_run > 0) return network_->step_to_gateway(id_, step_);
  step_.clear();
}

void SimulatedWorker::arm() {
  if (next_ == armed_) return;
  armed_ = next_;
  ++armings_;  // events of earlier armings are ignored
  if (next_) time_->schedule(*next_, {.subject = armings_, .worker = id_, .kind = EventKind::kWorkerTimer});
}

void SimulatedWorker::write_step() {
  StepMessage& step = step_;
  step.worker = id_;
  step.in_run = outputs_.in_run;
  for (const RequestId id : outputs_.joined_run) step.joined.emplace_back(id.value());
  for (const RequestId id : outputs_.left_run) step.left.emplace_back(id.value());
  step.pieces.reserve(outputs_.outputs.size());
  step.text.reserve(outputs_.outputs.size() + outputs_.run_tokens.size());
  const TokenId* next_run_token = outputs_.run_tokens.data();
  for (const engine::RequestOutput& output : outputs_.outputs) {
    const std::span<const TokenId> run_tokens(next_run_token, output.run_tokens);
    next_run_token += output.run_tokens;
    if (output.finish == engine::FinishReason::kAborted) {  // the client has left
      lost_.cached_tokens += output.cached_tokens;
      lost_.output_tokens += output.output_tokens;
      continue;
    }
    Piece piece{.turn = TurnId(output.id.value()), .text_begin = static_cast<std::uint32_t>(step.text.size())};
    // The timed engine's answers are ASCII prose, so no character is ever split between steps.
    for (const TokenId token : run_tokens) tokenizer_->decode(token, step.text);
    piece.run_bytes = static_cast<std::uint32_t>(step.text.size()) - piece.text_begin;
    for (const TokenId token : output.tokens) tokenizer_->decode(token, step.text);
    piece.text_bytes = static_cast<std::uint32_t>(step.text.size()) - piece.text_begin - piece.run_bytes;
    if (output.finish) {
      piece.is_last = true;
      piece.prompt_tokens = output.prompt_tokens;
      piece.cached_tokens = output.cached_tokens;
      piece.completion_tokens = output.output_tokens;
    }
    step.pieces.push_back(piece);
  }
}

Duration SimulatedWorker::take_longest_step() {
  return std::exchange(longest_step_, Duration::zero());
}

}  // namespace kvist::simulation
