// Workers whose caches are full of conversations, and a dispatcher that holds what fits nowhere.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvist/dispatch/dispatcher.h"

namespace kvist::dispatch::hold_rig {

inline constexpr std::uint32_t kBlockSize = 32;
inline constexpr std::uint32_t kBlocks = 1'000;  ///< of a worker's memory

/// A prompt that takes so many hundredths of a worker's memory.
inline RequestProfile prompt(std::uint64_t conversation, std::size_t hundredths) {
  const std::size_t blocks = hundredths * kBlocks / 100;
  std::vector<kv::BlockHash> hashes;
  for (std::size_t i = 0; i < blocks; ++i) hashes.emplace_back(conversation << 32 | i);
  RequestProfile profile;
  profile.prompt_tokens = static_cast<std::uint32_t>(blocks * kBlockSize + 1);
  profile.blocks = std::make_shared<const std::vector<kv::BlockHash>>(std::move(hashes));
  profile.streams = true;
  return profile;
}

/// Two workers and a dispatcher that holds requests.
class HoldRig {
 public:
  explicit HoldRig(TimePoint now = TimePoint(std::chrono::seconds(1'000))) : now_(now) { make({}); }
  void make(const Dispatcher::Options& more, spec::RoutingMode mode = spec::RoutingMode::kKv) {
    dispatcher_.reset();
    fleet_ = std::make_unique<Fleet>(std::vector<std::string>{"a", "b"}, Fleet::Options{});
    for (std::uint32_t w = 0; w < 2; ++w) {
      fleet_->set_limits(WorkerId(w), {.block_size = kBlockSize, .kv_blocks = kBlocks, .max_batch_size = 16});
      fleet_->on_success(WorkerId(w), now_);
    }
    router_ = std::make_unique<routing::Router>(
        routing::Router::Options{.model = "m",
                                 .block_size = kBlockSize,
                                 .workers = 2,
                                 .mode = mode,
                                 .latency_prior = {.per_prefill_token = std::chrono::milliseconds(100)},
                                 .working_set = true});
    Dispatcher::Options options = more;
    if (!options.hold) options.hold.emplace();
    dispatcher_ = std::make_unique<Dispatcher>(options, *fleet_, *router_);
  }
  /// A turn that begins at once, and its end.
  Ticket begin(const RequestProfile& profile) {
    Arrived came = dispatcher_->start_or_hold(profile, now_);
    EXPECT_TRUE(came.started && *came.started);
    return **came.started;
  }
  void end(const Ticket& ticket) { dispatcher_->finish(ticket.handle, Outcome::kCompleted, now_); }
  HoldId held(const RequestProfile& profile) {
    const Arrived came = dispatcher_->start_or_hold(profile, now_);
    EXPECT_FALSE(came.started);
    return came.held;
  }
  std::vector<Released> release_after(Duration time) {
    now_ += time;
    return dispatcher_->release(now_);
  }
  /// Prompts that take all of the fleet's time. In the second round they are computed again, because the caches are
  /// smaller.
  void keep_busy(std::size_t rounds = 2) {
    for (std::size_t round = 0; round < rounds; ++round)
      for (std::uint64_t number = 0; number < 20; ++number) end(begin(prompt(1'000'000 + number, 50)));
  }
  /// Enough first tokens, which come when the prior says so, for forecasts to count.
  void learn() {
    for (std::uint64_t number = 0; number < 10; ++number) {
      const Ticket ticket = begin(prompt(2'000'000 + number, 1));
      now_ += std::chrono::milliseconds(100) * prompt(0, 1).prompt_tokens;
      dispatcher_->on_first_token(ticket.decision.request, now_);
      end(ticket);
    }
  }
  /// Both workers' caches are full of conversations that go on, of which 0 and 1 are under way.
  std::pair<Ticket, Ticket> fill(std::size_t rounds = 2) {
    keep_busy(rounds);
    for (std::size_t turn = 0; turn < 200; ++turn) {
      for (const std::uint64_t conversation : {0U, 1U}) {
        const Ticket ticket = begin(prompt(conversation, 60 + turn / 10));
        now_ += std::chrono::milliseconds(10);
        end(ticket);
      }
    }
    return {begin(prompt(0, 80)), begin(prompt(1, 80))};
  }

 protected:
  TimePoint now_;
  std::unique_ptr<Fleet> fleet_;
  std::unique_ptr<routing::Router> router_;
  std::unique_ptr<Dispatcher> dispatcher_;
};

}  // namespace kvist::dispatch::hold_rig
