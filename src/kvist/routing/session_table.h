// Which worker the requests of a session went to last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/base/flat_map.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/spec/routing_spec.h"

namespace kvist::routing {

/// Sessions by key (session_key()), each with its worker, until no request of it has come for the time to live. Memory:
/// about 60 bytes for each of at most `max_sessions`; beyond that, the one that was idle longest is forgotten. Threads:
/// one.
class SessionTable {
 public:
  explicit SessionTable(const spec::SessionAffinitySpec& spec) : ttl_(spec.ttl), most_(spec.max_sessions) {}

  /// The worker of a session; nothing if it is not known.
  [[nodiscard]] std::optional<WorkerId> find(std::uint64_t session, TimePoint now);
  /// A request of the session goes to this worker.
  void put(std::uint64_t session, WorkerId worker, TimePoint now);
  /// The id belongs to another worker from here on.
  void forget(WorkerId worker);

  [[nodiscard]] std::size_t size() const { return by_key_.size(); }
  /// Sessions that were forgotten for want of room.
  [[nodiscard]] std::uint64_t displaced() const { return displaced_; }

 private:
  using Key = Id<struct SessionKeyTag, std::uint64_t>;
  using Place = std::uint32_t;
  static constexpr Place kNone = ~Place{0};
  // In a list by their last requests; unused places are in a list by `later`.
  struct Session {
    Key key;
    WorkerId worker;
    TimePoint used;
    Place earlier = kNone;
    Place later = kNone;
  };

  void expire(TimePoint now);
  void erase(Place place);
  void unlink(Place place);
  void link_last(Place place);

  Duration ttl_;
  std::size_t most_;
  FlatMap<Key, Place, RandomSpread> by_key_;
  std::vector<Session> sessions_;
  Place first_ = kNone;  // the one that was idle longest
  Place last_ = kNone;
  Place unused_ = kNone;
  std::uint64_t displaced_ = 0;
};

}  // namespace kvist::routing
