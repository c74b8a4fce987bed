// The other gateways' latest requests, of which no news can have come yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "kvist/base/time.h"
#include "kvist/dispatch/fleet.h"
#include "kvist/routing/router.h"

namespace kvist::peering {

/// Expects of the other gateways what this one did itself. They follow the same rules and saw the same workers, so as
/// long as they cannot hear of each other, all of them would choose the same idle worker. News is `delay` old when it
/// comes, so of `others` requests a second that they route, others x delay are unheard of at any time. Where these
/// went is estimated from this gateway's own requests of that time, own x delay of them, with one more that says
/// nothing (Laplace's rule of succession): each own request stands for
///   others x delay / (own x delay + 1)
/// unheard ones at its worker, which are like it. They are booked with the router beside it, and leave it after
/// `delay`, when word of the real ones has come. They are load and nothing else: what is summed up over requests is so
/// for the real ones. Both rates are means over about a second. With a delay that is short beside the time between
/// requests this comes to nothing. Memory: kMost entries. Threads: the router's.
class UnheardRequests {
 public:
  static constexpr std::size_t kMost = 4'096;
  static constexpr double kMostPerRequest = 64;  ///< unheard ones for which one request stands

  /// Requires: `router` and `fleet` outlive this object.
  UnheardRequests(routing::Router& router, const dispatch::Fleet& fleet) : router_(&router), fleet_(&fleet) {}
  ~UnheardRequests() { forget_until(TimePoint::max()); }
  UnheardRequests(const UnheardRequests&) = delete;
  UnheardRequests& operator=(const UnheardRequests&) = delete;

  /// How old news of the others is when it comes.
  void set_delay(Duration delay) { delay_ = delay; }
  [[nodiscard]] Duration delay() const { return delay_; }

  /// `heard`: of how many requests of the others this gateway heard, ever. To be called with each message.
  void on_heard(std::uint64_t heard, TimePoint now);
  /// This gateway gave a request to a worker.
  void on_own(const routing::RoutedRequest& request, std::uint32_t known_tokens, std::uint64_t heard, TimePoint now);
  /// Takes those from the router of which word has come by now. To be called at due().
  void expire(TimePoint now) { forget_until(now); }
  [[nodiscard]] std::optional<TimePoint> due() const {
    return booked_.empty() ? std::nullopt : std::optional(booked_.front().until);
  }
  [[nodiscard]] std::size_t size() const { return booked_.size(); }

 private:
  struct Booked {
    routing::RequestHandle handle;
    TimePoint until;
  };
  void forget_until(TimePoint now);

  routing::Router* router_;
  const dispatch::Fleet* fleet_;
  Duration delay_{};
  // Requests per second.
  double own_ = 0;
  double others_ = 0;
  TimePoint rates_of_{};
  std::uint64_t heard_ = 0;
  double owed_ = 0;  // the part of a request that was not booked yet
  std::deque<Booked> booked_;
};

}  // namespace kvist::peering
