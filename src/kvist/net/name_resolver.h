// Private to net: resolves names without blocking the loop.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/net/socket.h"

namespace kvist::net {

/// The system's look-up may block for seconds. So a thread does it, which is started by the first request and handles
/// one after the other. The destructor waits for the one under way and drops the rest.
class NameResolver {
 public:
  using Answer = std::function<void(Result<std::vector<Endpoint>>)>;

  /// `post` has to run work on the loop's thread.
  explicit NameResolver(std::function<void(std::function<void()>)> post) : post_(std::move(post)) {}
  ~NameResolver() { stop(); }
  NameResolver(const NameResolver&) = delete;
  NameResolver& operator=(const NameResolver&) = delete;

  /// Calls `answer` on the loop's thread.
  void resolve(std::string host, std::uint16_t port, Answer answer);
  void stop();

 private:
  struct Question {
    std::string host;
    std::uint16_t port = 0;
    Answer answer;
  };
  void work();

  std::function<void(std::function<void()>)> post_;
  std::mutex mutex_;
  std::condition_variable woken_;
  std::deque<Question> questions_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace kvist::net
