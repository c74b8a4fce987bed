// What this gateway believes of the others' requests.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/dispatch/fleet.h"
#include "kvist/peering/message.h"
#include "kvist/routing/router.h"

namespace kvist::peering {

/// What became of messages, and of requests in them. Cumulative.
struct PeerCounters {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t lost = 0;        ///< messages that never came, by the gaps in their numbers
  std::uint64_t late = 0;        ///< came behind a later one, or twice, or from an earlier process: not used
  std::uint64_t unreadable = 0;  ///< not used
  std::uint64_t namesakes = 0;   ///< of another gateway that has this one's name: not used
  std::uint64_t crowd = 0;       ///< of gateways beyond kMostPeers: not used
  std::uint64_t repaired = 0;    ///< requests that a state added, ended or moved on because a message was lost
  std::uint64_t requests = 0;    ///< that went to workers, as heard of at once
  std::uint64_t refused = 0;     ///< requests because of their wait, since their gateways were heard first
  std::uint64_t overflow = 0;    ///< requests that had no room (kMostRequests)
};

/// The other gateways, each with its requests, which are booked with the router like one's own as long as the gateway
/// is heard of. A message that comes late changes nothing; the next state makes up for it, as for a lost one. Memory:
/// kMostPeers times kMostRequests entries at most, and kMostBlocks block hashes. Threads: the router's.
class PeerTable {
 public:
  static constexpr std::size_t kMostPeers = 64;
  static constexpr std::size_t kMostRequests = 16'384;  ///< per gateway
  static constexpr std::size_t kMostBlocks = std::size_t{4}
                                             << 20;  ///< of one gateway's prompts; beyond it they only count

  /// `name`: this gateway's. A gateway that is silent for longer than `patience` is gone. Requires: `router` and
  /// `fleet` outlive this object.
  PeerTable(std::string name, Duration patience, routing::Router& router, const dispatch::Fleet& fleet)
      : name_(std::move(name)), patience_(patience), router_(&router), fleet_(&fleet) {}
  ~PeerTable() { clear(TimePoint{}); }
  PeerTable(const PeerTable&) = delete;
  PeerTable& operator=(const PeerTable&) = delete;

  /// A message came. Returns whether it is the first of a gateway, which has not heard of this one's requests yet.
  bool on_message(std::span<const std::uint8_t> bytes, TimePoint now);
  /// Gives up gateways that were silent for too long. To be called every now and then.
  void expire(TimePoint now);
  /// Gives up all.
  void clear(TimePoint now);

  struct Peer {
    std::string name;
    std::uint64_t run = 0;
    std::size_t requests = 0;  ///< at workers that this gateway knows
    std::size_t elsewhere = 0;
    std::size_t blocks = 0;  ///< block hashes kept of its prompts
    TimePoint heard;         ///< when the last message came
  };
  [[nodiscard]] std::vector<Peer> peers() const;
  /// How old news is when it comes.
  void set_delay(Duration delay) { delay_ = delay; }
  /// Of each other gateway, what came last.
  [[nodiscard]] std::vector<Heard> heard(TimePoint now) const;
  /// Has `handler` called when another gateway says what it heard last from this one.
  void on_heard(std::function<void(const Heard&, TimePoint)> handler) { on_heard_ = std::move(handler); }
  [[nodiscard]] std::size_t size() const { return peers_.size(); }
  /// The other gateways' requests at a worker.
  [[nodiscard]] std::size_t requests_at(WorkerId worker) const;
  [[nodiscard]] const PeerCounters& counters() const { return counters_; }

 private:
  struct Request {
    Routed told = {};                    // without blocks
    routing::RequestHandle handle = {};  // stale: it is not booked, or not any more
    std::size_t blocks = 0;              // hashes that are kept of its prompt
  };
  using Requests = std::map<AttemptId, Request>;
  struct Told {
    std::uint64_t run = 0;
    std::uint64_t sequence = 0;
    TimePoint heard = {};
    Requests requests = {};
    std::size_t blocks = 0;
    std::optional<std::uint32_t> refused = {};  // as it said last
  };
  [[nodiscard]] Told* sender(const Message& message, bool& is_new, TimePoint now);
  void apply(Told& peer, const Event& event, TimePoint now);
  void apply(Told& peer, const State& state, TimePoint now);
  void put(Told& peer, const Routed& routed, TimePoint now);
  void book(Told& peer, Request& request, const routing::BlockKeys& blocks, TimePoint now);
  void move_on(Request& request, bool decoding, std::uint64_t output_tokens, TimePoint now);
  Requests::iterator end(Told& peer, Requests::iterator request, bool completed, TimePoint now);
  void give_up(Told& peer, TimePoint now);
  [[nodiscard]] std::optional<WorkerId> find_worker(WorkerKey key, TimePoint now);
  [[nodiscard]] bool is_at(WorkerKey key, WorkerId worker) const;

  std::string name_;
  std::function<void(const Heard&, TimePoint)> on_heard_;  // may be empty
  Duration patience_;
  Duration delay_{};
  routing::Router* router_;
  const dispatch::Fleet* fleet_;
  std::map<std::string, Told> peers_;      // by name
  std::map<WorkerKey, WorkerId> workers_;  // of the fleet, as it was at the time of the next
  std::optional<TimePoint> workers_as_of_;
  PeerCounters counters_;
};

}  // namespace kvist::peering
