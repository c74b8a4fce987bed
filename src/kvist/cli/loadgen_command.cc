// kvist loadgen: drives load at any OpenAI-compatible server.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <utility>

#include "kvist/base/version.h"
#include "kvist/cli/calibration_file.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/dashboard_setup.h"
#include "kvist/cli/loadgen_agents.h"
#include "kvist/cli/loadgen_options.h"
#include "kvist/cli/loadgen_service.h"
#include "kvist/cli/print.h"
#include "kvist/cli/stored.h"
#include "kvist/cli/termination.h"
#include "kvist/dashboard/service/dashboard.h"
#include "kvist/loadgen/load_watch.h"
#include "kvist/loadgen/service.h"
#include "kvist/loadgen/threaded_load.h"
#include "kvist/net/bearer_key.h"
#include "kvist/net/descriptor_limit.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/time_of_day.h"
#include "kvist/report/load_output.h"
#include "kvist/report/load_run.h"
#include "kvist/report/load_summary.h"
#include "kvist/sweep/driven_load.h"
#include "kvist/sweep/level_agents.h"
#include "kvist/sweep/level_summary.h"
#include "kvist/telemetry/log.h"
#include "kvist/workload/trace_outcome.h"

namespace kvist::cli {
namespace {

using workload::TurnOutcome;
using workload::TurnSample;

/// The window of the progress line. Short, so that it shows what happens now; that of the metrics stays as it is.
constexpr Duration kProgressWindow = std::chrono::seconds(10);

/// One run of the command on its loop. It ends after the duration, by itself, or at SIGINT, when all turns have
/// drained.
class LoadgenRun {
 public:
  LoadgenRun(net::EventLoop& loop, loadgen::Load& service, const LoadOrder& order)
      : loop_(loop), service_(service), order_(order), timer_(loop), progress_(loop) {
    service_.on_over([this](std::optional<TimePoint> stopped) { over(stopped); });
    service_.on_ended([this] { ended(); });
  }

  Result<void> start() {
    KVIST_TRY_VOID(service_.prepare(order_.workload.seed));
    started_utc_ = net::utc_now();
    started_ = net::now();
    KVIST_TRY_VOID(service_.start(*order_.level, order_.workload.seed));
    started_ = service_.begins_at().value_or(*started_);
    if (order_.duration) {
      timer_.arm(*started_ + *order_.duration, [this] { end(); });
    }
    if (order_.progress > Duration(0)) print_progress(*started_ + order_.progress);
    return {};
  }

  /// Starts no new turns; those in flight may end within the request time-out. A second call breaks them off, unless it
  /// comes at once: a terminal that is closed and a parent that ends may both send a signal.
  void end() {
    const TimePoint before = std::exchange(told_, net::now());
    if (std::exchange(ending_, true))
      return told_ - before < net::EventLoop::kOneSignal ? void() : service_.stop(false, {});
    if (!stopped_by_others_) read_client();
    timer_.arm(net::now() + order_.workload.request_timeout, [this] { service_.stop(false, {}); });
    service_.stop(true, [this] { loop_.stop(); });
  }

  /// SIGINT or SIGTERM: ends the load. Who waits for its last answers has to know that it need not be waited for.
  void interrupt() {
    const bool first = !ending_;
    end();
    if (const std::uint32_t left = service_.in_flight(); first && left > 0) {
      telemetry::log_info("loadgen", fmt::format("interrupted: nothing new is sent; again to give up {} requests in "
                                                 "flight, which may take {:g} s",
                                                 left, to_seconds(order_.workload.request_timeout)));
    }
  }

  /// What the load says of itself as of its stop: of one on other machines, once that is known here.
  void read_load() {
    was_exhausted_ = service_.is_exhausted();
    load_ = service_.client_load();
    held_back_ = service_.held_back();
    changes_ = service_.changes();
  }

