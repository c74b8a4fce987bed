#include "kvist/sweep/calibrate.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "kvist/base/statistics.h"
#include "kvist/base/version.h"
#include "kvist/deploy/child_process.h"
#include "kvist/deploy/ready_line.h"
#include "kvist/deploy/until.h"
#include "kvist/loadgen/reference_record.h"
#include "kvist/net/http_client.h"
#include "kvist/net/time_of_day.h"
#include "kvist/sweep/driven_load.h"
#include "kvist/sweep/load_generator.h"
#include "kvist/sweep/machine.h"

namespace kvist::sweep {
namespace {

constexpr Duration kServerStartTimeout = std::chrono::seconds(20);
constexpr Duration kServerAnswerTimeout = std::chrono::seconds(60);
/// The longest time of one answer. A step ramps up, measures and drains for at least as long each, and there are some
/// fifteen steps.
constexpr Duration kMostLifetime = std::chrono::seconds(60);
constexpr std::uint64_t kSeed = 1;
constexpr const char* kRequestPrefix = "loadgen-1";  // of that seed

/// A folder for the server's log, removed with everything in it.
class TemporaryFolder {
 public:
  [[nodiscard]] static Result<TemporaryFolder> make() {
    std::error_code error;
    std::string path = (std::filesystem::temp_directory_path(error) / "kvist-calibrate-XXXXXX").string();
    if (error || ::mkdtemp(path.data()) == nullptr) {
      return fail(ErrorCode::kUnavailable,
                  "cannot make a temporary folder; set TMPDIR to a folder that can be written");
    }
    return TemporaryFolder(std::move(path));
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// The reference server as a child.
class ReferenceProcess {
 public:
  [[nodiscard]] static Result<ReferenceProcess> start(const CalibrateOptions& options, const std::string& folder) {
    const auto ms = [](Duration duration) { return fmt::format("{}ms", to_milliseconds(duration)); };
    KVIST_TRY(deploy::ChildProcess child,
              deploy::ChildProcess::start(
                  {.name = "reference server",
                   .executable = "/proc/self/exe",
                   .arguments = {"loadgen", "reference", "--first", ms(options.first), "--gap", ms(options.gap)},
                   .log_path = folder + "/reference.log",
                   .unset = {}}));
    KVIST_TRY(const std::string line, child.read_line(deploy::Until::after(kServerStartTimeout, options.stop)));
    KVIST_TRY(const deploy::ReadyPorts ports, deploy::parse_ready_line(line));
    return ReferenceProcess(std::move(child), fmt::format("http://127.0.0.1:{}", ports.http));
  }

  [[nodiscard]] const std::string& url() const { return url_; }
  [[nodiscard]] Result<void> reset() const {
    KVIST_TRY(const net::HttpResponse answer,
              net::fetch_blocking("POST", url_ + "/record/reset", "{}", kServerAnswerTimeout));
    if (answer.status != 200) return fail(ErrorCode::kUnavailable, "the reference server does not reset its record");
    return {};
  }
  [[nodiscard]] Result<std::vector<loadgen::ReferenceStream>> record() const {
    KVIST_TRY(const net::HttpResponse answer, net::fetch_blocking("GET", url_ + "/record", "", kServerAnswerTimeout));
    return loadgen::parse_reference_record(answer.body);
  }

 private:
  ReferenceProcess(deploy::ChildProcess child, std::string url) : child_(std::move(child)), url_(std::move(url)) {}

  deploy::ChildProcess child_;
  std::string url_;
};

/// How long one answer takes.
Duration lifetime(const CalibrateOptions& options) {
  return options.first + options.gap * static_cast<Duration::rep>(options.tokens - 1);
}

loadgen::ServiceOptions load_options(const CalibrateOptions& options, std::uint32_t streams, const std::string& url) {
  loadgen::ServiceOptions load;
  load.target_url = url;
  load.model = "reference";
  spec::WorkloadSpec& workload = load.workload;
  workload.turns_min = workload.turns_max = 1;
  workload.starters = 0;
  workload.starter_tokens_min = workload.starter_tokens_max = 64;
  workload.max_tokens = options.tokens;
  workload.ignore_eos = true;
  workload.request_timeout = lifetime(options) + kServerAnswerTimeout;
  // Starts are spread over an answer's length, so that streams are not in step with each other.
  workload.target_rps = std::max(1.0, streams / to_seconds(lifetime(options)));
  return load;
}

loadgen::CalibrationStep step_of(const std::vector<workload::TurnSample>& turns,
                                 const std::vector<loadgen::ReferenceStream>& record, TimePoint from, TimePoint to) {
  loadgen::CalibrationStep step;
  const loadgen::DrivenLoad load = driven_load(turns, from, to);
  step.events_per_s = load.events_per_s.value_or(0);
  step.turns_per_s = load.turns_per_s.value_or(0);
  loadgen::DeliveryErrors errors = loadgen::delivery_errors(turns, record, kRequestPrefix, from, to);
  step.turns = errors.ttft_ms.size();
  step.failed = errors.unmatched;
  for (const workload::TurnSample& turn : turns) step.failed += turn.outcome == workload::TurnOutcome::kFailed ? 1 : 0;
  const Distribution ttft = describe(std::move(errors.ttft_ms));
  const Distribution itl = describe(std::move(errors.itl_ms));
  step.ttft_error_p50_ms = ttft.p50;
  step.ttft_error_p99_ms = ttft.p99;
  step.itl_error_p50_ms = itl.p50;
  step.itl_error_p99_ms = itl.p99;
  std::vector<double> late;
  late.reserve(record.size());
  for (const loadgen::ReferenceStream& stream : record) late.push_back(to_milliseconds(stream.latest_by));
  step.server_late_p99_ms = describe(std::move(late)).p99;
  return step;
}

Result<void> sleep(Duration duration, const std::stop_token& stop) {
  if (deploy::sleep_until(net::now() + duration, stop)) return {};
  return fail(ErrorCode::kCancelled, "interrupted");
}

Result<loadgen::CalibrationStep> measure(const CalibrateOptions& options, const ReferenceProcess& server,
                                         std::uint32_t streams) {
  KVIST_TRY_VOID(server.reset());
  KVIST_TRY(const auto load, LoadGenerator::create(load_options(options, streams, server.url())));
  const TimePoint started = net::now();
  KVIST_TRY_VOID(load->start(streams, kSeed));
  KVIST_TRY_VOID(sleep(lifetime(options) + options.first, options.stop));
  const TimePoint from = net::now();
  // If streams were longer than the time of measuring, none might begin within it.
  KVIST_TRY_VOID(sleep(std::max(options.measure, lifetime(options)), options.stop));
  const TimePoint to = net::now();
  KVIST_TRY(const loadgen::ClientLoad client, load->client_load());
  const std::future<void> drained = load->stop(true);
  if (drained.wait_for(lifetime(options) + kServerAnswerTimeout) != std::future_status::ready) {
    return fail(ErrorCode::kDeadlineExceeded, "the reference server does not end its streams");
  }
  KVIST_TRY(const std::vector<workload::TurnSample> turns, load->take_samples());
  KVIST_TRY(const std::vector<loadgen::ReferenceStream> record, server.record());
  loadgen::CalibrationStep step = step_of(turns, record, from, to);
  step.streams = streams;
  step.cpu_share = client.cpu_seconds / to_seconds(to - started);
  return step;
}

}  // namespace

Result<void> check_calibrate_options(const CalibrateOptions& options) {
  if (options.tokens < 2) return fail(ErrorCode::kInvalidArgument, "an answer needs at least two tokens");
  const Duration length = lifetime(options);
  if (length <= kMostLifetime) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("an answer of {} tokens would take {:.1f} s, and each step three times as long; want at most "
                          "{:.0f} s: fewer tokens, or a smaller gap",
                          options.tokens, to_seconds(length), to_seconds(kMostLifetime)));
}

Result<loadgen::Calibration> calibrate(const CalibrateOptions& options) {
  KVIST_TRY_VOID(check_calibrate_options(options));
  KVIST_TRY(const TemporaryFolder folder, TemporaryFolder::make());
  KVIST_TRY(const ReferenceProcess server, ReferenceProcess::start(options, folder.path()));
  loadgen::Calibration calibration{.kvist_version = std::string(kVersion),
                                   .measured_utc = net::utc_now(),
                                   .machine = describe_machine(),
                                   .first_ms = to_milliseconds(options.first),
                                   .gap_ms = to_milliseconds(options.gap),
                                   .tokens = options.tokens,
                                   .error_limit_ms = options.error_limit_ms,
                                   .steps = {}};
  while (const auto streams = loadgen::next_streams(calibration, options.most_streams)) {
    constexpr int kAttempts = 2;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      KVIST_TRY(const loadgen::CalibrationStep step, measure(options, server, *streams));
      calibration.add(step);
      if (options.on_step) options.on_step(step);
      if (calibration.holds(step)) break;
    }
  }
  return calibration;
}

}  // namespace kvist::sweep
