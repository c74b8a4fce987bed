// Replaying recorded requests in place of drawn conversations.
#pragma once

#include <cstdint>
#include <string>

namespace kvist::spec {

/// When the requests of a trace go out.
enum class TraceLoop {
  kOpen,    ///< at their recorded instants, whatever is in flight
  kClosed,  ///< in their order, with as many at once as the level's number
};

/// Requests that waited for the answer to another.
enum class TraceSessions {
  kFollow,  ///< wait for it again, and pause as long
  kIgnore,  ///< are requests like any other
};

/// What a row of a session that follows another says of its prompt.
enum class TraceRows {
  kWhole,  ///< all of it: what was said before, and what is new
  kAdded,  ///< what is new, as in AIPerf's sessions
};

/// A trace as load: JSONL of requests, or a run recorded by kvist.
struct TraceSpec {
  std::string file;      ///< *.jsonl, *.jsonl.gz: a trace or a record of traffic; *.sqlite: a results database. Empty:
                         ///< no trace, conversations are drawn
  std::int64_t run = 0;  ///< of a results database: the run's number; 0: the last
  std::int64_t level = 0;  ///< of a results database: position of the level in the run
  TraceLoop loop = TraceLoop::kOpen;
  TraceSessions sessions = TraceSessions::kFollow;
  TraceRows rows = TraceRows::kWhole;
  double speed = 1;                   ///< open loop: instants are divided by this
  std::uint32_t tokens_per_hash = 0;  ///< prompt tokens that one hash id stands for; 0: as the file says, else 512

  bool operator==(const TraceSpec&) const = default;
  /// Whether the file has the requests themselves, and is no results database.
  [[nodiscard]] bool has_requests() const { return file.ends_with(".jsonl") || file.ends_with(".jsonl.gz"); }
};

}  // namespace kvist::spec
