// From the receiver's thread to the loop: a bounded hand-over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace kvist::gateway {

/// What a subscription brings, in the order it came.
struct KvFrame {
  enum class Kind : std::uint8_t { kConnected, kDisconnected, kLive, kReplayed, kReplayEnd, kMalformed };
  Kind kind = Kind::kLive;
  std::uint64_t sequence = 0;  ///< of kLive and kReplayed
  std::string payload;         ///< of those, or what was malformed
};

/// One thread pushes, another takes all at once. Bounded in bytes: a message beyond the bound is dropped, which the
/// sequencer then sees as a gap and has replayed. Thread-safe.
class KvEventInbox {
 public:
  static constexpr std::size_t kMaxBytes = 256U << 20;
  /// Counted per frame beside its payload, so that empty frames are bounded too.
  static constexpr std::size_t kFrameBytes = 64;

  explicit KvEventInbox(std::size_t max_bytes = kMaxBytes) : max_bytes_(max_bytes) {}

  /// True when the taker has to be woken: the inbox was empty since its last take().
  [[nodiscard]] bool push(KvFrame frame) {
    const std::lock_guard lock(mutex_);
    const bool is_message = frame.kind == KvFrame::Kind::kLive || frame.kind == KvFrame::Kind::kReplayed ||
                            frame.kind == KvFrame::Kind::kMalformed;
    const std::size_t bytes = frame.payload.size() + kFrameBytes;
    if (is_message && bytes_ + bytes > max_bytes_) {
      ++dropped_;
      return false;
    }
    bytes_ += bytes;
    frames_.push_back(std::move(frame));
    return frames_.size() == 1;
  }

  [[nodiscard]] std::vector<KvFrame> take() {
    const std::lock_guard lock(mutex_);
    bytes_ = 0;
    return std::exchange(frames_, {});
  }

  [[nodiscard]] std::uint64_t dropped() const {
    const std::lock_guard lock(mutex_);
    return dropped_;
  }

 private:
  const std::size_t max_bytes_;
  mutable std::mutex mutex_;
  std::vector<KvFrame> frames_;
  std::size_t bytes_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace kvist::gateway
