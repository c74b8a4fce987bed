#include "kvist/dashboard/board.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/base/version.h"
#include "kvist/dashboard/command.h"
#include "kvist/dashboard/json_fields.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::dashboard {
namespace {

constexpr std::size_t kConcurrencyColumn = kLiveFigures;
constexpr std::size_t kRunningColumn = kLiveFigures + 1;
constexpr std::size_t kColumns = kLiveFigures + 2;

void write_abilities(JsonWriter& json, const Abilities& abilities) {
  json.key("controls");
  if (!abilities.any()) {
    json.null();
    return;
  }
  json.begin_object().field("start", abilities.start_and_stop).field("stop", abilities.start_and_stop);
  json.key("concurrency");
  if (abilities.concurrency) {
    json.begin_object().field("min", 1).field("max", kMostConcurrency).field("live", true).end_object();
  } else {
    json.null();
  }
  json.key("rate_per_s");
  if (abilities.rate) {
    json.begin_object().field("min", 0).field("max", kMostRate).field("live", true).end_object();
  } else {
    json.null();
  }
  json.key("modes");
  if (abilities.modes) {
    json.begin_array();
    for (const spec::RoutingMode mode : spec::kRoutingModes)
      if (!spec::is_simulated_only(mode)) json.value(spec::to_string(mode));
    json.end_array();
  } else {
    json.null();
  }
  json.field("token_required", abilities.token_required).end_object();
}

std::string rate_text(const std::optional<double>& rate) {
  return rate ? fmt::format("{:g}", *rate) : "no limit";
}

}  // namespace

Board::Board(Facts facts, std::string server_id, std::optional<Baseline> baseline, TimePoint now, double unix_s)
    : facts_(std::move(facts)),
      server_id_(std::move(server_id)),
      baseline_(std::move(baseline)),
      origin_(now),
      origin_unix_ms_(static_cast<std::int64_t>(unix_s * 1e3)),
      live_(kColumns) {}

std::int64_t Board::unix_ms(TimePoint at) const {
  return origin_unix_ms_ + std::chrono::duration_cast<std::chrono::milliseconds>(at - origin_).count();
}

void Board::on_stop(TimePoint now) {
  if (stop_noted_ || !load_ || load_->is_idle()) return;
  stop_noted_ = true;
  events_.add({.t_ms = unix_ms(now), .kind = "stop", .text = "stopped: no further turns"});
}

void Board::on_load(const LoadState& state, const workload::LoadBatch& batch, TimePoint now) {
  const bool begins = state.started && (!load_ || load_->started != state.started);
  if (begins) {
    window_.begin_run();
    conversations_.begin_run();
  }
  note_changes(state, now);
  load_ = state;
  window_.add(batch, now);
  conversations_.add(batch);
}

void Board::note_changes(const LoadState& state, TimePoint now) {
  const LoadState before = load_.value_or(LoadState{});
  const auto count = [](const LoadState& load) {
    return load.concurrency ? std::to_string(*load.concurrency) : std::string();
  };
  const bool began = state.started && before.started != state.started;
  if (began) {
    stop_noted_ = false;
    const std::string what = state.open          ? fmt::format("{} starts/s", rate_text(state.rate_per_s))
                             : state.concurrency ? fmt::format("{} conversations", *state.concurrency)
                                                 : "a trace";
    events_.add({.t_ms = unix_ms(*state.started), .kind = "start", .text = "started: " + what, .to = count(state)});
    return;
  }
  if (before.state == "running" && state.state == "draining") {
    on_stop(now);
  } else if (before.state != "idle" && state.is_idle()) {
    events_.add({.t_ms = unix_ms(now), .kind = "end", .text = "nothing is in flight any more"});
  }
  if (before.is_idle() || state.is_idle()) return;
  if (before.concurrency != state.concurrency) {
    events_.add({.t_ms = unix_ms(now),
                 .kind = "concurrency",
                 .text = fmt::format("conversations at once {} -> {}", count(before), count(state)),
                 .from = count(before),
                 .to = count(state)});
  }
  if (before.rate_per_s != state.rate_per_s) {
    const std::string from = rate_text(before.rate_per_s);
    const std::string to = rate_text(state.rate_per_s);
    events_.add({.t_ms = unix_ms(now),
                 .kind = "rate",
                 .text = fmt::format("starts/s {} -> {}", from, to),
                 .from = from,
                 .to = to});
  }
}

