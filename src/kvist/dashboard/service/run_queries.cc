#include "kvist/dashboard/service/run_queries.h"

#include <utility>

namespace kvist::dashboard {

RunQueries::RunQueries(RunLibrary library) : library_(std::move(library)), thread_([this] { work(); }) {}

RunQueries::~RunQueries() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

bool RunQueries::ask(Question question) {
  {
    const std::scoped_lock lock(mutex_);
    if (waiting_.size() >= kMostWaiting) return false;
    waiting_.push_back(std::move(question));
  }
  changed_.notify_one();
  return true;
}

void RunQueries::work() {
  while (true) {
    Question question;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
      if (ends_) return;
      question = std::move(waiting_.front());
      waiting_.pop_front();
    }
    question(library_);
  }
}

}  // namespace kvist::dashboard
