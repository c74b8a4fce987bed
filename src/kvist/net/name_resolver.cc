#include "kvist/net/name_resolver.h"

#include <algorithm>
#include <utility>

namespace kvist::net {

void NameResolver::resolve(std::string host, std::uint16_t port, Answer answer) {
  const std::scoped_lock lock(mutex_);
  const auto same = std::ranges::find_if(
      questions_, [&](const Question& question) { return question.host == host && question.port == port; });
  if (same != questions_.end()) {
    same->askers.push_back(std::move(answer));
    return;
  }
  Question& question = questions_.emplace_back();
  question.host = std::move(host);
  question.port = port;
  question.askers.push_back(std::move(answer));
  const auto waiting = std::ranges::count(questions_, false, &Question::under_way);
  if (idle_threads_ < static_cast<std::size_t>(waiting) && threads_.size() < kMostThreads) {
    ++idle_threads_;
    threads_.emplace_back([this] { work(); });
  }
  woken_.notify_one();
}

void NameResolver::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    woken_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  questions_.clear();
}

void NameResolver::work() {
  std::unique_lock lock(mutex_);
  auto next = questions_.end();
  const auto found_one = [&] {
    next = std::ranges::find(questions_, false, &Question::under_way);
    return next != questions_.end();
  };
  while (true) {
    woken_.wait(lock, [&] { return stopping_ || found_one(); });
    if (stopping_) return;
    --idle_threads_;
    const auto question = next;
    question->under_way = true;
    lock.unlock();
    const auto found = resolve_blocking(question->host, question->port);
    lock.lock();
    std::vector<Answer> askers = std::move(question->askers);
    questions_.erase(question);
    ++idle_threads_;
    lock.unlock();
    // What an answer holds is let go on the loop, not here, where that could be under the lock.
    for (Answer& answer : askers) post_([answer = std::move(answer), found] { answer(found); });
    lock.lock();
  }
}

}  // namespace kvist::net
