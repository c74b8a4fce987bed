#include "kvist/kubernetes/list_watch.h"

#include <algorithm>
#include <utility>

namespace kvist::kubernetes {

ListWatch::Action ListWatch::poll(TimePoint now) {
  if (state_ == State::kWatching && now - last_news_ >= kMostSilence)
    on_failed({.kind = ApiErrorKind::kUnreachable, .message = "the watch is silent: not even a bookmark came"}, now);
  if (state_ == State::kOpening && now - asked_ >= kMostOpening)
    on_failed({.kind = ApiErrorKind::kUnreachable, .message = "the watch is not answered"}, now);
  if (state_ != State::kIdle || now < not_before_) return {};
  if (version_.empty()) {
    state_ = State::kListing;
    return {.kind = Action::Kind::kList, .continue_token = continue_token_};
  }
  state_ = State::kOpening;
  asked_ = now;
  return {.kind = Action::Kind::kWatch, .resource_version = version_};
}

std::optional<TimePoint> ListWatch::next_wakeup() const {
  switch (state_) {
    case State::kIdle:
      return not_before_;
    case State::kWatching:
      return last_news_ + kMostSilence;
    case State::kOpening:
      return asked_ + kMostOpening;
    case State::kListing:
      return std::nullopt;
  }
  return std::nullopt;
}

bool ListWatch::on_page(std::string_view resource_version, std::string_view continue_token, TimePoint now) {
  state_ = State::kIdle;
  not_before_ = now;
  continue_token_ = continue_token;
  if (!continue_token_.empty()) return false;
  version_ = resource_version;
  synced_ = true;
  ++counters_.lists;
  return true;
}

void ListWatch::on_watch_open(TimePoint now) {
  state_ = State::kWatching;
  last_news_ = now;
  opened_ = now;
  stale_since_.reset();
  problem_.clear();
  ++counters_.watches;
}

void ListWatch::on_version(std::string_view resource_version, TimePoint now) {
  last_news_ = now;
  delay_ = {};
  expired_ = false;
  if (!resource_version.empty()) version_ = resource_version;
}

void ListWatch::on_watch_end(TimePoint now) {
  const bool at_once = state_ != State::kWatching || now - opened_ < kFirstDelay;
  state_ = State::kIdle;
  not_before_ = now;
  // Who ends each watch at once would otherwise be asked without a pause.
  if (at_once) return wait({}, now);
  delay_ = {};
}

void ListWatch::on_failed(const ApiError& error, TimePoint now) {
  ++counters_.failures;
  problem_ = to_error(error).message;
  if (synced_ && !stale_since_) stale_since_ = now;
  const bool listing = state_ == State::kListing;
  if (state_ == State::kWatching && now - opened_ > delay_) delay_ = {};
  state_ = State::kIdle;
  if (error.kind == ApiErrorKind::kExpired) {
    ++counters_.expired;
    // The server is there, whatever delay has led up to it. One that calls each list too old is asked less and less.
    if (!std::exchange(expired_, true)) delay_ = {};
    version_.clear();
    continue_token_.clear();
  } else if (listing && error.kind != ApiErrorKind::kUnreachable) {
    // Whatever was wrong with the token, a list from its beginning has none.
    continue_token_.clear();
  }
  wait(error.retry_after.value_or(Duration()), now);
}

void ListWatch::wait(Duration least, TimePoint now) {
  delay_ = std::clamp(2 * delay_, kFirstDelay, kMostDelay);
  random_ = random_ * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;  // Knuth's MMIX
  const auto varied = static_cast<Duration::rep>(random_ >> 33) % (delay_.count() / 2);
  not_before_ = now + std::max(least, delay_ - Duration(varied));
}

}  // namespace kvist::kubernetes