  /// All samples, and how many found no room in memory.
  [[nodiscard]] std::vector<TurnSample> take_samples() {
    return stopped_by_others_ ? std::move(samples_) : service_.take_samples();
  }
  [[nodiscard]] std::uint64_t samples_refused() const {
    return stopped_by_others_ ? samples_refused_ : service_.progress(kProgressWindow).samples_refused;
  }
  /// Through the control API or the dashboard. What was started after it is no part of what the command ordered.
  [[nodiscard]] bool was_stopped_by_others() const { return stopped_by_others_; }

  [[nodiscard]] bool has_driven() const { return started_.has_value(); }
  [[nodiscard]] TimePoint started() const { return started_.value_or(TimePoint{}); }
  [[nodiscard]] const std::string& started_utc() const { return started_utc_; }
  /// When the load was told to stop or, if it ended by itself, when its last answer was there.
  [[nodiscard]] TimePoint stopped() const { return stopped_; }
  /// Whether it had sent its last turn by itself before that.
  [[nodiscard]] bool was_exhausted() const { return was_exhausted_; }
  /// The client's own health while it drove.
  [[nodiscard]] const loadgen::ClientLoad& client_load() const { return load_; }

  /// Arrivals that waited for a place.
  [[nodiscard]] workload::HeldBack held_back() const { return held_back_; }
  /// What the control API changed while it drove.
  [[nodiscard]] const std::vector<workload::AppliedChange>& changes() const { return changes_; }

 private:
  /// The load has ended by itself. One that the control API started leaves the service idle, for the next one.
  void ended() {
    if (!started_ || stopped_by_others_ || std::exchange(ending_, true)) return;
    read_client();
    loop_.stop();
  }
  /// What was measured is kept apart from that of a load that may be started next.
  void over(std::optional<TimePoint> stopped) {
    if (!started_ || !stopped || ending_ || std::exchange(stopped_by_others_, true)) return;
    read_client();
    stopped_ = *stopped;
    was_exhausted_ = false;
    samples_ = service_.take_samples();
    samples_refused_ = service_.progress(kProgressWindow).samples_refused;
  }

  void read_client() {
    stopped_ = net::now();
    read_load();
    progress_.cancel();
  }

  void print_progress(TimePoint at) {
    progress_.arm(at, [this, at] {
      const TimePoint now = net::now();
      // A load that is younger than the window had less time for what the window counts.
      const loadgen::Progress measured = service_.progress(std::min(kProgressWindow, now - *started_));
      const report::LoadProgress progress{.elapsed = now - *started_,
                                          .succeeded = measured.succeeded,
                                          .failed = measured.failed,
                                          .window = measured.window,
                                          .itl_p50_ms = measured.itl_p50_ms,
                                          .itl_p95_ms = measured.itl_p95_ms};
      std::fprintf(stderr, "%s\n", report::progress_line(progress).c_str());
      print_progress(at + order_.progress);
    });
  }