void Board::note_mode(const std::string& mode, TimePoint now) {
  if (!mode_.empty() && mode_ != mode) {
    events_.add({.t_ms = unix_ms(now),
                 .kind = "mode",
                 .text = fmt::format("routing mode {} -> {}", mode_, mode),
                 .from = mode_,
                 .to = mode});
  }
  mode_ = mode;
}

void Board::on_fleet(FleetReading reading, GatewayLink link, TimePoint now) {
  reading.second = unix_ms(now) / 1'000;
  if (gateway_ && gateway_->reached != link.reached) {
    events_.add({.t_ms = unix_ms(now),
                 .kind = link.reached ? "gateway_back" : "gateway_lost",
                 .text = link.reached ? std::string("the gateway answers again")
                                      : "the gateway does not answer: " + link.problem});
  }
  gateway_ = std::move(link);
  if (reading.status) note_mode(reading.status->mode, now);
  workers_.add(reading, events_);
}

void Board::on_sweep(SweepProgress progress) {
  sweep_ = std::move(progress);
  ++sweep_version_;
}

std::optional<std::uint32_t> Board::concurrency() const {
  if (!load_ || load_->is_idle() || load_->open) return std::nullopt;
  return load_->concurrency;
}

LiveFigures Board::figures_now(TimePoint now) const {
  LiveFigures figures;
  if (load_ && !load_->is_idle()) {
    figures = window_.figures(now, load_->in_flight, now - load_->started.value_or(now));
  }
  figures[index_of(Live::kQueued)] = workers_.queued();
  figures[index_of(Live::kImbalance)] = workers_.imbalance();
  return figures;
}

void Board::write_load(JsonWriter& json) const {
  json.key("load");
  if (!load_) {
    json.null();
    return;
  }
  const LoadState& load = *load_;
  const bool idle = load.is_idle();
  json.begin_object().field("state", load.state);
  optional_field(json, "concurrency", concurrency());
  optional_field(json, "rate_per_s", idle ? std::nullopt : load.rate_per_s);
  json.field("open", load.open);
  optional_field(json, "seed", idle ? std::nullopt : std::optional(load.seed));
  optional_field(json, "started_ms", load.started && !idle ? std::optional(unix_ms(*load.started)) : std::nullopt);
  json.field("turns_succeeded", load.totals.turns_succeeded).field("turns_failed", load.totals.turns_failed);
  json.field("turns_abandoned", load.totals.turns_abandoned)
      .field("conversations_started", load.totals.conversations_started);
  json.field("output_tokens", load.totals.output_tokens).key("next");
  if (facts_.abilities.start_and_stop) {
    json.begin_object().field("concurrency", next_.first);
    optional_field(json, "rate_per_s", next_.second);
    json.end_object();
  } else {
    json.null();
  }
  json.end_object();
}

void Board::write_figures(JsonWriter& json, const LiveFigures& figures) const {
  json.key("live").begin_object();
  for (std::size_t i = 0; i < kLiveFigures; ++i) {
    json.key(kLiveKeys[i]);
    if (figures[i]) {
      figure_value(json, *figures[i]);
    } else {
      json.null();
    }
  }
  json.end_object();
}

void Board::write_progress(JsonWriter& json, TimePoint now) const {
  optional_field(json, "position", sweep_->position());
  text_or_null(json, "phase", sweep_->phase(now));
  json.field("progress", sweep_->progress(now));
  const auto end = sweep_->estimated_end(now);
  optional_field(json, "estimated_end_ms", end ? std::optional(unix_ms(*end)) : std::nullopt);
}

