#include "kvist/peering/unheard_requests.h"

#include <algorithm>
#include <cmath>

namespace kvist::peering {

// What was heard came at any time since the last call: what is left of it is the mean of exp(-t) over that.
void UnheardRequests::on_heard(std::uint64_t heard, TimePoint now) {
  const double since = std::max(1e-9, to_seconds(now - rates_of_));
  const double kept = std::exp(-since);
  own_ *= kept;
  others_ = others_ * kept + static_cast<double>(heard - heard_) * (1 - kept) / since;
  heard_ = heard;
  rates_of_ = now;
}

void UnheardRequests::on_own(const routing::RoutedRequest& request, std::uint32_t known_tokens, std::uint64_t heard,
                             TimePoint now) {
  on_heard(heard, now);
  ++own_;
  const double delay = to_seconds(delay_);
  owed_ += std::min(kMostPerRequest, others_ * delay / (own_ * delay + 1));
  const routing::PeerRequest like_it{.worker = request.worker,
                                     .prompt_tokens = request.prompt_tokens,
                                     .uncached_tokens = request.uncached_tokens,
                                     .known_tokens = known_tokens,
                                     .own_blocks = request.own_blocks,
                                     .new_blocks = request.new_blocks,
                                     .stands_in = true};
  for (; owed_ >= 1; --owed_) {
    if (booked_.size() == kMost) continue;
    const routing::RequestHandle handle =
        router_->on_peer_routed(like_it, fleet_->views()[request.worker.value()], now);
    booked_.push_back({.handle = handle, .until = now + delay_});
  }
}

// A delay that became shorter does not let later ones go before earlier ones: they wait for a moment longer.
void UnheardRequests::forget_until(TimePoint now) {
  for (; !booked_.empty() && booked_.front().until <= now; booked_.pop_front())
    router_->on_finished(booked_.front().handle, false, std::min(now, booked_.front().until));
}

}  // namespace kvist::peering