  net::EventLoop& loop_;
  loadgen::Load& service_;
  const LoadOrder& order_;
  net::Timer timer_;
  net::Timer progress_;
  std::optional<TimePoint> started_;
  std::string started_utc_;
  TimePoint stopped_;
  loadgen::ClientLoad load_;
  workload::HeldBack held_back_;
  std::vector<workload::AppliedChange> changes_;
  std::vector<TurnSample> samples_;  // if it was stopped by others
  std::uint64_t samples_refused_ = 0;
  bool was_exhausted_ = false;
  bool stopped_by_others_ = false;
  bool ending_ = false;
  TimePoint told_;  // to end, for the last time
};

/// How each of several threads kept up.
std::vector<report::LoadLoop> loops_of(const loadgen::ClientLoad& load, Duration elapsed) {
  std::vector<report::LoadLoop> loops;
  for (const loadgen::LoopHealth& loop : load.loops) {
    loops.push_back({.delay_p99_ms = loop.loop_delay_p99_ms,
                     .delay_max_ms = loop.loop_delay_max_ms,
                     .stalls = loop.loop_stalls,
                     .stalled_ms = loop.loop_stalled_ms,
                     .run_queue_share = {}});
    if (loop.run_queue_seconds && elapsed > Duration(0)) {
      loops.back().run_queue_share = *loop.run_queue_seconds / to_seconds(elapsed);
    }
  }
  return loops;
}

/// A closed loop sends nothing more where the first answers last as long as the load.
std::optional<std::string> empty_window_remark(const results::LevelRecord& level) {
  const auto is_in_window = [&](const TurnSample& turn) { return turn.sent >= level.measure_from; };
  if (level.turns.empty() || std::ranges::any_of(level.turns, is_in_window)) return std::nullopt;
  return std::string(
      "no request was sent after the warm-up, as the answers before it lasted until the end: nothing was measured "
      "(order a longer duration)");
}

/// The window begins after the warm-up and ends when nothing new was sent: with the stop or, of a load that ended by
/// itself, with its last request. A request that had begun before the stop and waited for a connection is sent after
/// it: without it the figures would leave out just those that a slow target kept waiting. The answers after it are a
/// drain, in which the server has less and less to do.
report::LoadRun record_of(const LoadgenArguments& arguments, const LoadOrder& order, const LoadgenRun& run,
                          std::vector<TurnSample> turns) {
  report::LoadRun record{.kvist_version = std::string(kVersion),
                         .target = arguments.target,
                         .model = arguments.model,
                         .dataset = order.dataset,
                         .dataset_sha256 = order.dataset_sha256,
                         .mix = order.input.mix,
                         .think_time = order.input.think_time,
                         .prompt_ids = arguments.prompt_ids,
                         .tokenizer_sha256 = order.tokenizer_sha256,
                         .started_utc = run.started_utc(),
                         .started_unix_s = net::unix_seconds() - to_seconds(net::now() - run.started()),
                         .command = arguments.command,
                         .request_prefix = fmt::format("loadgen-{:x}", order.workload.seed),
                         .workload = order.workload,
                         .concurrency = arguments.concurrency,
                         .rate_per_s = arguments.rate,
                         .requests = arguments.requests,
                         .held_back = run.held_back(),
                         .changes = run.changes(),
                         .loops = loops_of(run.client_load(), run.stopped() - run.started()),
                         .is_chat = !order.prompt_ids,
                         .level = {}};
  if (order.workload.arrivals.is_open() && order.level && !arguments.rate) {
    // A workload file with open arrivals: the number is that of starts per minute.
    record.concurrency.reset();
    record.rate_per_s = order.workload.arrivals.starts_per_second(*order.level);
  }
  results::LevelRecord& level = record.level;
  level.concurrency = order.level.value_or(0);
  level.seed = order.workload.seed;
  level.started_utc = run.started_utc();
  level.started = run.started();
  const TimePoint last = report::last_sent(turns, run.started());
  level.measure_to = run.was_exhausted() ? last : std::max(run.stopped(), last);
  level.measure_from = std::min(run.started() + order.warmup, level.measure_to);
  level.turns = std::move(turns);
  level.client = sweep::summarise_client(run.client_load(), run.stopped() - level.started, level);
  if (arguments.tls.insecure) level.remarks.emplace_back("the certificate of the target was not verified (--insecure)");
  // The line of the arrivals says how many waited.
  const bool refuses = order.workload.arrivals.when_full == spec::WhenFull::kRefuse;
  if (refuses && run.client_load().refused_starts) level.remarks.push_back(*run.client_load().refused_starts);
  if (run.was_stopped_by_others()) {
    level.remarks.push_back(fmt::format(
        "stopped through the control API {:.3f} s after its start: what was started after it is in no figure",
        to_seconds(run.stopped() - level.started)));
  }
  for (const workload::AppliedChange& applied : run.changes()) {
    level.remarks.push_back(fmt::format("{:.3f} s after its start the load was changed: {}",
                                        to_seconds(applied.at - level.started), workload::text_of(applied.change)));
  }
  workload::TraceOutcome of_trace(order.input.trace);
  of_trace.add(level.turns);
  std::ranges::move(of_trace.remarks(level.started, level.measure_to), std::back_inserter(level.remarks));
  if (std::optional<std::string> remark = report::connection_remark(level)) level.remarks.push_back(*remark);
  if (run.was_exhausted()) {
    if (std::optional<std::string> remark = report::short_window_remark(level)) level.remarks.push_back(*remark);
  } else if (std::optional<std::string> remark = empty_window_remark(level)) {
    level.remarks.push_back(*remark);
  }
  return record;
}

/// What was ordered, with the rates that came of it.
loadgen::DrivenLoad outcome_of(const LoadOrder& order, const results::LevelRecord& level) {
  loadgen::DrivenLoad load = sweep::driven_load(level.turns, level.measure_from, level.measure_to);
  load.streams = planned_load(order).streams;
  return load;
}

/// Returns the paths of the files.
Result<std::vector<std::string>> write_output(const LoadgenArguments& arguments, const LoadOrder& order,
                                              const report::LoadRun& record, const report::LoadFigures& figures) {
  if (arguments.output.empty()) return {};
  KVIST_TRY(const std::vector<std::string> paths,
            report::write_load_files(record, figures, arguments.output, order.exports));
  return paths;
}

/// A load on this machine, which is attached to `watch`.
Result<std::unique_ptr<loadgen::Load>> make_load(net::EventLoop& loop, const loadgen::ServiceOptions& options,
                                                 std::uint32_t threads, loadgen::LoadWatch& watch) {
  std::unique_ptr<loadgen::ControlledLoad> load;
  if (threads > 1) {
    KVIST_TRY(load, loadgen::make_threaded_load(loop, options, threads));
  } else {
    KVIST_TRY(load, loadgen::Service::create(loop, options));
  }
  watch.attach(loop, *load);
  return load;
}

/// Null: it is not wanted. Shows the load from a thread of its own, so that who looks does not disturb it.
Result<std::unique_ptr<dashboard::Dashboard>> start_dashboard(const LoadgenArguments& arguments, const LoadOrder& order,
                                                              std::shared_ptr<loadgen::LoadWatch> watch) {
  if (!has_dashboard(arguments)) return nullptr;
  dashboard::DashboardOptions options;
  options.host = arguments.host;
  options.port = arguments.port.value_or(0);
  options.facts = {
      .source = "loadgen", .title = arguments.target, .target = arguments.target, .model = arguments.model};
  const bool replays = !order.workload.trace.file.empty();
  options.facts.abilities = {.start_and_stop = true,
                             .concurrency = !replays && !order.workload.arrivals.is_open(),
                             .rate = !replays,
                             .modes = !arguments.gateway.empty()};
  options.gateway = arguments.gateway;
  if (!arguments.api_key_file.empty()) {
    KVIST_TRY(options.gateway_settings.bearer_key, net::read_bearer_key(arguments.api_key_file));
  }
  KVIST_TRY(options.gateway_settings.tls, load_tls(arguments.tls, arguments.gateway));
  options.load = std::move(watch);
  options.passes_control = true;
  options.plan = {.concurrency = arguments.concurrency.value_or(1),
                  .rate_per_s = order.workload.target_rps > 0 ? std::optional(order.workload.target_rps) : std::nullopt,
                  .seed = order.workload.seed,
                  .begun = order.level ? 1U : 0U};
  if (arguments.rate) options.plan.rate_per_s = arguments.rate;
  KVIST_TRY_VOID(read_dashboard(arguments.dashboard, options));
  return dashboard::Dashboard::start(std::move(options));
}

/// Ends the load at a signal, and with a second one what it still waits for.
void end_load_on_signals(net::EventLoop& loop, LoadgenRun& run) {
  loop.on_termination([&run] { run.interrupt(); });
  loop.on_repeated_termination([&run] { run.interrupt(); });
  outlive_terminal(loop, [&run] { run.end(); });
}

/// Writes the files and prints the summary. `given_up`: what the load says of that.
Result<void> conclude(const LoadgenArguments& arguments, const LoadOrder& order, const report::LoadRun& record,
                      const std::optional<std::string>& given_up) {
  const report::LoadFigures figures = report::figures_of(record);
  const Result<std::vector<std::string>> written = write_output(arguments, order, record, figures);
  print_line(report::load_summary(record, figures));
  if (!written) return std::unexpected(written.error());
  for (const std::string& path : *written) print_line("written  " + path);
  if (std::ranges::find(record.level.turns, TurnOutcome::kSucceeded, &TurnSample::outcome) !=
      record.level.turns.end()) {
    return {};
  }
  if (given_up) return fail(ErrorCode::kUnavailable, *given_up);
  const auto failed = std::ranges::find(record.level.turns, TurnOutcome::kFailed, &TurnSample::outcome);
  return fail(ErrorCode::kUnavailable, failed == record.level.turns.end()
                                           ? "not one turn succeeded"
                                           : "not one turn succeeded; the first that failed: " + failed->error);
}

void add_refused_samples(const LoadgenRun& run, report::LoadRun& record) {
  if (const std::uint64_t refused = run.samples_refused(); refused > 0) {
    record.level.remarks.push_back(fmt::format("{} turns found no room in memory and are in no figure", refused));
  }
}

/// The same load by agents on other machines, which this process coordinates.
Result<void> run_on_agents(const LoadgenArguments& arguments, const LoadOrder& order) {
  net::EventLoop loop;
  KVIST_TRY(const std::unique_ptr<loadgen::RemoteLoad> load, make_remote_load(loop, arguments, order));
  const auto watch = std::make_shared<loadgen::LoadWatch>();
  watch->attach(loop, *load);
  LoadgenRun run(loop, *load, order);
  end_load_on_signals(loop, run);
  KVIST_TRY(const auto board, start_dashboard(arguments, order, watch));
  if (board || arguments.port) print_line(fmt::format("ready http={}", board ? board->port() : load->port()));
  if (board) print_line("dashboard " + board->url());
  Result<void> begun;
  load->open([&](Result<void> ready) {
    begun = ready ? run.start() : std::move(ready);
    if (!begun) loop.stop();
  });
  loop.run();
  watch->detach();
  KVIST_TRY_VOID(begun);
  if (!run.has_driven()) return fail(ErrorCode::kCancelled, "interrupted before the agents were ready");
  run.read_load();
  report::LoadRun record = record_of(arguments, order, run, run.take_samples());
  add_refused_samples(run, record);
  sweep::add_agents(load->coordination().agents(), record.level);
  KVIST_TRY_VOID(conclude(arguments, order, record, load->given_up()));
  return check_agents(load->coordination());
}

}  // namespace

Result<void> run_loadgen(const LoadgenArguments& arguments) {
  KVIST_TRY(const LoadOrder order, read_load_order(arguments));
  if (!arguments.output.empty()) KVIST_TRY_VOID(make_folder(arguments.output));
  telemetry::start_logging(telemetry::LogLevel::kInfo, "loadgen");
  if (!arguments.agents.empty()) return run_on_agents(arguments, order);
  KVIST_TRY(const loadgen::ServiceOptions options, service_options(arguments, order));
  KVIST_TRY(const std::optional<loadgen::Calibration> calibration, find_calibration(arguments.calibration));
  KVIST_TRY_VOID(check_calibration(calibration, planned_load(order), arguments.within_calibration));
  net::raise_descriptor_limit();
  net::EventLoop loop;
  const auto watch = std::make_shared<loadgen::LoadWatch>();
  KVIST_TRY(const std::unique_ptr<loadgen::Load> service, make_load(loop, options, arguments.threads, *watch));
  LoadgenRun run(loop, *service, order);
  end_load_on_signals(loop, run);
  KVIST_TRY(const auto board, start_dashboard(arguments, order, watch));
  print_line(fmt::format("ready http={}", board ? board->port() : service->port()));
  if (board) print_line("dashboard " + board->url());
  if (order.level) KVIST_TRY_VOID(run.start());
  loop.run();
  watch->detach();
  if (!run.has_driven()) return {};
  report::LoadRun record = record_of(arguments, order, run, run.take_samples());
  add_refused_samples(run, record);
  if (auto beyond = beyond_calibration(calibration, outcome_of(order, record.level))) {
    record.level.remarks.push_back(*std::move(beyond));
  }
  return conclude(arguments, order, record, service->given_up());
}

}  // namespace kvist::cli
