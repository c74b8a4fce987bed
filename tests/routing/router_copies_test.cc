#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kvist/kv/block_hash.h"
#include "kvist/routing/router.h"

namespace kvist::routing::router_copies_test {
namespace {

constexpr std::uint32_t kBlock = 4;
constexpr std::uint32_t kPrefix = 400;

/// A fleet of workers that hold nothing at first, and requests behind prefixes of kPrefix tokens.
class Copies {
 public:
  explicit Copies(std::uint32_t workers)
      : router_({.model = "m",
                 .block_size = kBlock,
                 .workers = workers,
                 .mode = spec::RoutingMode::kKv,
                 .seed = 1,
                 .latency_prior = {.fixed = std::chrono::milliseconds(20),
                                   .per_prefill_token = std::chrono::milliseconds(1)}}),
        fleet_(workers, WorkerView{.available = true, .events_exact = true, .limits = {}}) {}

  /// A request behind a prefix, with 8 tokens of its own. Returns its decision.
  Decision ask(std::uint32_t prefix) {
    std::vector<TokenId> prompt(kPrefix, TokenId(prefix));
    ++last_;
    for (std::uint32_t i = 0; i < 8; ++i) prompt.emplace_back(1'000 + 10 * last_ + i);
    const auto decision = router_.route(
        {.request = RequestId(last_),
         .prompt_tokens = static_cast<std::uint32_t>(prompt.size()),
         .blocks = std::make_shared<const std::vector<kv::BlockHash>>(kv::hash_blocks(kRoot, prompt, kBlock)),
         .excluded = {}},
        fleet_, TimePoint{});
    EXPECT_TRUE(decision);
    return *decision;
  }
  void hold(WorkerId worker, std::uint32_t prefix) {
    kv::BlockStored stored;
    stored.block_size = kBlock;
    stored.tokens.assign(kPrefix, TokenId(prefix));
    for (std::uint64_t i = 0; i < kPrefix / kBlock; ++i) stored.hashes.emplace_back(1'000 * prefix + i);
    EXPECT_EQ(router_.on_kv_events(worker, std::vector<kv::KvEvent>{stored}), 0U);
  }
  Router& router() { return router_; }

 private:
  const kv::BlockHash kRoot = kv::root_hash({.model = "m", .lora = "", .cache_salt = ""});
  Router router_;
  std::vector<WorkerView> fleet_;
  std::uint32_t last_ = 0;
};

TEST(RouterCopies, AHotPrefixIsCopiedToAsManyWorkersAsItsShareOfTheLoad) {
  Copies copies(4);
  copies.hold(WorkerId(2), 7);
  std::map<WorkerId, int> requests;
  for (int i = 0; i < 40; ++i) ++requests[copies.ask(7).worker];
  // All requests begin with the prefix, so it should be on all workers: the others got some requests although they
  // lacked it.
  EXPECT_EQ(requests.size(), 4U);
}

// 160 answers are being written, each behind a prefix of its own. Of all requests in flight those of the burst are few;
// of those that wait they are all.
TEST(RouterCopies, ABurstBehindANewPrefixGoesToAllWorkers) {
  Copies copies(8);
  for (std::uint32_t i = 0; i < 160; ++i) copies.router().on_first_token(copies.ask(10 + i).request, TimePoint{});
  std::map<WorkerId, int> requests;
  for (int i = 0; i < 8; ++i) ++requests[copies.ask(7).worker];
  EXPECT_EQ(requests.size(), 1U) << "so few may be one conversation, and the decoding of 20 others is not interrupted";
  for (int i = 0; i < 24; ++i) ++requests[copies.ask(7).worker];
  EXPECT_EQ(requests.size(), 8U);
}

}  // namespace
}  // namespace kvist::routing::router_copies_test
