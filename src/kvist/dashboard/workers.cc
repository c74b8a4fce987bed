#include "kvist/dashboard/workers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kvist/dashboard/json_fields.h"

namespace kvist::dashboard {
namespace {

constexpr std::int64_t kWindow = 30;       // seconds, of hit rate, acceptance and share
constexpr std::int64_t kShortWindow = 10;  // of rates
constexpr std::int64_t kFresh = 5;         // so old a page may be

using Field = std::optional<double> WorkerPage::*;

/// The page with a counter below the one before is another process's.
bool is_restart(const WorkerPage& before, const WorkerPage& after) {
  const auto fell = [&](Field field) { return before.*field && after.*field && *(after.*field) < *(before.*field); };
  return fell(&WorkerPage::generated) || fell(&WorkerPage::prefix_queries);
}

}  // namespace

void Workers::add(const FleetReading& reading, EventLog& log) {
  second_ = reading.second;
  if (reading.status) take_status(*reading.status, reading.second, log);
  for (const auto& [name, page] : reading.pages) {
    const auto found = all_.find(name);
    if (found != all_.end()) take_page(found->second, page, reading);
  }
  for (const std::string& name : order_) {
    Worker& worker = all_.find(name)->second;
    if (reading.counters) take_batches(worker, *reading.counters, reading.second);
    compute(worker, reading.second);
  }
  compute_shares(reading.second);
  for (const std::string& name : order_) {
    Worker& worker = all_.find(name)->second;
    if (worker.history) worker.history->add(reading.second, worker.figures);
  }
}

void Workers::take_status(const GatewayStatus& status, std::int64_t second, EventLog& log) {
  constexpr std::int64_t kMilli = 1'000;
  status_second_ = second;
  order_.clear();
  for (const WorkerStatus& one : status.workers) {
    const auto [at, added] = all_.try_emplace(one.name);
    Worker& worker = at->second;
    if (added) {
      const auto histories =
          std::ranges::count_if(all_, [](const auto& entry) { return entry.second.history != nullptr; });
      if (static_cast<std::size_t>(histories) < kMostHistories)
        worker.history = std::make_unique<TimeSeries>(kWorkerFigures);
    } else {
      if (worker.status.state != one.state) {
        log.add({.t_ms = second * kMilli,
                 .kind = "worker_state",
                 .text = one.name + ": " + worker.status.state + " -> " + one.state,
                 .worker = one.name,
                 .from = worker.status.state,
                 .to = one.state});
      }
      if (worker.status.restarts < one.restarts) {
        log.add({.t_ms = second * kMilli,
                 .kind = "worker_restart",
                 .text = one.name + " was restarted",
                 .worker = one.name});
      }
    }
    worker.status = one;
    order_.push_back(one.name);
  }
  known_ = true;
  // A name that the gateway no longer has is forgotten with its past, so that there is room for others.
  std::erase_if(all_, [&](const auto& entry) { return std::ranges::find(order_, entry.first) == order_.end(); });
}

void Workers::take_page(Worker& worker, const WorkerPage& page, const FleetReading& reading) {
  if (!worker.recent.empty() && is_restart(worker.recent.back().page, page)) worker.recent.clear();
  worker.page = page;
  worker.page_second = reading.second;
  Counters now{.second = reading.second, .page = page};
  if (reading.counters) {
    const auto ended = reading.counters->ended.find(worker.status.name);
    now.ended = ended == reading.counters->ended.end() ? 0 : ended->second;
    // A gateway that was started anew counts from 0.
    const auto fell = [&](const Counters& before) { return before.ended && *before.ended > *now.ended; };
    if (std::ranges::any_of(worker.recent, fell)) {
      for (Counters& before : worker.recent) before.ended.reset();
    }
  }
  worker.recent.push_back(now);
  while (worker.recent.front().second < reading.second - kWindow) worker.recent.pop_front();
}

void Workers::take_batches(Worker& worker, const GatewayCounters& counters, std::int64_t second) {
  const auto found = counters.batches.find(worker.status.name);
  if (found == counters.batches.end()) return;
  // At the first look, those that came before are of an unknown time.
  if (worker.batches && found->second > *worker.batches) worker.event_second = second;
  worker.batches = found->second;
}

void Workers::compute(Worker& worker, std::int64_t second) {
  WorkerFigures& figures = worker.figures;
  const auto set = [&](WorkerFigure which, std::optional<double> value) { figures[index_of(which)] = value; };
  figures = {};
  if (gateway_answers()) {
    set(WorkerFigure::kInFlight, worker.status.in_flight);
    set(WorkerFigure::kPrefillBacklog, worker.status.prefill_tokens);
  }
  if (!answers(worker) || worker.recent.empty()) return;
  const WorkerPage& page = *worker.page;
  set(WorkerFigure::kSlotsUsed, page.running);
  set(WorkerFigure::kQueue, page.waiting);
  // What the worker itself knows of its prompts is better than what the gateway reckons.
  if (page.prefill_backlog_tokens) set(WorkerFigure::kPrefillBacklog, page.prefill_backlog_tokens);
  const auto kv_blocks = page.kv_blocks ? page.kv_blocks : worker.status.kv_blocks;
  if (page.kv_usage && kv_blocks) set(WorkerFigure::kKvBlocksUsed, std::round(*page.kv_usage * *kv_blocks));

  const Counters& last = worker.recent.back();
  const auto begin_of = [&](std::int64_t window) -> const Counters& {
    return *std::ranges::find_if(worker.recent, [&](const Counters& one) { return one.second >= second - window; });
  };
  const auto grown = [&](Field field, const Counters& since) -> std::optional<double> {
    if (!(last.page.*field) || !(since.page.*field)) return std::nullopt;
    return *(last.page.*field) - *(since.page.*field);
  };
  const Counters& since = begin_of(kShortWindow);
  if (const auto seconds = static_cast<double>(last.second - since.second); seconds > 0) {
    if (const auto evictions = grown(&WorkerPage::evictions, since))
      set(WorkerFigure::kEvictions, *evictions / seconds);
    if (const auto tokens = grown(&WorkerPage::generated, since)) set(WorkerFigure::kOutputTokens, *tokens / seconds);
  }
  const auto ratio = [&](Field part, Field whole, const Counters& from, double factor) -> std::optional<double> {
    const auto parts = grown(part, from);
    const auto all = grown(whole, from);
    if (!parts || !all || !(*all > 0)) return std::nullopt;
    return factor * *parts / *all;
  };
  set(WorkerFigure::kStepMs, ratio(&WorkerPage::token_gap_s, &WorkerPage::token_gaps, since, 1e3));
  const Counters& early = begin_of(kWindow);
  set(WorkerFigure::kHitRatePct, ratio(&WorkerPage::prefix_hits, &WorkerPage::prefix_queries, early, 100));
  set(WorkerFigure::kAcceptancePct, ratio(&WorkerPage::accepted, &WorkerPage::drafted, early, 100));
}

std::optional<double> Workers::ended_within(const Worker& worker) const {
  if (!answers(worker)) return std::nullopt;
  const auto first = std::ranges::find_if(worker.recent, [](const Counters& one) { return one.ended.has_value(); });
  if (first == worker.recent.end() || first->second == worker.recent.back().second) return std::nullopt;
  const auto& last = worker.recent.back().ended;
  if (!last) return std::nullopt;
  return *last - *first->ended;
}

void Workers::compute_shares(std::int64_t /*second*/) {
  double sum = 0;
  for (const std::string& name : order_) sum += ended_within(all_.find(name)->second).value_or(0);
  if (!(sum > 0)) return;
  for (const std::string& name : order_) {
    Worker& worker = all_.find(name)->second;
    if (const auto ended = ended_within(worker)) worker.figures[index_of(WorkerFigure::kSharePct)] = 100 * *ended / sum;
  }
}

bool Workers::answers(const Worker& worker) const {
  return worker.page && second_ - worker.page_second <= kFresh;
}

bool Workers::gateway_answers() const {
  return second_ - status_second_ <= kFresh;
}

std::optional<double> Workers::queued() const {
  std::optional<double> sum;
  for (const std::string& name : order_) {
    if (const auto queue = all_.find(name)->second.figures[index_of(WorkerFigure::kQueue)])
      sum = sum.value_or(0) + *queue;
  }
  return sum;
}

std::optional<double> Workers::imbalance() const {
  if (!gateway_answers()) return std::nullopt;
  double sum = 0;
  double most = 0;
  std::size_t count = 0;
  for (const std::string& name : order_) {
    const auto in_flight = all_.find(name)->second.status.in_flight;
    if (!in_flight) continue;
    sum += *in_flight;
    most = std::max(most, *in_flight);
    ++count;
  }
  if (count < 2 || !(sum > 0)) return std::nullopt;
  return most * static_cast<double>(count) / sum;
}

void Workers::write(JsonWriter& json) const {
  if (!known_) {
    json.null();
    return;
  }
  json.begin_array();
  for (const std::string& name : order_) write_worker(json, all_.find(name)->second);
  json.end_array();
}

void Workers::write_worker(JsonWriter& json, const Worker& worker) const {
  const WorkerStatus& status = worker.status;
  const bool fresh = answers(worker);
  const WorkerPage page = fresh ? *worker.page : WorkerPage{};
  json.begin_object()
      .field("name", status.name)
      .field("model", status.model)
      .field("state", gateway_answers() ? std::string_view(status.state) : std::string_view("unknown"));
  json.field("problem", status.problem).field("answers", fresh);
  for (std::size_t i = 0; i < kWorkerFigures; ++i) {
    json.key(kWorkerKeys[i]);
    if (worker.figures[i]) {
      figure_value(json, *worker.figures[i]);
    } else {
      json.null();
    }
  }
  const bool told = !status.slots && page.slots;
  optional_field(json, "slots", status.slots ? status.slots : page.slots);
  text_or_null(json, "slots_source", told ? std::string_view("reported") : std::string_view(status.slots_source));
  optional_field(json, "kv_blocks", page.kv_blocks ? page.kv_blocks : status.kv_blocks);
  optional_field(json, "kv_usage_pct", page.kv_usage ? std::optional(100 * *page.kv_usage) : std::nullopt);
  optional_field(json, "evictions", page.evictions);
  optional_field(json, "preemptions", page.preemptions);
  text_or_null(json, "index_trust", gateway_answers() ? std::string_view(status.trust) : std::string_view());
  optional_field(json, "indexed_blocks", gateway_answers() ? status.indexed_blocks : std::nullopt);
  optional_field(json, "last_event_s",
                 worker.event_second ? std::optional(second_ - *worker.event_second) : std::nullopt);
  json.field("restarts", status.restarts).end_object();
}

std::string Workers::history_json(std::int64_t window_s, std::size_t most) const {
  JsonWriter json;
  // One message has to be well below what a viewer may leave unread.
  constexpr std::size_t kMostValues = 600'000;
  constexpr std::size_t kLeastPoints = 60;
  most =
      std::min(most, std::max(kLeastPoints, kMostValues / (std::max<std::size_t>(order_.size(), 1) * kWorkerFigures)));
  // All have the same instants at their ends; a worker that came later has nothing before.
  std::map<std::string_view, SeriesView> views;
  const SeriesView* longest = nullptr;
  for (const std::string& name : order_) {
    const Worker& worker = all_.find(name)->second;
    if (!worker.history) continue;
    const SeriesView& view = views.emplace(name, worker.history->read(window_s, most)).first->second;
    if (longest == nullptr || view.at_s.size() > longest->at_s.size()) longest = &view;
  }
  json.begin_object().field("of", "workers");
  json.field("step_s", longest != nullptr ? longest->step_s : kResolutions[0].step_s).key("t_ms").begin_array();
  if (longest != nullptr)
    for (const std::int64_t at : longest->at_s) json.value(at * 1'000);
  json.end_array().key("workers").begin_object();
  for (const auto& [name, view] : views) {
    json.key(name).begin_object();
    for (std::size_t i = 0; i < kWorkerFigures; ++i) {
      json.key(kWorkerKeys[i]).begin_array();
      const std::size_t missing = longest->at_s.size() - view.at_s.size();
      for (std::size_t k = 0; k < missing; ++k) json.null();
      for (const float value : view.columns[i]) figure_value(json, static_cast<double>(value));
      json.end_array();
    }
    json.end_object();
  }
  json.end_object().end_object();
  return json.take();
}

std::size_t Workers::history_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [name, worker] : all_) bytes += worker.history ? worker.history->bytes() : 0;
  return bytes;
}

}  // namespace kvist::dashboard
