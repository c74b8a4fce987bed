#include "kvist/net/name_resolver.h"

#include <utility>

namespace kvist::net {

void NameResolver::resolve(std::string host, std::uint16_t port, Answer answer) {
  const std::scoped_lock lock(mutex_);
  questions_.push_back({std::move(host), port, std::move(answer)});
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  woken_.notify_one();
}

void NameResolver::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    woken_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  questions_.clear();
}

void NameResolver::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    woken_.wait(lock, [this] { return stopping_ || !questions_.empty(); });
    if (stopping_) return;
    Question question = std::move(questions_.front());
    questions_.pop_front();
    lock.unlock();
    auto found = resolve_blocking(question.host, question.port);
    post_([answer = std::move(question.answer), result = std::move(found)]() mutable { answer(std::move(result)); });
    lock.lock();
  }
}

}  // namespace kvist::net
