// A bound on retries across all requests, so that a dying fleet is not given more work than a healthy one.
#pragma once

#include <cstdint>

#include "kvist/base/time.h"

namespace kvist::dispatch {

/// A balance: each request pays in a part of a retry, each retry takes one out. When most requests fail, retries add at
/// most `per_request` to the load. One thread.
class RetryBudget {
 public:
  struct Options {
    double per_request = 0.2;  ///< paid in by each new request
    double per_second = 1;     ///< paid in by time, so that a quiet gateway recovers
    double most = 100;         ///< the balance never exceeds this
    double at_start = 20;
  };

  explicit RetryBudget(Options options) : options_(options), balance_(options.at_start) {}

  void on_request(TimePoint now);
  /// Takes one retry out if the balance has one.
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
