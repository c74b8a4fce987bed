// The requests that other gateways gave to the same workers.
#include <algorithm>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/routing/router.h"

namespace kvist::routing {
namespace {

/// Their ids are apart from those of one's own requests, which count up from 1.
constexpr std::uint64_t kPeerIds = std::uint64_t{1} << 63U;

}  // namespace

// What its own gateway forecast is not told: the forecast follows from the same load and the same prompt here.
RequestHandle Router::on_peer_routed(const PeerRequest& request, const WorkerView& view, TimePoint now) {
  KVIST_CHECK(request.worker.value() < workers_, "the worker is one of the fleet");
  const RequestHandle handle = requests_.insert({.id = RequestId(kPeerIds | ++last_peer_request_),
                                                 .worker = request.worker,
                                                 .of_peer = true,
                                                 .stands_in = request.stands_in,
                                                 .prompt_tokens = request.prompt_tokens,
                                                 .uncached_tokens = request.uncached_tokens,
                                                 .own_blocks = request.own_blocks,
                                                 .new_blocks = request.new_blocks,
                                                 .streams = request.streams,
                                                 .choices = request.choices,
                                                 .blocks = request.blocks,
                                                 .late = request.late});
  RoutedRequest& routed = *requests_.find(handle);
  reused_.expire(now);
  routed.reuse = reused_.add(request.worker, request.blocks, request.known_tokens / block_size_, now);
  if (!request.stands_in)
    ghosts_.on_peer_routed(request.worker, routing::view(request.blocks), request.uncached_tokens / block_size_);
  if (working_set_) working_set_->begin(request.worker, request.blocks, now);
  const EngineLimits limits = in_blocks_of(block_size_, view.limits);
  caches_.on_peer_routed(routed, limits.kv_blocks, now);
  const ForecastQuery query{.prompt_tokens = request.prompt_tokens,
                            .uncached_tokens = request.uncached_tokens,
                            .new_blocks = request.new_blocks};
  forecaster_.on_routed(routed, forecaster_.forecast(request.worker, limits, query, now), limits, request.known_tokens,
                        now);
  loads_.add(routed);
  ++peer_requests_;
  on_worker_changed(request.worker);
  const bool keeps_sessions =
      affinity_.form != spec::SessionAffinitySpec::Form::kOff && mode_ == spec::RoutingMode::kKv;
  if (keeps_sessions && request.session != 0) sessions_.put(request.session, request.worker, now);
  return handle;
}

void Router::remove_peer_requests(WorkerId worker) {
  if (peer_requests_ == 0) return;
  std::vector<RequestHandle> there;
  requests_.for_each_handle([&](RequestHandle handle, const RoutedRequest& request) {
    if (request.of_peer && request.worker == worker) there.push_back(handle);
  });
  for (const RequestHandle handle : there) {
    RoutedRequest& request = *requests_.find(handle);
    if (working_set_) working_set_->end(request.worker, request.blocks, false, TimePoint());
    ghosts_.take_back(request.worker, routing::view(request.blocks));
    loads_.remove(request);
    --peer_requests_;
    requests_.erase(handle);
  }
}

}  // namespace kvist::routing
