// A load generator as another thread sees it, which may exist before it and after it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "kvist/loadgen/service.h"
#include "kvist/net/event_loop.h"

namespace kvist::loadgen {

/// Passes work to the service that is attached now. Threads: any.
class LoadWatch {
 public:
  using Work = std::function<void(Service& service)>;

  /// Requires: called before `service` is used, and detach() before it or its loop is destroyed.
  void attach(net::EventLoop& loop, Service& service) {
    const std::scoped_lock lock(mutex_);
    loop_ = &loop;
    service_ = &service;
  }
  /// Work that was posted before still runs if the loop comes to it before the service is gone.
  void detach() {
    const std::scoped_lock lock(mutex_);
    loop_ = nullptr;
    service_ = nullptr;
  }
  /// Runs `work` on the service's loop. Returns false, without running it, if no service is attached.
  [[nodiscard]] bool post(Work work) {
    const std::scoped_lock lock(mutex_);
    if (loop_ == nullptr) return false;
    loop_->post([service = service_, work = std::move(work)] { work(*service); });
    return true;
  }

 private:
  std::mutex mutex_;
  net::EventLoop* loop_ = nullptr;
  Service* service_ = nullptr;
};

}  // namespace kvist::loadgen
