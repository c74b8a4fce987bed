// What happened, with its time: changes of the load and the routing mode, workers that fail and come back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/json_writer.h"

namespace kvist::dashboard {

struct Event {
  std::uint64_t seq = 0;  ///< counts up from 1
  std::int64_t t_ms = 0;  ///< Unix time
  std::string_view kind;  ///< docs/formats/dashboard.md
  std::string text;
  std::string worker = {};  ///< empty: none
  std::string from = {};    ///< what changed; both empty: nothing
  std::string to = {};
};

/// The last events. Threads: one.
class EventLog {
 public:
  static constexpr std::size_t kKept = 512;

  /// Sets the number of the event.
  void add(Event event);
  /// Whether there are events after that one.
  [[nodiscard]] bool has_after(std::uint64_t seq) const { return !events_.empty() && events_.back().seq > seq; }
  [[nodiscard]] std::uint64_t last() const { return next_ - 1; }
  /// {"type":"events",...} with those after `seq`.
  [[nodiscard]] std::string json_after(std::uint64_t seq) const;

 private:
  std::deque<Event> events_;
  std::uint64_t next_ = 1;
};

}  // namespace kvist::dashboard
