#include "kvist/peering/load_teller.h"

#include <algorithm>
#include <utility>

#include "kvist/peering/message_codec.h"

namespace kvist::peering {
namespace {

/// A message is closed when it has so much. The largest event, a prompt of kMaxPromptBlocks, still fits.
constexpr std::size_t kFullBytes = 500'000;
/// A request of a state has about 40 bytes.
constexpr std::size_t kRequestsPerState = 4'096;

}  // namespace

LoadTeller::LoadTeller(std::string gateway, std::uint64_t run, TellingTimes times, routing::Router& router,
                       const dispatch::Fleet& fleet)
    : gateway_(std::move(gateway)), run_(run), times_(times), router_(&router), fleet_(&fleet) {
  router_->tell(this);
}

LoadTeller::~LoadTeller() {
  router_->tell(nullptr);
}

Routed LoadTeller::describe(AttemptId attempt, const Told& told, const routing::RoutedRequest& request) const {
  return {.attempt = attempt,
          .worker = worker_key(fleet_->worker(request.worker).name),
          .prompt_tokens = request.prompt_tokens,
          .uncached_tokens = request.uncached_tokens,
          .known_tokens = told.known_tokens,
          .own_blocks = request.own_blocks,
          .new_blocks = request.new_blocks,
          .streams = request.streams,
          .decoding = request.decoding,
          .choices = request.choices,
          .output_tokens = request.output_tokens,
          .session = told.session};
}

std::uint64_t LoadTeller::on_routed(routing::RequestHandle handle, const routing::RoutedRequest& request,
                                    std::uint32_t known_tokens, std::uint64_t session, TimePoint now) {
  last_ = AttemptId(last_.value() + 1);
  const Told& told = requests_[last_] = {.handle = handle, .known_tokens = known_tokens, .session = session};
  Routed routed = describe(last_, told, request);
  routed.blocks = request.blocks;
  add(routed);
  if (on_own_) on_own_(request, known_tokens, now);
  return last_.value();
}

void LoadTeller::on_first_token(const routing::RoutedRequest& request) {
  if (request.told != 0) add(FirstToken{.attempt = AttemptId(request.told)});
}

void LoadTeller::on_finished(const routing::RoutedRequest& request, bool completed) {
  if (requests_.erase(AttemptId(request.told)) == 0) return;
  add(Ended{.attempt = AttemptId(request.told), .output_tokens = request.output_tokens, .completed = completed});
}

void LoadTeller::add(const Event& event) {
  encode_event(event, events_);
  if (++count_ == 1) on_news_();
  if (events_.size() >= kFullBytes || count_ == kMaxEvents) close_message();
}

void LoadTeller::close_message() {
  if (count_ == 0) return;
  closed_.push_back(
      encode_message({.gateway = gateway_, .run = run_, .sequence = ++sequence_}, count_, std::exchange(events_, {})));
  count_ = 0;
  bytes_ += closed_.back().size();
}

TimePoint LoadTeller::due(TimePoint now) {
  if (!closed_.empty()) return now;
  if (count_ > 0 && !batch_due_) batch_due_ = now + times_.batch;
  TimePoint due = next_state_;
  if (!requests_.empty()) due = std::min(due, next_progress_);
  return std::max(now, batch_due_ ? std::min(due, *batch_due_) : due);
}

std::vector<std::string> LoadTeller::take(TimePoint now) {
  if (now >= next_state_) {
    next_state_ = now + times_.state;
    next_progress_ = now + times_.progress;
    add_state();
  } else if (now >= next_progress_) {
    next_progress_ = now + times_.progress;
    add_progress();
  }
  close_message();
  batch_due_.reset();
  while (sent_until_ < sequence_) sent_[++sent_until_ % kKeptTimes] = now;
  return std::exchange(closed_, {});
}

std::optional<TimePoint> LoadTeller::sent(std::uint64_t run, std::uint64_t sequence) const {
  if (run != run_ || sequence == 0 || sequence > sent_until_ || sequence + kKeptTimes <= sent_until_)
    return std::nullopt;
  return sent_[sequence % kKeptTimes];
}

void LoadTeller::add_progress() {
  for (auto& [attempt, told] : requests_) {
    const routing::RoutedRequest* const request = router_->find(told.handle);
    if (request == nullptr || request->output_tokens == told.output_tokens) continue;
    told.output_tokens = request->output_tokens;
    add(Progress{.attempt = attempt, .output_tokens = told.output_tokens});
  }
}

void LoadTeller::add_state() {
  State state;
  const auto close = [&](AttemptId until) {
    state.until = until;
    add(state);
    state = {.after = until, .until = until};
  };
  for (auto& [attempt, told] : requests_) {
    const routing::RoutedRequest* const request = router_->find(told.handle);
    if (request == nullptr) continue;
    told.output_tokens = request->output_tokens;
    state.requests.push_back(describe(attempt, told, *request));
    if (state.requests.size() == kRequestsPerState) close(attempt);
  }
  close(last_);
}

std::string LoadTeller::goodbye() {
  close_message();
  std::string event;
  encode_event(Goodbye(), event);
  closed_.clear();
  return encode_message({.gateway = gateway_, .run = run_, .sequence = ++sequence_}, 1, event);
}

}  // namespace kvist::peering
