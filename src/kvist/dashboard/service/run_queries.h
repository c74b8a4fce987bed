// Answers questions about stored runs on a thread of its own, because they take long.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "kvist/dashboard/run_library.h"

namespace kvist::dashboard {

/// Answers questions in their order; at most kMostWaiting wait. Threads: any may ask. The destructor waits for the
/// question under way.
class RunQueries {
 public:
  static constexpr std::size_t kMostWaiting = 64;
  using Question = std::function<void(RunLibrary& library)>;

  explicit RunQueries(RunLibrary library);
  ~RunQueries();
  RunQueries(const RunQueries&) = delete;
  RunQueries& operator=(const RunQueries&) = delete;

  /// Returns false, without asking, if too many wait.
  [[nodiscard]] bool ask(Question question);

 private:
  void work();

  RunLibrary library_;  // the thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Question> waiting_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace kvist::dashboard
