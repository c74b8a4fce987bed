// Private to net: the memory that the bodies of a server's requests take together, wherever they are.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace kvist::net {

/// What a client is told for whose body there is no room.
inline constexpr std::string_view kBodiesTooLarge = "the bodies of the requests under way are too large together";

/// How many bytes all bodies have, and how many they may have. Threads: any.
class BodyBudget {
 public:
  explicit BodyBudget(std::uint64_t most) : most_(most) {}

  [[nodiscard]] std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  /// Returns false, and takes nothing, if there is not so much room.
  [[nodiscard]] bool take(std::uint64_t bytes) {
    std::uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > most_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void give_back(std::uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  const std::uint64_t most_;
  std::atomic<std::uint64_t> used_ = 0;
};

/// What one body has of a budget, which it gives back at its end. It goes with the body to another thread. Threads: one
/// at a time.
class BodyShare {
 public:
  explicit BodyShare(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
  ~BodyShare() { clear(); }
  /// Requires: the other one is then only destroyed or assigned to.
  BodyShare(BodyShare&& other) noexcept : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
  BodyShare& operator=(BodyShare&& other) noexcept {
    BodyShare taken(std::move(other));
    std::swap(budget_, taken.budget_);
    std::swap(bytes_, taken.bytes_);
    return *this;
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// Returns false, and changes nothing, if there is no room for so many.
  [[nodiscard]] bool resize(std::uint64_t bytes) {
    if (bytes > bytes_ && !budget_->take(bytes - bytes_)) return false;
    if (bytes < bytes_) budget_->give_back(bytes_ - bytes);
    bytes_ = bytes;
    return true;
  }
  void clear() {
    if (bytes_ > 0) budget_->give_back(std::exchange(bytes_, 0));
  }
  /// All that it has. It is then empty, and can be used for the next body.
  [[nodiscard]] BodyShare hand_over() {
    BodyShare all(budget_);
    all.bytes_ = std::exchange(bytes_, 0);
    return all;
  }

 private:
  std::shared_ptr<BodyBudget> budget_;
  std::uint64_t bytes_ = 0;
};

}  // namespace kvist::net
