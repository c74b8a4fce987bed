// Has an informer ask the API server.
#pragma once

#include <functional>
#include <memory>

#include "kvist/kubernetes/api_client.h"
#include "kvist/kubernetes/api_request.h"
#include "kvist/kubernetes/informer.h"

namespace kvist::kubernetes {

/// Makes the calls that the informer asks for, one at a time, and tells it what came of them. Threads: the loop's.
class InformerDriver {
 public:
  /// `on_event`: the copy has changed, or how current it is. Requires: all outlive this object.
  InformerDriver(net::EventLoop& loop, ApiClient& client, Collection collection, InformerBase& informer,
                 std::function<void()> on_event);

  void start() { act(); }

 private:
  /// Does what is to be done now, and is called again when there is something else.
  void act();
  void act_later();
  void list(const std::string& continue_token);
  void watch(const std::string& resource_version);
  void on_answer();

  ApiClient* client_;
  Collection collection_;
  InformerBase* informer_;
  std::function<void()> on_event_;
  net::Timer timer_;
  std::unique_ptr<net::HttpCall> call_;  // under way
};

}  // namespace kvist::kubernetes
