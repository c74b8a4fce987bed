// A load generator as another thread sees it, which may exist before it and after it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "kvist/loadgen/controlled_load.h"
#include "kvist/net/event_loop.h"

namespace kvist::loadgen {

/// Passes work to the load that is attached now. Threads: any.
class LoadWatch {
 public:
  using Work = std::function<void(ControlledLoad& load)>;

  /// Requires: called before `load` is used, and detach() before it or its loop is destroyed.
  void attach(net::EventLoop& loop, ControlledLoad& load) {
    const std::scoped_lock lock(mutex_);
    loop_ = &loop;
    load_ = &load;
  }
  /// Work that was posted before still runs if the loop comes to it before the service is gone.
  void detach() {
    const std::scoped_lock lock(mutex_);
    loop_ = nullptr;
    load_ = nullptr;
  }
  /// Runs `work` on the load's loop. Returns false, without running it, if none is attached.
  [[nodiscard]] bool post(Work work) {
    const std::scoped_lock lock(mutex_);
    if (loop_ == nullptr) return false;
    loop_->post([load = load_, work = std::move(work)] { work(*load); });
    return true;
  }

 private:
  std::mutex mutex_;
  net::EventLoop* loop_ = nullptr;
  ControlledLoad* load_ = nullptr;
};

}  // namespace kvist::loadgen
