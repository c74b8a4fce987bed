// What one API key may use, and has used.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "kvist/base/time.h"
#include "kvist/gateway/token_bucket.h"

namespace kvist::gateway {

/// So many bytes of a request or answer that the gateway does not read count as a token.
inline constexpr std::uint64_t kBytesPerToken = 4;

/// The limits of a key; 0 means no bound.
struct KeyLimits {
  std::uint32_t requests_per_minute = 0;
  std::uint64_t tokens_per_minute = 0;
  std::uint32_t concurrency = 0;

  bool operator==(const KeyLimits&) const = default;
};

/// What a key gets when there is not enough for all (dispatch/wait_admission.h).
struct KeyStanding {
  std::uint32_t weight = 1;   ///< its share is in proportion to this
  std::int32_t priority = 0;  ///< the lowest, which is the best, that its requests may have

  bool operator==(const KeyStanding&) const = default;
};

enum class KeyLimit : std::uint8_t { kRequests, kTokens, kConcurrency };
inline constexpr std::size_t kKeyLimits = 3;
/// "requests_per_minute"
[[nodiscard]] const char* to_string(KeyLimit limit);

/// Why a request is refused, and when to try again.
struct KeyRefusal {
  KeyLimit limit = KeyLimit::kRequests;
  Duration retry_after{};
};

struct KeyCounters {
  std::uint64_t requests = 0;  ///< admitted
  std::uint64_t tokens = 0;    ///< of prompts and answers that have ended
  std::uint64_t refused[kKeyLimits] = {};
  std::uint32_t in_flight = 0;
};

/// Decides whether a key may make another request. A request is charged an estimate of its tokens when it is admitted,
/// and what it really took when it has ended. So a key exceeds its tokens by no more than its requests in flight were
/// underestimated. Threads: one.
class KeyUsage {
 public:
  KeyUsage(const KeyLimits& limits, TimePoint now) { set_limits(limits, now); }

  /// A key's new limits apply to what follows; what is left of the old ones is scaled.
  void set_limits(const KeyLimits& limits, TimePoint now);
  /// Admits a request, which must be ended with finish(), or says why not.
  [[nodiscard]] std::optional<KeyRefusal> admit(std::uint64_t estimated_tokens, TimePoint now);
  void finish(std::uint64_t estimated_tokens, std::uint64_t tokens, TimePoint now);
  [[nodiscard]] const KeyCounters& counters() const { return counters_; }

 private:
  [[nodiscard]] std::optional<KeyRefusal> refusal(TimePoint now);

  KeyLimits limits_;
  std::optional<TokenBucket> requests_;
  std::optional<TokenBucket> tokens_;
  KeyCounters counters_;
};

/// A key as all loops share it. Its limits are exact however many loops its requests come to, because each call takes a
/// lock for a moment. Threads: any.
class KeyAccount {
 public:
  KeyAccount(std::string name, std::string key_class, const KeyLimits& limits, TimePoint now,
             const KeyStanding& standing = {})
      : name_(std::move(name)),
        class_(std::move(key_class)),
        shared_(std::make_shared<Shared>(standing, limits, now)) {}
  /// The same key under another name or in another class: both accounts are one, so that requests that began under the
  /// old name are charged to it too.
  KeyAccount(std::string name, std::string key_class, const KeyAccount& before)
      : name_(std::move(name)), class_(std::move(key_class)), shared_(before.shared_) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& key_class() const { return class_; }
  [[nodiscard]] KeyStanding standing() const {
    const std::scoped_lock lock(shared_->mutex);
    return shared_->standing;
  }
  void set_standing(const KeyStanding& standing) {
    const std::scoped_lock lock(shared_->mutex);
    shared_->standing = standing;
  }

  void set_limits(const KeyLimits& limits, TimePoint now) {
    const std::scoped_lock lock(shared_->mutex);
    shared_->usage.set_limits(limits, now);
  }
  [[nodiscard]] std::optional<KeyRefusal> admit(std::uint64_t estimated_tokens, TimePoint now) {
    const std::scoped_lock lock(shared_->mutex);
    return shared_->usage.admit(estimated_tokens, now);
  }
  void finish(std::uint64_t estimated_tokens, std::uint64_t tokens, TimePoint now) {
    const std::scoped_lock lock(shared_->mutex);
    shared_->usage.finish(estimated_tokens, tokens, now);
  }
  [[nodiscard]] KeyCounters counters() const {
    const std::scoped_lock lock(shared_->mutex);
    return shared_->usage.counters();
  }

 private:
  struct Shared {
    Shared(const KeyStanding& of, const KeyLimits& limits, TimePoint now) : standing(of), usage(limits, now) {}
    std::mutex mutex;
    KeyStanding standing;
    KeyUsage usage;
  };

  const std::string name_;
  const std::string class_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace kvist::gateway
