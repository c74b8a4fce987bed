// A bound on the retries of all requests together, so that retries do not overload a failing fleet.
#pragma once

#include <cstdint>

#include "kvist/base/time.h"

namespace kvist::dispatch {

/// A token bucket: each request adds a part of a retry, each retry takes a whole one. So even if most requests fail,
/// retries add at most the share `per_request` to the load. Threads: one.
class RetryBudget {
 public:
  struct Options {
    double per_request = 0.2;  ///< added by each new request
    double per_second = 1;     ///< added with time, so that a quiet gateway recovers
    double most = 100;         ///< the upper bound of the balance
    double at_start = 20;
  };

  explicit RetryBudget(Options options) : options_(options), balance_(options.at_start) {}

  void on_request(TimePoint now);
  /// Takes a retry if the balance has one, and returns whether it did.
  [[nodiscard]] bool try_take(TimePoint now);
  [[nodiscard]] double balance() const { return balance_; }

 private:
  void pay_in(double amount, TimePoint now);

  Options options_;
  double balance_;
  TimePoint last_;
  bool started_ = false;
};

}  // namespace kvist::dispatch
