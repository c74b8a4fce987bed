// Gateways that tell each other over a network that loses, doubles and reorders believe the same in the end.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "gateways.h"

namespace kvist::peering::peers_property_test {
namespace {

struct Flight {
  TimePoint arrives;
  std::size_t to = 0;
  std::string message;
};

class Traffic {
 public:
  Traffic(std::uint64_t seed, double loss) : random_(seed), loss_(loss) {
    for (std::size_t i = 0; i < 4; ++i) gateways_.push_back(make(i, 1));
  }

  void step() {
    now_ += std::chrono::milliseconds(random_.uniform_int(0, 8));
    const auto which = static_cast<std::size_t>(random_.uniform_int(0, 3));
    const std::int64_t what = random_.uniform_int(0, 99);
    if (what == 0 && loss_ > 0) restart(which);
    if (what < 50) {
      act(which);
    } else {
      say(which);
    }
    deliver();
  }
  /// Without losses from here on, until every gateway has told its state.
  void settle() {
    loss_ = 0;
    for (int i = 0; i < 30; ++i) {
      now_ += std::chrono::milliseconds(100);
      for (std::size_t which = 0; which < gateways_.size(); ++which) say(which);
      deliver();
    }
    now_ += std::chrono::milliseconds(60);
    deliver();
  }
  void check() const {
    for (const char* worker : {"w0", "w1", "w2", "w3", "w4"}) {
      routing::WorkerLoad sum;
      for (const auto& gateway : gateways_) add_own(*gateway, worker, sum);
      for (const auto& gateway : gateways_) {
        const routing::WorkerLoad& believed = gateway->load(worker);
        EXPECT_EQ(believed.requests, sum.requests) << worker;
        EXPECT_EQ(believed.decoding, sum.decoding) << worker;
        EXPECT_EQ(believed.prefill_tokens, sum.prefill_tokens) << worker;
        EXPECT_EQ(believed.output_tokens, sum.output_tokens) << worker;
        EXPECT_EQ(believed.context_tokens, sum.context_tokens) << worker;
      }
    }
  }
  void end_all() {
    for (std::size_t which = 0; which < gateways_.size(); ++which) {
      for (const routing::RequestHandle handle : live_[which]) gateways_[which]->router.on_finished(handle, true, now_);
      live_[which].clear();
    }
    settle();
    for (const auto& gateway : gateways_) {
      EXPECT_EQ(gateway->router.loads().requests(), 0U);
      for (std::uint32_t i = 0; i < 5; ++i)
        EXPECT_EQ(gateway->router.loads().load(WorkerId(i)), routing::WorkerLoad{}) << "of worker " << i;
    }
  }

