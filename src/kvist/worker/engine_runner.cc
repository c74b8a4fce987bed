#include "kvist/worker/engine_runner.h"

#include <chrono>
#include <utility>

#include "kvist/kv/kv_event_codec.h"
#include "kvist/net/time_of_day.h"

namespace kvist::worker {

EngineRunner::EngineRunner(net::EventLoop& loop, std::unique_ptr<engine::Driver> driver,
                           std::unique_ptr<net::ZmqPublisher> publisher, std::uint32_t max_model_len)
    : loop_(&loop),
      driver_(std::move(driver)),
      publisher_(std::move(publisher)),
      timer_(loop),
      metrics_(max_model_len) {
  // Called on the computing thread. The posted work runs on the loop, if this object still exists.
  driver_->set_wake([this, posts = loop_, alive = std::weak_ptr<bool>(alive_)] {
    posts->post([this, alive] {
      if (!alive.expired()) run();
    });
  });
}

Result<void> EngineRunner::submit(engine::Request request, RequestId prompt) {
  const TimePoint now = net::now();
  const RequestId id = request.id;
  const std::uint32_t max_tokens = request.max_tokens;
  if (Result<void> submitted = driver_->submit(std::move(request), now); !submitted) {
    if (submitted.error().code == ErrorCode::kResourceExhausted) metrics_.on_rejected();
    return submitted;
  }
  metrics_.on_submitted(id, prompt, max_tokens, now);
  wake();
  return {};
}

void EngineRunner::abort(RequestId id) {
  driver_->abort(id);
  wake();
}

void EngineRunner::stop(RequestId id) {
  metrics_.on_stopped(id);
  abort(id);
}

bool EngineRunner::reset_prefix_cache() {
  if (!driver_->reset_prefix_cache()) return false;
  run();
  return true;
}

void EngineRunner::wake() {
  if (wake_posted_) return;
  wake_posted_ = true;
  loop_->post([this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    wake_posted_ = false;
    run();
  });
}

void EngineRunner::run() {
  driver_->poll(net::now(), outputs_);
  // Armed before the outputs are passed on. A handler may abort requests and so cause another run, but only by a post.
  if (const std::optional<TimePoint> next = driver_->next_wakeup()) {
    timer_.arm(*next, [this] { run(); });
  } else {
    timer_.cancel();
  }
  publish(outputs_.events);
  for (const engine::Admission& admission : outputs_.admitted) metrics_.on_admitted(admission);
  metrics_.on_outputs(outputs_.outputs, net::now());
  // Both are in the plan's order. Not every output has log probabilities, and those of an aborted request are dropped.
  std::size_t next = 0;
  for (const engine::RequestOutput& output : outputs_.outputs) {
    Logprobs logprobs = nullptr;
    for (std::size_t i = next; i < outputs_.logprobs.size() && !output.tokens.empty(); ++i) {
      if (outputs_.logprobs[i].id != output.id) continue;
      logprobs = &outputs_.logprobs[i];
      next = i + 1;
      break;
    }
    if (on_output_) on_output_(output, logprobs);
  }
}

void EngineRunner::publish(std::vector<kv::KvEvent>& events) {
  if (events.empty()) return;
  const kv::KvEventBatch batch{
      .timestamp_s = net::unix_seconds(), .events = std::move(events), .data_parallel_rank = 0};
  publisher_->publish(kv::encode_kv_events(batch));
  ++event_batches_;
}

}  // namespace kvist::worker
