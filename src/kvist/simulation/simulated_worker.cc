#include "kvist/simulation/simulated_worker.h"

#include <algorithm>
#include <utility>

namespace kvist::simulation {

SimulatedWorker::SimulatedWorker(WorkerId id, std::unique_ptr<engine::EngineDriver> driver,
                                 const tokenizer::ByteTokenizer& tokenizer, VirtualTime& time, Network& network)
    : id_(id), driver_(std::move(driver)), tokenizer_(&tokenizer), time_(&time), network_(&network) {}

void SimulatedWorker::on_request(engine::Request request) {
  const TurnId turn(request.id.value());
  if (Result<void> submitted = driver_->submit(std::move(request), time_->now()); !submitted) {
    network_->refusal_to_gateway({.turn = turn, .error = std::move(submitted).error(), .head = {}});
    return;
  }
  wake();
}

void SimulatedWorker::on_abort(TurnId turn) {
  driver_->abort(RequestId(turn.value()));
  wake();
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

void SimulatedWorker::on_timer(const Event& event) {
  if (event.subject != armings_) return;
  armed_.reset();
  run();
}

void SimulatedWorker::run() {
  const TimePoint now = time_->now();
  const std::optional<TimePoint> end = driver_->step_end();
  if (end && *end <= now) longest_step_ = std::max(longest_step_, now - step_began_);
  driver_->poll(now, outputs_);
  // The device computes one step after the other, so the next begins when this one ends.
  if (driver_->step_end() != end) step_began_ = now;
  arm();
  if (!outputs_.events.empty()) network_->kv_events_to_gateway(id_, std::exchange(outputs_.events, {}));
  if (!outputs_.outputs.empty()) send(outputs_.outputs);
}

void SimulatedWorker::arm() {
  const std::optional<TimePoint> next = driver_->next_wakeup();
  if (next == armed_) return;
  armed_ = next;
  ++armings_;  // events of earlier armings are ignored
  if (next) time_->schedule(*next, {.subject = armings_, .worker = id_, .kind = EventKind::kWorkerTimer});
}

void SimulatedWorker::send(const std::vector<engine::RequestOutput>& outputs) {
  StepMessage step;
  step.worker = id_;
  step.pieces.reserve(outputs.size());
  step.text.reserve(outputs.size());
  for (const engine::RequestOutput& output : outputs) {
    if (output.finish == engine::FinishReason::kAborted) {  // the client has left
      lost_.cached_tokens += output.cached_tokens;
      lost_.output_tokens += output.output_tokens;
      continue;
    }
    Piece piece{.turn = TurnId(output.id.value()), .text_begin = static_cast<std::uint32_t>(step.text.size())};
    // The timed engine's answers are ASCII prose, so no character is ever split between steps.
    for (const TokenId token : output.tokens) tokenizer_->decode(token, step.text);
    piece.text_bytes = static_cast<std::uint32_t>(step.text.size()) - piece.text_begin;
    if (output.finish) {
      piece.is_last = true;
      piece.prompt_tokens = output.prompt_tokens;
      piece.cached_tokens = output.cached_tokens;
      piece.completion_tokens = output.output_tokens;
    }
    step.pieces.push_back(piece);
  }
  if (!step.pieces.empty()) network_->step_to_gateway(std::move(step));
}

Duration SimulatedWorker::take_longest_step() {
  return std::exchange(longest_step_, Duration::zero());
}

}  // namespace kvist::simulation