 private:
  std::unique_ptr<TestGateway> make(std::size_t which, std::uint64_t run) {
    std::vector<std::string> workers{"w0", "w1", "w2", "w3", "w4"};
    std::ranges::rotate(workers, workers.begin() + static_cast<std::ptrdiff_t>(which));
    return std::make_unique<TestGateway>(fmt::format("g{}", which), run, workers);
  }
  void restart(std::size_t which) {
    live_[which].clear();
    gateways_[which].reset();
    gateways_[which] = make(which, ++runs_);
  }
  void act(std::size_t which) {
    TestGateway& gateway = *gateways_[which];
    std::vector<routing::RequestHandle>& live = live_[which];
    const std::int64_t what = random_.uniform_int(0, 9);
    if (live.size() < 3 || (what < 3 && live.size() < 40)) {
      const auto blocks = static_cast<std::uint32_t>(random_.uniform_int(0, 30));
      ++requests_;
      live.push_back(gateway.route(requests_, blocks * 16 + 5,
                                   prompt_of(random_.next() % 5, blocks, blocks / 2, requests_), now_));
      return;
    }
    const auto chosen = static_cast<std::size_t>(random_.uniform_int(0, static_cast<std::int64_t>(live.size()) - 1));
    const routing::RequestHandle handle = live[chosen];
    if (what < 5) {
      gateway.router.on_first_token(handle, now_);
    } else if (what < 8) {
      gateway.router.on_progress(handle, static_cast<std::uint64_t>(random_.uniform_int(1, 9)), now_);
    } else {
      gateway.router.on_finished(handle, what == 8, now_);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
  }
  void say(std::size_t which) {
    if (gateways_[which]->teller.due(now_) > now_) return;
    for (const std::string& message : gateways_[which]->teller.take(now_)) {
      for (std::size_t to = 0; to < gateways_.size(); ++to) {
        if (to == which || random_.uniform() < loss_) continue;
        const int copies = loss_ > 0 && random_.uniform() < 0.02 ? 2 : 1;
        for (int copy = 0; copy < copies; ++copy)
          flights_.push_back({now_ + std::chrono::milliseconds(random_.uniform_int(1, 50)), to, message});
      }
    }
  }
  void deliver() {
    std::ranges::stable_sort(flights_, {}, &Flight::arrives);
    const auto due = std::ranges::find_if(flights_, [this](const Flight& f) { return f.arrives > now_; });
    for (auto flight = flights_.begin(); flight != due; ++flight) {
      TestGateway& gateway = *gateways_[flight->to];
      if (gateway.peers.on_message(bytes_of(flight->message), now_)) gateway.teller.repeat();
    }
    flights_.erase(flights_.begin(), due);
    for (const auto& gateway : gateways_) gateway->peers.expire(now_);
  }
  void add_own(const TestGateway& gateway, const std::string& worker, routing::WorkerLoad& sum) const {
    const auto which = static_cast<std::size_t>(
        std::ranges::find(gateways_, &gateway, &std::unique_ptr<TestGateway>::get) - gateways_.begin());
    for (const routing::RequestHandle handle : live_[which]) {
      const routing::RoutedRequest& request = *gateway.router.find(handle);
      if (gateway.fleet.worker(request.worker).name != worker) continue;
      ++sum.requests;
      sum.output_tokens += request.output_tokens;
      if (request.decoding) {
        ++sum.decoding;
        sum.context_tokens += request.prompt_tokens + request.output_tokens;
      } else {
        sum.prefill_tokens += request.uncached_tokens;
      }
    }
  }

  RandomStream random_;
  double loss_;
  TimePoint now_{std::chrono::seconds(1)};
  std::vector<std::unique_ptr<TestGateway>> gateways_;
  std::vector<routing::RequestHandle> live_[4];
  std::vector<Flight> flights_;
  std::uint64_t requests_ = 0;
  std::uint64_t runs_ = 1;
};

TEST(PeersProperty, AllBelieveTheSameInTheEnd) {
  const std::uint64_t first = std::random_device()();
  for (std::uint64_t seed = first; seed < first + 30; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Traffic run(seed, seed % 3 == 0 ? 0 : 0.1);
    for (int i = 0; i < 1'500; ++i) run.step();
    run.settle();
    run.check();
    run.end_all();
    if (HasFailure()) return;
  }
}

TEST(PeersProperty, NoBytesAreTakenForMoreThanTheyAre) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  RandomStream random(seed);
  TestGateway a("a", 1, {"w0", "w1"});
  TestGateway b("b", 1, {"w0", "w1"});
  TimePoint now{std::chrono::seconds(1)};
  for (std::uint64_t i = 1; i <= 2'000; ++i) {
    now += std::chrono::milliseconds(10);
    (void)a.route(i, 64, prompt_of(i, 4, 2, i), now);
    for (std::string message : a.teller.take(now)) {
      const std::int64_t flips = random.uniform_int(0, 3);
      for (std::int64_t flip = 0; flip < flips; ++flip) {
        const auto place =
            static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(message.size()) - 1));
        message[place] = static_cast<char>(random.uniform_int(0, 255));
      }
      b.peers.on_message(bytes_of(message), now);
    }
  }
  b.peers.clear(now);
  EXPECT_EQ(b.router.loads().requests(), 0U);
  for (std::uint32_t i = 0; i < 2; ++i) EXPECT_EQ(b.router.loads().load(WorkerId(i)), routing::WorkerLoad{});
}

}  // namespace
}  // namespace kvist::peering::peers_property_test
