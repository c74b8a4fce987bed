// Asks requests for their API key.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "kvist/gateway/key_ring.h"
#include "kvist/gateway/request_ids.h"
#include "kvist/gateway/warning_gate.h"
#include "kvist/net/http_types.h"

namespace kvist::gateway {

/// A request's place within its key's limits. It ends with this object; then the key is charged what used() said, or
/// the estimate. Empty if the gateway asks for no key. Threads: one at a time.
class KeyLease {
 public:
  KeyLease() = default;
  /// Requires: the account has admitted a request with this estimate.
  KeyLease(std::shared_ptr<KeyAccount> account, std::uint64_t estimated_tokens)
      : account_(std::move(account)), estimated_(estimated_tokens), tokens_(estimated_tokens) {}
  ~KeyLease() { end(); }
  KeyLease(KeyLease&& other) noexcept
      : account_(std::move(other.account_)), estimated_(other.estimated_), tokens_(other.tokens_) {}
  KeyLease& operator=(KeyLease&& other) noexcept {
    if (this == &other) return *this;
    end();
    account_ = std::move(other.account_);
    estimated_ = other.estimated_;
    tokens_ = other.tokens_;
    return *this;
  }

  /// What the request took: its prompt and its answer.
  void used(std::uint64_t tokens) { tokens_ = tokens; }
  /// As used(), if only the answer was counted, as the worker did not say what the request took or the client left
  /// before. It is charged its prompt as read here (0: it was not read), and at least the estimate, which may be far
  /// below the prompt.
  void answered(std::uint64_t prompt_tokens, std::uint64_t tokens) {
    tokens_ = (prompt_tokens > estimated_ ? prompt_tokens : estimated_) + tokens;
  }
  [[nodiscard]] const KeyAccount* account() const { return account_.get(); }
  /// The name of its key; empty: it has none.
  [[nodiscard]] std::string_view key_name() const {
    return account_ ? std::string_view(account_->name()) : std::string_view();
  }
  /// The class of its key; empty: it has none.
  [[nodiscard]] std::string_view key_class() const {
    return account_ ? std::string_view(account_->key_class()) : std::string_view();
  }

 private:
  void end();

  std::shared_ptr<KeyAccount> account_;
  std::uint64_t estimated_ = 0;
  std::uint64_t tokens_ = 0;
};

/// Whether a request to the listener for clients is served without a key: a load balancer has none.
[[nodiscard]] inline bool needs_no_key(const net::HttpRequest& request) {
  return request.path() == "/health";
}

/// Lets requests with a good key pass, within the key's limits, and words the refusals of all others. Keys are never
/// logged; their names are. Threads: any.
class KeyGate {
 public:
  explicit KeyGate(std::shared_ptr<KeyRing> ring);

  struct Verdict {
    KeyLease lease = {};
    std::optional<net::HttpResponse> refusal = {};  ///< 401, or 429 with Retry-After; with the request's id
    std::string refused_key = {};                   ///< the name of a key whose limits are reached
  };
  [[nodiscard]] Verdict admit(const net::HttpRequest& request, TimePoint now);
  /// Judges a request by its head, before its body takes memory: 401, unless it has a good key or needs none. admit()
  /// asks about the key's limits, when the whole request is there.
  [[nodiscard]] std::optional<net::HttpResponse> refuse_stranger(const net::HttpRequest& head, TimePoint now);

  /// Requests without a good key.
  [[nodiscard]] std::uint64_t unauthenticated() const { return unauthenticated_.load(std::memory_order_relaxed); }
  [[nodiscard]] KeyRing& ring() { return *ring_; }
  [[nodiscard]] const KeyRing& ring() const { return *ring_; }

 private:
  /// Adds the request's id, so that the client and the log can tell which request it was.
  [[nodiscard]] net::HttpResponse named(net::HttpResponse answer, const net::Headers& request);
  [[nodiscard]] net::HttpResponse turn_away(const net::Headers& headers, bool has_key, TimePoint now);
  void warn(const std::string& what, TimePoint now);

  std::shared_ptr<KeyRing> ring_;
  RequestIds ids_;
  std::atomic<std::uint64_t> unauthenticated_ = 0;
  std::mutex warning_;
  WarningGate warnings_;
};

}  // namespace kvist::gateway
