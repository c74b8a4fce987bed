// How many retries a fleet may be asked for.
#pragma once

#include "kvist/base/time.h"
#include "kvist/spec/resilience_spec.h"

namespace kvist::dispatch {

/// A bound on the retries of all requests together, so that retries do not overload a failing fleet. A token bucket:
/// each request adds a part of a retry, each retry takes a whole one. So even if most requests fail, retries add at
/// most the share `per_request` to the load. Threads: one.
class RetryBudget {
 public:
  using Options = spec::RetryBudgetSpec;

  explicit RetryBudget(const Options& options) : options_(options), balance_(options.at_start) {}

  void on_request(TimePoint now);
  /// Takes a retry if the balance has one, and returns whether it did.
  [[nodiscard]] bool try_take(TimePoint now);
  /// Whether try_take() would succeed. Unlike balance(), it counts the time since the last request.
  [[nodiscard]] bool has_one(TimePoint now);
  [[nodiscard]] double balance() const { return balance_; }

 private:
  void pay_in(double amount, TimePoint now);

  Options options_;
  double balance_;
  TimePoint last_;
  bool started_ = false;
};

}  // namespace kvist::dispatch
