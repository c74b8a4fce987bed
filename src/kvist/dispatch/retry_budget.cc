#include "kvist/dispatch/retry_budget.h"

#include <algorithm>

namespace kvist::dispatch {

void RetryBudget::pay_in(double amount, TimePoint now) {
  if (started_ && now > last_) amount += options_.per_second * to_seconds(now - last_);
  started_ = true;
  last_ = now;
  balance_ = std::min(balance_ + amount, options_.most);
}

void RetryBudget::on_request(TimePoint now) {
  pay_in(options_.per_request, now);
}

bool RetryBudget::has_one(TimePoint now) {
  pay_in(0, now);
  return balance_ >= 1;
}

bool RetryBudget::try_take(TimePoint now) {
  if (!has_one(now)) return false;
  balance_ -= 1;
  return true;
}

}  // namespace kvist::dispatch
