// The protocol by which a copy of a collection stays up to date: list, then watch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/time.h"
#include "kvist/kubernetes/api_error.h"

namespace kvist::kubernetes {

/// Says what to ask the API server next. A collection is listed, page by page, and then watched from the version of
/// that list; a watch that ends is resumed from the last version seen, in an event or a bookmark. Where the server does
/// not know that version any more (410), all is listed again. Calls that fail are repeated after a delay that doubles,
/// varied by up to a half so that the gateways of a cluster do not come back in one moment. It begins anew with a 410.
///
/// Pure: the caller does what poll() says and reports how it went. Threads: one. Invariant: at most one call is under
/// way.
class ListWatch {
 public:
  /// The longest delay is short for a client of the API, because a gateway is to know of its workers soon after an
  /// outage, and gateways are few.
  static constexpr Duration kFirstDelay = std::chrono::milliseconds(200);
  static constexpr Duration kMostDelay = std::chrono::seconds(2);
  /// Bookmarks come about once a minute. A watch that is silent for longer is taken to be broken.
  static constexpr Duration kMostSilence = std::chrono::seconds(150);
  /// A watch's answer begins at once, whether or not there is anything to tell.
  static constexpr Duration kMostOpening = std::chrono::seconds(15);

  /// `seed` decides only how delays are varied.
  explicit ListWatch(std::uint64_t seed) : random_(seed | 1) {}

  struct Action {
    enum class Kind : std::uint8_t { kNone, kList, kWatch };
    Kind kind = Kind::kNone;
    std::string continue_token = {};    ///< of kList: of its next page
    std::string resource_version = {};  ///< of kWatch
  };
  /// What to do now, once. kNone: a call is under way, or it is not time yet.
  [[nodiscard]] Action poll(TimePoint now);
  /// When poll() has something to do; nothing: when a call under way has made progress.
  [[nodiscard]] std::optional<TimePoint> next_wakeup() const;

  /// A page came. Returns whether it was the last one, so that the list is whole.
  bool on_page(std::string_view resource_version, std::string_view continue_token, TimePoint now);
  /// The watch is answered: what the copy has is what the server has.
  void on_watch_open(TimePoint now);
  /// An event or a bookmark of the watch had this version.
  void on_version(std::string_view resource_version, TimePoint now);
  /// The watch has ended in order.
  void on_watch_end(TimePoint now);
  /// The call under way has failed.
  void on_failed(const ApiError& error, TimePoint now);

  /// Whether a call is under way, as far as the protocol is concerned.
  [[nodiscard]] bool has_call() const { return state_ != State::kIdle; }
  /// A whole list was had. From then on there is a state to keep.
  [[nodiscard]] bool synced() const { return synced_; }
  /// Since when changes may have been missed; nothing: the state is the server's, or there is none yet.
  [[nodiscard]] std::optional<TimePoint> stale_since() const { return stale_since_; }
  /// Why the last call failed; empty: it did not.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  struct Counters {
    std::uint64_t lists = 0;    ///< whole lists
    std::uint64_t watches = 0;  ///< watches that the server has answered
    std::uint64_t expired = 0;  ///< versions that were too old (410)
    std::uint64_t failures = 0;
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  enum class State : std::uint8_t { kIdle, kListing, kOpening, kWatching };
  void wait(Duration least, TimePoint now);

  std::uint64_t random_;
  State state_ = State::kIdle;
  std::string version_;         // to watch from; empty: a list is needed
  std::string continue_token_;  // of a list's next page
  TimePoint not_before_ = {};
  TimePoint asked_ = {};      // when the watch that is not answered yet was asked for
  TimePoint last_news_ = {};  // of the open watch
  TimePoint opened_ = {};
  Duration delay_ = {};
  bool expired_ = false;  // the version was too old, and the watch has told nothing since
  bool synced_ = false;
  std::optional<TimePoint> stale_since_;
  std::string problem_;
  Counters counters_;
};

}  // namespace kvist::kubernetes
