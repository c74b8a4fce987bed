// Private to net: resolves names without blocking the loop.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/net/socket.h"

namespace kvist::net {

/// The system's look-up may block for seconds. So threads do it, which are started as they are needed, kMostThreads at
/// most: a name that does not resolve keeps one of them busy, not the names of other workers waiting. Who asks for a
/// name that is being looked up gets the same answer, so that the questions are bounded by the number of names. The
/// destructor waits for those under way and drops the rest. Threads: the loop's; `post` is called from its own.
class NameResolver {
 public:
  static constexpr std::size_t kMostThreads = 4;
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
    std::vector<Answer> askers;
    bool under_way = false;
  };
  void work();

  std::function<void(std::function<void()>)> post_;
  std::mutex mutex_;
  std::condition_variable woken_;
  std::list<Question> questions_;  // unanswered ones, by age
  std::size_t idle_threads_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kvist::net
