// Private to net: a thread that decompresses large bodies, so that the loop goes on meanwhile.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "kvist/base/error.h"
#include "kvist/net/body_budget.h"
#include "kvist/net/content_decoder.h"

namespace kvist::net {

class LoopImpl;

/// A compressed body and the memory that it takes.
struct CompressedBody {
  ContentDecoder decoder;
  BodyShare share;
};

/// Decompresses to the end, a piece at a time; `is_wanted` is asked before each. After each the share has what the body
/// takes, and at the end its size. Nothing: it is wanted no longer. Errors: those of ContentDecoder::run, and
/// kResourceExhausted if the budget has no room left.
[[nodiscard]] std::optional<Result<std::string>> decompress(CompressedBody& body,
                                                            const std::function<bool()>& is_wanted);

/// Starts its thread with the first body. The destructor waits for the piece under way and drops all bodies. Threads:
/// the loop's.
class BodyDecompressor {
 public:
  /// The most bodies that wait.
  static constexpr std::size_t kMaxWaiting = 64;
  /// A body that was submitted.
  using Ticket = std::uint64_t;
  using Done = std::function<void(Result<std::string>, BodyShare)>;

  BodyDecompressor() = default;
  ~BodyDecompressor();
  BodyDecompressor(const BodyDecompressor&) = delete;
  BodyDecompressor& operator=(const BodyDecompressor&) = delete;

  /// Runs the decoder to its end; `done` is called on the loop, and must own nothing that only the loop may destroy.
  /// Returns nothing if too many are waiting. Requires: `loop` outlives this object.
  [[nodiscard]] std::optional<Ticket> submit(LoopImpl& loop, CompressedBody body, Done done);
  /// Nobody wants the body any more. If it waits, it is dropped; if it is under way, the thread stops at its next
  /// piece. If it was done just before, `done` is called all the same.
  void abandon(Ticket ticket);

 private:
  struct Job {
    Ticket ticket;
    LoopImpl* loop;
    CompressedBody body;
    Done done;
  };
  void run();
  void carry_out(Job job);
  [[nodiscard]] bool is_wanted(Ticket ticket);

  Ticket last_ticket_ = 0;
  std::mutex mutex_;  // guards the next four
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  std::optional<Ticket> wanted_;  // the body under way, unless it was abandoned
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace kvist::net
