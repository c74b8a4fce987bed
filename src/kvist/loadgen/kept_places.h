// The pause after a turn that could not even be sent.
#pragma once

#include <deque>
#include <functional>
#include <utility>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/net/event_loop.h"

namespace kvist::loadgen {

/// Where nobody listens every turn fails at once, and a closed loop would do nothing else: the conversation's place
/// stays taken for a moment. Threads: the loop's.
class KeptPlaces {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(100);
  using Release = std::function<void(ConversationId conversation)>;

  /// `release` is called on the loop when a place's pause is over.
  KeptPlaces(net::EventLoop& loop, Release release) : timer_(loop), release_(std::move(release)) {}

  void keep(ConversationId conversation, TimePoint now) {
    places_.push_back({.until = now + kPause, .conversation = conversation});
    arm();
  }
  /// Releases all now, for a load that starts no further turns.
  void release_all() {
    timer_.cancel();
    for (const Place& place : std::exchange(places_, {})) release_(place.conversation);
  }

 private:
  struct Place {
    TimePoint until;
    ConversationId conversation;
  };
  void arm() {
    if (!places_.empty()) timer_.arm(places_.front().until, [this] { release_first(); });
  }
  void release_first() {
    const ConversationId conversation = places_.front().conversation;
    places_.pop_front();
    arm();  // before release(), which may end the load
    release_(conversation);
  }

  net::Timer timer_;
  Release release_;
  std::deque<Place> places_;  // by their instants
};

}  // namespace kvist::loadgen