void Board::tick(TimePoint now) {
  const LiveFigures figures = figures_now(now);
  const std::int64_t second = unix_ms(now) / 1'000;
  std::array<std::optional<double>, kColumns> row;
  std::ranges::copy(figures, row.begin());
  if (const auto users = concurrency()) row[kConcurrencyColumn] = *users;
  if (load_) row[kRunningColumn] = load_->is_idle() ? 0 : 1;
  live_.add(second, row);

  JsonWriter json;
  json.begin_object().field("type", "sample").field("seq", ++seq_).field("t_ms", second * 1'000);
  write_load(json);
  text_or_null(json, "mode", mode_);
  json.key("gateway");
  if (gateway_) {
    json.begin_object()
        .field("url", gateway_->url)
        .field("reached", gateway_->reached)
        .field("problem", gateway_->problem)
        .end_object();
  } else {
    json.null();
  }
  write_figures(json, figures);
  json.key("baseline");
  if (const auto users = concurrency(); users && baseline_) {
    write_baseline_at(json, *baseline_, *users);
  } else {
    json.null();
  }
  json.key("workers");
  workers_.write(json);
  json.key("sweep");
  if (sweep_) {
    json.begin_object().field("state", word(sweep_->state));
    write_progress(json, now);
    json.end_object();
  } else {
    json.null();
  }
  json.key("client");
  if (load_ && !load_->is_idle() && load_->loop_delay_p99_ms) {
    json.begin_object();
    optional_field(json, "loop_delay_p99_ms", load_->loop_delay_p99_ms);
    optional_field(json, "loop_delay_max_ms", load_->loop_delay_max_ms);
    json.end_object();
  } else {
    json.null();
  }
  json.end_object();
  sample_ = json.take();
}

std::string Board::hello_json(TimePoint now) const {
  JsonWriter json;
  json.begin_object()
      .field("type", "hello")
      .field("protocol", 1)
      .field("version", kVersion)
      .field("server_id", server_id_);
  json.field("source", facts_.source).field("title", facts_.title);
  text_or_null(json, "target", facts_.target);
  text_or_null(json, "model", facts_.model);
  json.field("now_ms", unix_ms(now)).field("window_s", to_seconds(kLiveWindow));
  optional_field(json, "time_scale", facts_.time_scale);
  const bool live = facts_.source != "stored";
  json.key("has")
      .begin_object()
      .field("live", live)
      .field("workers", live && (facts_.abilities.modes || gateway_.has_value()));
  json.field("conversations", live && !facts_.target.empty());
  json.field("decisions", live && (facts_.abilities.modes || gateway_.has_value()));
  json.field("sweep", sweep_.has_value()).field("runs", facts_.has_runs).end_object();
  write_abilities(json, facts_.abilities);
  json.key("slo").begin_array();
  for (const SloLine& line : facts_.slo) {
    json.begin_object().field("figure", kLiveKeys[line.figure]).field("limit", line.limit);
    json.field("warn", line.warning()).field("is_least", line.is_least).end_object();
  }
  json.end_array().key("history").begin_array();
  for (const Resolution& one : kResolutions)
    json.begin_object().field("step_s", one.step_s).field("length_s", one.length_s).end_object();
  json.end_array().end_object();
  return json.take();
}

std::string Board::sweep_message(TimePoint now) const {
  JsonWriter json;
  const SweepProgress& sweep = *sweep_;
  json.begin_object().field("type", "sweep").field("name", sweep.name).field("state", word(sweep.state));
  json.field("problem", sweep.problem);
  text_or_null(json, "run", sweep.run);
  write_progress(json, now);
  json.key("levels").begin_array();
  for (const SweepLevel& level : sweep.levels) {
    json.begin_object().field("mode", level.mode).field("concurrency", level.concurrency);
    json.field("repetition", level.repetition).field("state", word(level.state));
    optional_field(json, "started_ms", level.started ? std::optional(unix_ms(*level.started)) : std::nullopt);
    optional_field(json, "ended_ms", level.ended ? std::optional(unix_ms(*level.ended)) : std::nullopt);
    json.key("figures");
    if (level.state == LevelState::kDone) {
      json.begin_object();
      for (std::size_t i = 0; i < kLiveFigures; ++i) {
        if (!level.figures[i]) continue;
        json.key(kLiveKeys[i]);
        figure_value(json, *level.figures[i]);
      }
      json.end_object();
    } else {
      json.null();
    }
    json.end_object();
  }
  json.end_array().end_object();
  return json.take();
}

std::string Board::history_json(bool of_workers, std::int64_t window_s, std::size_t most) const {
  if (of_workers) return workers_.history_json(window_s, most);
  const SeriesView view = live_.read(window_s, most);
  JsonWriter json;
  json.begin_object().field("of", "live").field("step_s", view.step_s).key("t_ms").begin_array();
  for (const std::int64_t at : view.at_s) json.value(at * 1'000);
  json.end_array().key("series").begin_object();
  for (std::size_t i = 0; i < kColumns; ++i) {
    json.key(i < kLiveFigures          ? kLiveKeys[i]
             : i == kConcurrencyColumn ? std::string_view("concurrency")
                                       : std::string_view("running"));
    json.begin_array();
    for (const float value : view.columns[i]) figure_value(json, static_cast<double>(value));
    json.end_array();
  }
  json.end_object().end_object();
  return json.take();
}

}  // namespace kvist::dashboard
