#include "kvist/net/body_decompressor.h"

#include <limits>
#include <memory>

#include "kvist/net/loop_impl.h"

namespace kvist::net {

BodyDecompressor::~BodyDecompressor() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool BodyDecompressor::submit(LoopImpl& loop, ContentDecoder decoder, Done done) {
  {
    const std::scoped_lock lock(mutex_);
    if (waiting_.size() >= kMaxWaiting) return false;
    waiting_.push_back({.loop = &loop, .decoder = std::move(decoder), .done = std::move(done)});
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_one();
  return true;
}

void BodyDecompressor::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    Job job = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    const Result<bool> ran = job.decoder.run(std::numeric_limits<std::size_t>::max());
    auto body = std::make_shared<Result<std::string>>(ran ? Result<std::string>(job.decoder.take_output())
                                                          : Result<std::string>(std::unexpected(ran.error())));
    job.loop->post([body, done = std::move(job.done)] { done(std::move(*body)); });
    lock.lock();
  }
}

}  // namespace kvist::net
