// kvist loadgen: drives load at any OpenAI-compatible server.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "kvist/analysis/level_analysis.h"
#include "kvist/base/statistics.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/duration_argument.h"
#include "kvist/cli/print.h"
#include "kvist/gateway/worker_settings.h"
#include "kvist/loadgen/service.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/tls.h"
#include "kvist/results/load_input.h"
#include "kvist/spec/files.h"
#include "kvist/sweep/level_summary.h"
#include "kvist/telemetry/log.h"

namespace kvist::cli {
namespace {

using workload::TurnOutcome;
using workload::TurnSample;

Distribution describe_turns(const std::vector<TurnSample>& turns,
                            const std::function<std::optional<double>(const TurnSample&)>& value) {
  std::vector<double> values;
  for (const TurnSample& turn : turns) {
    if (turn.outcome != TurnOutcome::kSucceeded) continue;
    if (const auto v = value(turn)) values.push_back(*v);
  }
  return describe(std::move(values));
}

void print_times(const char* name, const Distribution& d) {
  print_line(fmt::format("{:<8} p50 {:>9.1f} ms   p95 {:>9.1f} ms   p99 {:>9.1f} ms   max {:>9.1f} ms   n {}", name,
                         d.p50, d.p95, d.p99, d.max, d.count));
}

/// Prints whether the client disturbed its own measurement.
void print_client(const results::ClientHealth& client, const Distribution& ttft) {
  const analysis::ClientVerdict verdict = analysis::client_verdict(client, ttft);
  print_line(fmt::format("client   {}: loop delay p99 {:.1f} ms, send delay p99 {:.1f} ms, {:.2f} of a core{}",
                         verdict.ok() ? "kept up" : "was late", client.loop_delay_p99_ms, client.send_delay_p99_ms,
                         client.cpu_share, verdict.ok() ? "" : fmt::format(" ({})", fmt::join(verdict.reasons, "; "))));
}

/// Prints exact percentiles over all these turns. Unlike a sweep, this command has no published method. `measured` is
/// the time during which they were sent.
void print_summary(const std::vector<TurnSample>& turns, Duration measured, const results::ClientHealth& client) {
  double prompt = 0;
  double cached = 0;
  double output = 0;
  for (const TurnSample& turn : turns) {
    prompt += turn.prompt_tokens;
    cached += turn.cached_tokens;
    output += turn.completion_tokens;
  }
  const auto count = [&](TurnOutcome outcome) { return std::ranges::count(turns, outcome, &TurnSample::outcome); };
  const double seconds = to_seconds(measured);
  print_line(fmt::format("turns    {} succeeded, {} failed, {} abandoned in {:.1f} s: {:.2f} turns/s, {:.1f} tokens/s",
                         count(TurnOutcome::kSucceeded), count(TurnOutcome::kFailed), count(TurnOutcome::kAbandoned),
                         seconds, static_cast<double>(turns.size()) / seconds, output / seconds));
  print_line(fmt::format("cache    {:.1f} % of {:.0f} prompt tokens", prompt > 0 ? 100 * cached / prompt : 0, prompt));
  const Distribution ttft = describe_turns(turns, [](const TurnSample& turn) { return std::optional(turn.ttft_ms()); });
  print_times("TTFT", ttft);
  print_times("TPOT", describe_turns(turns, [](const TurnSample& turn) { return turn.tpot_ms(); }));
  print_times("latency",
              describe_turns(turns, [](const TurnSample& turn) { return std::optional(turn.latency_ms()); }));
  print_client(client, ttft);
  const auto failed = std::ranges::find(turns, TurnOutcome::kFailed, &TurnSample::outcome);
  if (failed != turns.end()) print_line("first error: " + failed->error);
}

/// Removes turns that were sent within the warm-up. For a turn that was never sent, the intended instant counts.
void drop_warmup(std::vector<TurnSample>& turns, TimePoint measured_from) {
  std::erase_if(turns, [&](const TurnSample& turn) {
    return (turn.sent == TimePoint{} ? turn.intended : turn.sent) < measured_from;
  });
}

/// One run of the command on its loop. It ends after the duration or at SIGINT, when all turns have drained.
class LoadgenRun {
 public:
  LoadgenRun(net::EventLoop& loop, loadgen::Service& service, Duration drain_timeout)
      : loop_(loop), service_(service), drain_timeout_(drain_timeout), timer_(loop) {}

