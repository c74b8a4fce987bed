// From the receiver's thread to the loop of the feeds: a bounded hand-over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace kvist::gateway {

/// What a subscription brings, and what the worker says of its stream elsewhere, in the order in which they came. The
/// latter must not overtake frames, or it would look as if these were missing.
struct KvFrame {
  enum class Kind : std::uint8_t {
    kConnected,
    kDisconnected,
    kLive,
    kReplayed,
    kReplayEnd,
    kMalformed,
    kUnreachable,  ///< an attempt to connect to the publisher failed
    kPublished,    ///< the worker says how many batches it has published
    kRestarted,    ///< the worker's process is a new one
  };
  Kind kind = Kind::kLive;
  std::uint64_t sequence = 0;  ///< of kLive and kReplayed; the number of kPublished
  std::string payload;         ///< of those, or what was malformed, broke or failed
};

/// Some threads push, another takes, a piece at a time. Bounded in bytes: a message beyond the bound is dropped, which
/// the sequencer then sees as a gap and has replayed. Threads: any may push; one takes.
class KvEventInbox {
 public:
  static constexpr std::size_t kMaxBytes = 256U << 20;
  /// Counted per frame beside its payload, so that empty frames are bounded too.
  static constexpr std::size_t kFrameBytes = 64;

  explicit KvEventInbox(std::size_t max_bytes = kMaxBytes) : max_bytes_(max_bytes) {}

  /// Returns true if the taker has to be woken, because it is not about to come already. Requires: a caller that gets
  /// true wakes it, because no later push() returns true before take() has emptied the inbox.
  [[nodiscard]] bool push(KvFrame frame) {
    const std::lock_guard lock(mutex_);
    const bool is_message = frame.kind == KvFrame::Kind::kLive || frame.kind == KvFrame::Kind::kReplayed ||
                            frame.kind == KvFrame::Kind::kMalformed;
    // The end of a replay may be late, but not lost, unless a worker sends nothing but ends.
    const std::size_t most = is_message ? max_bytes_ : 2 * max_bytes_;
    const std::size_t bytes = bytes_of(frame);
    const bool is_rare = frame.kind == KvFrame::Kind::kConnected || frame.kind == KvFrame::Kind::kDisconnected ||
                         frame.kind == KvFrame::Kind::kRestarted;
    if (bytes_ + bytes > most && !is_rare) {
      ++dropped_;
      return false;
    }
    bytes_ += bytes;
    frames_.push_back(std::move(frame));
    return !std::exchange(taker_comes_, true);
  }

  struct Piece {
    std::vector<KvFrame> frames;
    bool more = false;  ///< the taker has to come again by itself
  };
  /// The oldest frames, at most `most_bytes` of them, but at least one if there is one. Ensures: frames come in the
  /// order in which they were pushed.
  [[nodiscard]] Piece take(std::size_t most_bytes) {
    const std::lock_guard lock(mutex_);
    Piece piece;
    std::size_t taken = 0;
    while (!frames_.empty()) {
      const std::size_t bytes = bytes_of(frames_.front());
      if (taken > 0 && taken + bytes > most_bytes) break;
      taken += bytes;
      piece.frames.push_back(std::move(frames_.front()));
      frames_.pop_front();
    }
    bytes_ -= taken;
    piece.more = taker_comes_ = !frames_.empty();
    return piece;
  }

  [[nodiscard]] std::size_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }
  [[nodiscard]] std::uint64_t dropped() const {
    const std::lock_guard lock(mutex_);
    return dropped_;
  }

 private:
  [[nodiscard]] static std::size_t bytes_of(const KvFrame& frame) { return frame.payload.size() + kFrameBytes; }

  const std::size_t max_bytes_;
  mutable std::mutex mutex_;
  std::deque<KvFrame> frames_;
  std::size_t bytes_ = 0;
  bool taker_comes_ = false;
  std::uint64_t dropped_ = 0;
};

}  // namespace kvist::gateway
