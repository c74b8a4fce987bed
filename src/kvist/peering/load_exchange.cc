#include "kvist/peering/load_exchange.h"

#include <algorithm>
#include <utility>

namespace kvist::peering {
namespace {

/// What a new measurement of the way counts for beside the mean so far, as for TCP's round trips (RFC 6298).
constexpr int kParts = 8;

}  // namespace

LoadExchange::LoadExchange(const Options& options, routing::Router& router, const dispatch::Fleet& fleet)
    : times_(options.times),
      teller_(options.gateway, options.run, options.times, router, fleet),
      peers_(options.gateway, options.patience, router, fleet),
      unheard_(router, fleet) {
  teller_.on_news([this] { on_news_(); });
  teller_.on_own([this](const routing::RoutedRequest& request, std::uint32_t known_tokens, TimePoint now) {
    if (!way_) return;
    unheard_.on_own(request, known_tokens, peers_.counters().requests, now);
    if (unheard_.size() > 0) on_news_();
  });
  peers_.on_heard([this](const Heard& heard, TimePoint now) { on_heard(heard, now); });
}

TimePoint LoadExchange::due(TimePoint now) {
  const TimePoint due = teller_.due(now);
  return unheard_.due() ? std::max(now, std::min(due, *unheard_.due())) : due;
}

std::vector<std::string> LoadExchange::take(TimePoint now) {
  peers_.expire(now);
  unheard_.expire(now);
  if (teller_.due(now) > now) return {};
  if (teller_.state_is_due(now)) {
    for (const Heard& heard : peers_.heard(now)) teller_.say(heard);
    if (admission_ != nullptr)
      teller_.say(Refused{.requests = static_cast<std::uint32_t>(admission_->refused_for_wait())});
  }
  return teller_.take(now);
}

// One that has not heard of this gateway yet is to know everything now.
void LoadExchange::on_message(std::span<const std::uint8_t> bytes, TimePoint now) {
  const bool is_new = peers_.on_message(bytes, now);
  unheard_.on_heard(peers_.counters().requests, now);
  pass_on_refusals(now);
  if (!is_new) return;
  teller_.repeat();
  on_news_();
}

void LoadExchange::pass_on_refusals(TimePoint now) {
  if (admission_ == nullptr) return;
  const PeerCounters& counters = peers_.counters();
  const std::uint64_t refused = counters.refused - std::exchange(told_refused_, counters.refused);
  const std::uint64_t routed = counters.requests - std::exchange(told_routed_, counters.requests);
  if (routed + refused > 0) admission_->on_others(routed + refused, refused, now);
}

// What waits for others to go with it in a message does so for half of the longest time on average.
void LoadExchange::on_heard(const Heard& heard, TimePoint now) {
  const std::optional<TimePoint> sent = teller_.sent(heard.run, heard.sequence);
  if (!sent) return;
  const Duration way = (now - *sent - heard.held) / 2;
  if (way < Duration::zero() || way > kLongestWay) return;
  way_ = way_ ? *way_ + (way - *way_) / kParts : way;
  unheard_.set_delay(*way_ + times_.batch / 2);
  peers_.set_delay(unheard_.delay());
}

}  // namespace kvist::peering
