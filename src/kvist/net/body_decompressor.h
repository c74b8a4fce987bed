// Private to net: a thread that decompresses large bodies, so that the loop goes on meanwhile.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "kvist/base/error.h"
#include "kvist/net/content_decoder.h"

namespace kvist::net {

class LoopImpl;

/// Starts its thread with the first body. The destructor waits for the body under way, which is bounded, and drops the
/// others. Threads: the loop's.
class BodyDecompressor {
 public:
  /// The most bodies that wait.
  static constexpr std::size_t kMaxWaiting = 64;
  using Done = std::function<void(Result<std::string>)>;

  BodyDecompressor() = default;
  ~BodyDecompressor();
  BodyDecompressor(const BodyDecompressor&) = delete;
  BodyDecompressor& operator=(const BodyDecompressor&) = delete;

  /// Runs the decoder to its end; `done` is called on the loop, and must own nothing that only the loop may destroy.
  /// Returns false if too many are waiting. Requires: `loop` outlives this object.
  [[nodiscard]] bool submit(LoopImpl& loop, ContentDecoder decoder, Done done);

 private:
  struct Job {
    LoopImpl* loop;
    ContentDecoder decoder;
    Done done;
  };
  void run();

  std::mutex mutex_;  // guards the next two
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace kvist::net
