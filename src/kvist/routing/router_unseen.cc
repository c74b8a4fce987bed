// The first tokens of answers that are not streamed: nobody sees them.
#include <algorithm>

#include "kvist/routing/router.h"

namespace kvist::routing {
namespace {

/// A request that is later than forecast is looked at again after this part of the time that it has waited so far, so
/// that many which wait at an engine that stands still take no time.
constexpr int kWaitedParts = 8;

}  // namespace

// Without this a request would count as one that waits for its first token until its answer is there. So a fleet whose
// clients do not stream would always look as if everyone waited for prefill (KvPolicy, F).
void Router::assume_first_tokens(TimePoint now) {
  while (const auto handle = unseen_.due(now)) {
    RoutedRequest& request = *requests_.find(*handle);
    const Forecaster::Unseen forecast = forecaster_.unseen(request, now);
    if (forecast.first_token > now) {
      const TimePoint routed = request.first_token.routed;
      unseen_.await(*handle, request, std::max(forecast.first_token, now + (now - routed) / kWaitedParts));
      continue;
    }
    assume_first_token(request);
    forecaster_.on_unseen_computed(request, forecast.computed);
    unseen_.remove(request);
  }
}

// Engines compute prompts in the order in which they came (PrefillQueue).
void Router::assume_first_tokens_before(const RoutedRequest& request) {
  while (const auto handle = unseen_.before(request)) {
    RoutedRequest& earlier = *requests_.find(*handle);
    assume_first_token(earlier);
    forecaster_.on_unseen_computed(earlier, TimePoint());
    unseen_.remove(earlier);
  }
}

void Router::assume_first_token(RoutedRequest& request) {
  on_worker_changed(request.worker);
  if (request.decoding) return;
  if (observer_ != nullptr) observer_->on_first_token(request);
  loads_.assume_first_token(request);
}

}  // namespace kvist::routing
