// What gateways tell each other, as values. docs/formats/peers.md has the form on the wire.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/random.h"
#include "kvist/base/time.h"
#include "kvist/routing/prefix_use.h"

namespace kvist::peering {

/// A worker as all gateways call it: a hash of its name, because places differ between gateways.
using WorkerKey = Id<struct WorkerKeyTag, std::uint64_t>;
[[nodiscard]] inline WorkerKey worker_key(std::string_view name) {
  return WorkerKey(mix_seed({seed_part("worker"), seed_part(name)}));
}

/// A gateway, where its name would be too long.
using GatewayKey = Id<struct GatewayKeyTag, std::uint64_t>;
[[nodiscard]] inline GatewayKey gateway_key(std::string_view name) {
  return GatewayKey(mix_seed({seed_part("gateway"), seed_part(name)}));
}

/// A request at a worker, as its gateway numbers it: counted up from 1 over all attempts of all requests.
using AttemptId = Id<struct AttemptTag, std::uint64_t>;

/// A request that went to a worker: what routing::PeerRequest has.
struct Routed {
  AttemptId attempt = {};
  WorkerKey worker = {};
  std::uint32_t prompt_tokens = 0;
  std::uint32_t uncached_tokens = 0;
  std::uint32_t known_tokens = 0;
  std::uint32_t own_blocks = 0;
  std::uint32_t new_blocks = 0;
  bool streams = false;
  bool decoding = false;            ///< its first token has come
  std::uint32_t choices = 1;        ///< answers that are generated for its prompt
  std::uint64_t output_tokens = 0;  ///< of all its choices, so far
  std::uint64_t session = 0;
  routing::BlockKeys blocks = {};  ///< null in a state, and where there are too many
};

struct FirstToken {
  AttemptId attempt = {};
};

/// Counted from the beginning of the answer, so that the next one makes up for a lost one.
struct Progress {
  AttemptId attempt = {};
  std::uint64_t output_tokens = 0;
};

struct Ended {
  AttemptId attempt = {};
  std::uint64_t output_tokens = 0;
  bool completed = false;  ///< its answer reached its end
};

/// All requests at workers whose numbers are above `after`, up to `until`: what is not among them has ended. A
/// gateway's state is one or more of these without gaps, the first with `after` 0.
struct State {
  AttemptId after = {};
  AttemptId until = {};
  std::vector<Routed> requests = {};  ///< in ascending order
};

/// The gateway ends: all of its requests have.
struct Goodbye {};

/// The last message that came from another gateway, so that it can measure how long messages are on their way.
struct Heard {
  GatewayKey gateway = {};
  std::uint64_t run = 0;
  std::uint64_t sequence = 0;
  Duration held = {};  ///< since it came, to the microsecond
};

/// How many requests the gateway has refused in all because they would have waited too long, modulo 2^32.
struct Refused {
  std::uint32_t requests = 0;
};

using Event = std::variant<Routed, FirstToken, Progress, Ended, State, Goodbye, Heard, Refused>;

/// Events in their order. A gateway's messages are numbered without gaps from 1.
struct Message {
  std::string gateway;         ///< its name, which no other has
  std::uint64_t run = 0;       ///< of the gateway's process: a later one has a higher number
  std::uint64_t sequence = 0;  ///< of this message
  std::vector<Event> events = {};
};

/// What a message may have at most; one that has more is no message.
inline constexpr std::size_t kMaxMessageBytes = 1'000'000;  // NATS's default is 1 MiB
inline constexpr std::size_t kMaxNameBytes = 256;
inline constexpr std::size_t kMaxEvents = 16'384;
inline constexpr std::size_t kMaxStateRequests = 8'192;
inline constexpr std::size_t kMaxPromptBlocks = 32'768;
inline constexpr std::uint32_t kMaxChoices = 1'024;  // of one request

}  // namespace kvist::peering