  Result<void> start(std::uint32_t concurrency, std::uint64_t seed, std::optional<Duration> duration) {
    KVIST_TRY_VOID(service_.start(concurrency, seed));
    started_ = net::now();
    if (duration) {
      timer_.arm(*started_ + *duration, [this] { end(); });
    }
    return {};
  }

  /// Starts no new turns; those in flight may end within the request time-out. A second call breaks them off.
  void end() {
    if (std::exchange(ending_, true)) return service_.stop(false, {});
    driven_ = started_ ? net::now() - *started_ : Duration(0);
    load_ = service_.client_load();
    timer_.arm(net::now() + drain_timeout_, [this] { service_.stop(false, {}); });
    service_.stop(true, [this] { loop_.stop(); });
  }

  [[nodiscard]] bool has_driven() const { return started_.has_value(); }
  [[nodiscard]] TimePoint started() const { return started_.value_or(TimePoint{}); }
  [[nodiscard]] Duration driven() const { return driven_; }
  /// The client's own health while it drove.
  [[nodiscard]] const loadgen::ClientLoad& client_load() const { return load_; }

 private:
  net::EventLoop& loop_;
  loadgen::Service& service_;
  Duration drain_timeout_;
  net::Timer timer_;
  std::optional<TimePoint> started_;
  Duration driven_{};
  loadgen::ClientLoad load_;
  bool ending_ = false;
};

Result<loadgen::ServiceOptions> service_options(const LoadgenArguments& arguments) {
  loadgen::ServiceOptions options;
  options.target_url = arguments.target;
  if (!arguments.api_key_file.empty()) {
    KVIST_TRY(options.target.bearer_key, gateway::read_worker_key(arguments.api_key_file));
  }
  if (arguments.target.starts_with("https://")) {
    KVIST_TRY(options.target.tls, net::TlsClient::load({.ca = arguments.ca,
                                                        .server_name = arguments.server_name,
                                                        .certificate = arguments.certificate,
                                                        .key = arguments.key}));
  }
  options.model = arguments.model;
  options.http = {arguments.host, arguments.port};
  if (!arguments.workload_file.empty()) {
    KVIST_TRY(options.workload, spec::load_workload(arguments.workload_file));
    KVIST_TRY(options.input, results::load_input(options.workload.trace));
  }
  return options;
}

}  // namespace

Result<void> run_loadgen(const LoadgenArguments& arguments) {
  KVIST_TRY(const loadgen::ServiceOptions options, service_options(arguments));
  std::optional<Duration> duration;
  if (!arguments.duration.empty()) {
    KVIST_TRY(duration, parse_duration(arguments.duration, "--duration"));
    if (*duration <= Duration(0)) return fail(ErrorCode::kInvalidArgument, "--duration must be above 0");
  }
  Duration warmup(0);
  if (!arguments.warmup.empty()) {
    KVIST_TRY(warmup, parse_duration(arguments.warmup, "--warmup"));
    if (duration && warmup >= *duration) return fail(ErrorCode::kInvalidArgument, "--warmup must be below --duration");
  }
  telemetry::start_logging(telemetry::LogLevel::kInfo, "loadgen");
  net::EventLoop loop;
  KVIST_TRY(const auto service, loadgen::Service::create(loop, options));
  LoadgenRun run(loop, *service, options.workload.request_timeout);
  loop.on_termination([&run] { run.end(); });
  print_line(fmt::format("ready http={}", service->port()));
  if (arguments.concurrency) {
    KVIST_TRY_VOID(run.start(*arguments.concurrency, options.workload.seed, duration));
  }
  loop.run();
  if (!run.has_driven()) return {};
  std::vector<TurnSample> turns = service->take_samples();
  const results::ClientHealth client = sweep::summarise_client(run.client_load(), run.driven(), turns);
  drop_warmup(turns, run.started() + warmup);
  print_summary(turns, std::max(run.driven() - warmup, Duration(1)), client);
  if (std::ranges::find(turns, TurnOutcome::kSucceeded, &TurnSample::outcome) != turns.end()) return {};
  return fail(ErrorCode::kUnavailable, "not one turn succeeded");
}

}  // namespace kvist::cli
