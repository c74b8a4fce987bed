#include "kvist/dispatch/outlier_watch.h"

#include <algorithm>
#include <cmath>

namespace kvist::dispatch {

std::string_view to_string(Ejection ejection) {
  switch (ejection) {
    case Ejection::kIn:
      return "in";
    case Ejection::kOut:
      return "ejected";
    case Ejection::kTrial:
      return "trial";
    case Ejection::kProbing:
      return "probing";
  }
  return "in";
}

std::string_view to_string(EjectionRule rule) {
  switch (rule) {
    case EjectionRule::kInARow:
      return "failures_in_a_row";
    case EjectionRule::kShare:
      return "failure_share";
    case EjectionRule::kTrialFailed:
      return "trial_failed";
  }
  return "failures_in_a_row";
}

OutlierWatch::OutlierWatch(const spec::EjectionSpec& options, std::size_t workers)
    : options_(options), workers_(workers), windows_(workers) {}

bool OutlierWatch::on_good(WorkerId id, bool complete, TimePoint now) {
  Worker& worker = workers_.at(id.value());
  if (complete) count(id, false, now);
  if (!complete && worker.broke_off) return false;
  worker.broke_off = false;
  worker.failures_in_a_row = 0;
  if (worker.state != Ejection::kTrial && worker.state != Ejection::kProbing) return false;
  enter(worker, Ejection::kIn, now);
  return true;
}

bool OutlierWatch::on_failure(WorkerId id, AttemptFailure failure, std::string_view problem, TimePoint began,
                              const Usable& usable, TimePoint now, bool broke_off) {
  Worker& worker = workers_.at(id.value());
  count(id, true, now);
  ++worker.failures_in_a_row;
  worker.broke_off = broke_off;
  if (worker.state == Ejection::kOut) return false;
  if (worker.state != Ejection::kIn) {
    // An attempt that began before the request that tries the worker out says nothing new.
    if (began < worker.since) return false;
    eject(id, EjectionRule::kTrialFailed, failure, problem, now);
    return true;
  }
  const Half answers = within_window(windows_[id.value()], now);
  const double share = static_cast<double>(answers.failures) / static_cast<double>(answers.answers);
  const double others = share_of_others(id, now);
  const bool in_a_row = options_.failures_in_a_row > 0 && worker.failures_in_a_row >= options_.failures_in_a_row &&
                        kTimesOthers * others <= 1;
  const bool by_share = options_.failure_share < 1 && answers.answers >= options_.least_answers &&
                        share >= std::max(options_.failure_share, kTimesOthers * others);
  if (!in_a_row && !by_share) return false;
  const double most = std::floor(options_.most_of_fleet * static_cast<double>(usable.workers));
  if (static_cast<double>(usable.ejected + 1) > most) {
    ++worker.over_cap;
    return false;
  }
  eject(id, in_a_row ? EjectionRule::kInARow : EjectionRule::kShare, failure, problem, now);
  return true;
}

bool OutlierWatch::on_given(WorkerId id, TimePoint now) {
  Worker& worker = workers_.at(id.value());
  if (worker.state != Ejection::kTrial) return false;
  enter(worker, Ejection::kProbing, now);
  return true;
}

bool OutlierWatch::on_trial_void(WorkerId id, TimePoint now) {
  Worker& worker = workers_.at(id.value());
  if (worker.state != Ejection::kProbing) return false;
  enter(worker, Ejection::kTrial, now);
  return true;
}

bool OutlierWatch::on_restarted(WorkerId id, TimePoint now) {
  Worker& worker = workers_.at(id.value());
  worker.failures_in_a_row = 0;
  worker.broke_off = false;
  worker.time = Duration(0);
  windows_[id.value()] = {};
  if (worker.state != Ejection::kOut) return false;
  enter(worker, Ejection::kTrial, now);
  update_next();
  return true;
}

void OutlierWatch::forget(WorkerId id) {
  workers_.at(id.value()) = {};
  windows_[id.value()] = {};
  update_next();
}

std::vector<WorkerId> OutlierWatch::poll(TimePoint now) {
  std::vector<WorkerId> over;
  if (!is_due(now)) return over;
  for (std::uint32_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (worker.state != Ejection::kOut || worker.until > now) continue;
    enter(worker, Ejection::kTrial, now);
    over.emplace_back(i);
  }
  update_next();
  return over;
}

double OutlierWatch::failure_share(WorkerId id, TimePoint now) const {
  const Half answers = within_window(windows_.at(id.value()), now);
  return answers.answers == 0 ? 0 : static_cast<double>(answers.failures) / static_cast<double>(answers.answers);
}

void OutlierWatch::enter(Worker& worker, Ejection state, TimePoint now) {
  worker.state = state;
  worker.since = now;
}

// Twice as long as the last time if the worker had not been back for long. A worker on trial had not been back.
void OutlierWatch::eject(WorkerId id, EjectionRule rule, AttemptFailure failure, std::string_view problem,
                         TimePoint now) {
  Worker& worker = workers_[id.value()];
  const bool was_well =
      worker.time == Duration(0) || (worker.state == Ejection::kIn && now - worker.since >= kTimesWell * worker.time);
  worker.time = was_well ? options_.time : std::min(2 * worker.time, options_.longest_time);
  worker.rule = rule;
  worker.failure = failure;
  worker.problem = problem;
  ++worker.ejections[static_cast<std::size_t>(rule)];
  enter(worker, Ejection::kOut, now);
  worker.until = now + worker.time;
  update_next();
}

void OutlierWatch::update_next() {
  next_ = TimePoint::max();
  for (const Worker& worker : workers_)
    if (worker.state == Ejection::kOut) next_ = std::min(next_, worker.until);
}

std::int64_t OutlierWatch::half_of(TimePoint now) const {
  return now.time_since_epoch() / std::max(options_.window / 2, Duration(1));
}

void OutlierWatch::count(WorkerId id, bool failure, TimePoint now) {
  const std::int64_t number = half_of(now);
  Half& half = windows_[id.value()][static_cast<std::size_t>(number & 1)];
  if (half.number != number) half = {.number = number};
  ++half.answers;
  if (failure) ++half.failures;
}

OutlierWatch::Half OutlierWatch::within_window(const Window& window, TimePoint now) const {
  Half sum;
  const std::int64_t number = half_of(now);
  for (const Half& half : window) {
    if (half.number < number - 1 || half.number < 0) continue;
    sum.answers += half.answers;
    sum.failures += half.failures;
  }
  return sum;
}

// Ejected workers do not count as others.
double OutlierWatch::share_of_others(WorkerId id, TimePoint now) const {
  Half sum;
  for (std::uint32_t i = 0; i < workers_.size(); ++i) {
    if (WorkerId(i) == id || workers_[i].state != Ejection::kIn) continue;
    const Half answers = within_window(windows_[i], now);
    sum.answers += answers.answers;
    sum.failures += answers.failures;
  }
  return sum.answers == 0 ? 0 : static_cast<double>(sum.failures) / static_cast<double>(sum.answers);
}

}  // namespace kvist::dispatch
