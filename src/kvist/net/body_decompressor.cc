#include "kvist/net/body_decompressor.h"

#include <memory>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/net/loop_impl.h"

namespace kvist::net {
namespace {

// Takes about a millisecond.
constexpr std::size_t kBodyPieceBytes = 256U << 10;

}  // namespace

// What a piece takes is counted when it is there, so that a body may be beyond the budget by one piece, and by the
// decoder's window.
std::optional<Result<std::string>> decompress(CompressedBody& body, const std::function<bool()>& is_wanted) {
  for (bool done = false; !done;) {
    if (!is_wanted()) return std::nullopt;
    const Result<bool> ran = body.decoder.run(kBodyPieceBytes);
    if (!ran) return std::unexpected(ran.error());
    if (!body.share.resize(body.decoder.held_bytes())) {
      return fail(ErrorCode::kResourceExhausted, std::string(kBodiesTooLarge));
    }
    done = *ran;
  }
  std::string output = body.decoder.take_output();
  body.decoder.restart();
  KVIST_CHECK(body.share.resize(output.size()), "a part of what a body has is too much for its budget");
  return output;
}

BodyDecompressor::~BodyDecompressor() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::optional<BodyDecompressor::Ticket> BodyDecompressor::submit(LoopImpl& loop, CompressedBody body, Done done) {
  {
    const std::scoped_lock lock(mutex_);
    if (waiting_.size() >= kMaxWaiting) return std::nullopt;
    waiting_.push_back({.ticket = ++last_ticket_, .loop = &loop, .body = std::move(body), .done = std::move(done)});
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_one();
  return last_ticket_;
}

void BodyDecompressor::abandon(Ticket ticket) {
  const std::scoped_lock lock(mutex_);
  if (wanted_ == ticket) wanted_.reset();
  std::erase_if(waiting_, [ticket](const Job& job) { return job.ticket == ticket; });
}

bool BodyDecompressor::is_wanted(Ticket ticket) {
  const std::scoped_lock lock(mutex_);
  return wanted_ == ticket && !stopping_;
}

void BodyDecompressor::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    Job job = std::move(waiting_.front());
    waiting_.pop_front();
    wanted_ = job.ticket;
    lock.unlock();
    carry_out(std::move(job));
    lock.lock();
    wanted_.reset();
  }
}

void BodyDecompressor::carry_out(Job job) {
  auto ran = decompress(job.body, [this, ticket = job.ticket] { return is_wanted(ticket); });
  if (!ran) return;
  struct Finished {
    Result<std::string> body;
    BodyShare share;
  };
  const auto finished = std::make_shared<Finished>(*std::move(ran), std::move(job.body.share));
  job.loop->post(
      [finished, done = std::move(job.done)] { done(std::move(finished->body), std::move(finished->share)); });
}

}  // namespace kvist::net
