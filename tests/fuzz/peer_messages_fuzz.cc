// fuzz: peering
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kvist/base/check.h"
#include "kvist/dispatch/fleet.h"
#include "kvist/peering/message_codec.h"
#include "kvist/peering/peer_table.h"
#include "kvist/routing/router.h"

namespace {

using namespace kvist;  // NOLINT(google-build-using-namespace): one small program

}  // namespace

/// The bytes as one message. What can be read is written the same way again, and what it says leaves nothing behind
/// once its gateway is gone.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> bytes(data, size);
  dispatch::Fleet fleet({"w0", "w1"}, {});
  routing::Router router({.model = "m", .block_size = 16, .workers = 2, .mode = spec::RoutingMode::kKv});
  peering::PeerTable peers("me", std::chrono::seconds(3), router, fleet);
  const TimePoint now{std::chrono::seconds(1)};
  peers.on_message(bytes, now);
  peers.on_message(bytes, now);
  peers.clear(now);
  KVIST_CHECK(router.loads().requests() == 0, "nothing is left of a gateway that is gone");
  for (std::uint32_t i = 0; i < 2; ++i)
    KVIST_CHECK(router.loads().load(WorkerId(i)) == routing::WorkerLoad{}, "nor of its load");
  const auto message = peering::decode(bytes);
  if (!message) return 0;
  const std::string again = peering::encode(*message);
  const auto read = peering::decode({reinterpret_cast<const std::uint8_t*>(again.data()), again.size()});
  KVIST_CHECK(read && peering::encode(*read) == again, "what was read is written the same way");
  return 0;
}
