// Gateways without sockets before the same workers, and a network between them that loses and reorders.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kvist/base/random.h"
#include "kvist/dispatch/fleet.h"
#include "kvist/peering/load_teller.h"
#include "kvist/peering/peer_table.h"
#include "kvist/routing/router.h"

namespace kvist::peering {

inline std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// Block hashes that begin with those of `family`, `count` of them.
inline routing::BlockKeys prompt_of(std::uint64_t family, std::uint32_t count, std::uint32_t shared,
                                    std::uint64_t own) {
  std::vector<kv::BlockHash> blocks;
  for (std::uint32_t i = 0; i < count; ++i)
    blocks.emplace_back(i < shared ? mix_seed({family, i}) : mix_seed({family, own, i}));
  return std::make_shared<const std::vector<kv::BlockHash>>(std::move(blocks));
}

/// One gateway: its fleet may have the workers in any order of places.
struct TestGateway {
  static constexpr std::uint32_t kBlockSize = 16;

  TestGateway(const std::string& name, std::uint64_t run, std::vector<std::string> workers, TellingTimes times = {},
              spec::RoutingMode mode = spec::RoutingMode::kKv)
      : fleet(workers, {}, workers.size() + 1),
        router({.model = "m",
                .block_size = kBlockSize,
                .workers = workers.size() + 1,
                .mode = mode,
                .session_affinity = {.form = spec::SessionAffinitySpec::Form::kSoft}}),
        teller(name, run, times, router, fleet),
        peers(name, std::chrono::seconds(3), router, fleet) {
    for (std::uint32_t i = 0; i < workers.size(); ++i) {
      fleet.set_limits(WorkerId(i), {.block_size = kBlockSize, .kv_blocks = 4'000, .max_batch_size = 64});
      fleet.on_success(WorkerId(i), TimePoint{});
    }
  }

  routing::RequestHandle route(std::uint64_t id, std::uint32_t tokens, routing::BlockKeys blocks, TimePoint now,
                               std::uint64_t session = 0) {
    const auto decision = router.route({.request = RequestId(id),
                                        .prompt_tokens = tokens,
                                        .blocks = std::move(blocks),
                                        .streams = true,
                                        .session = session,
                                        .excluded = {}},
                                       fleet.views(), now);
    return decision->request;
  }
  [[nodiscard]] std::string worker_of(routing::RequestHandle handle) const {
    return fleet.worker(router.find(handle)->worker).name;
  }
  [[nodiscard]] const routing::WorkerLoad& load(const std::string& worker) const {
    for (std::uint32_t i = 0; i < fleet.size(); ++i)
      if (!fleet.is_vacant(WorkerId(i)) && fleet.worker(WorkerId(i)).name == worker)
        return router.loads().load(WorkerId(i));
    static const routing::WorkerLoad none;
    return none;
  }

  dispatch::Fleet fleet;
  routing::Router router;
  LoadTeller teller;
  PeerTable peers;
};

/// Says what is due at `from`, and has all others hear it at once.
inline void pass_on(TestGateway& from, std::initializer_list<TestGateway*> to, TimePoint now) {
  for (const std::string& message : from.teller.take(now))
    for (TestGateway* const other : to) other->peers.on_message(bytes_of(message), now);
}

}  // namespace kvist::peering
