// Who is told of the requests that this gateway gives to workers.
#pragma once

#include <cstdint>

#include "kvist/base/time.h"
#include "kvist/routing/routed_request.h"

namespace kvist::routing {

/// Other gateways learn from it what this one's requests take of the workers. Of tokens it is not told, because there
/// are many: RoutedRequest::output_tokens has them. Threads: the router's.
class LoadObserver {
 public:
  LoadObserver() = default;
  virtual ~LoadObserver() = default;
  LoadObserver(const LoadObserver&) = delete;
  LoadObserver& operator=(const LoadObserver&) = delete;

  /// A request went to its worker. `known_tokens` of its prompt are cached by the worker that has cached most of it.
  /// Returns what RoutedRequest::told becomes. It may book other gateways' requests with the router.
  [[nodiscard]] virtual std::uint64_t on_routed(RequestHandle handle, const RoutedRequest& request,
                                                std::uint32_t known_tokens, std::uint64_t session, TimePoint now) = 0;
  virtual void on_first_token(const RoutedRequest& request) = 0;
  virtual void on_finished(const RoutedRequest& request, bool completed) = 0;
};

}  // namespace kvist::routing
