#include "kvist/sweep/live_levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/time_of_day.h"
#include "kvist/sweep/arm_settings.h"
#include "kvist/sweep/load_generator.h"
#include "kvist/workload/trace_outcome.h"

namespace kvist::sweep {
namespace {

constexpr Duration kStartTimeout = std::chrono::seconds(60);
constexpr Duration kReadyTimeout = std::chrono::seconds(120);  // a first token of a slow model may take a while
constexpr Duration kEmptyTimeout = std::chrono::seconds(30);

}  // namespace

LiveLevels::LiveLevels(spec::SweepSpec sweep, LiveOptions options)
    : sweep_(std::move(sweep)), options_(std::move(options)), arms_(spec::arms_of(sweep_)) {}

Result<void> LiveLevels::prepare() {
  KVIST_TRY(resolved_, resolve(sweep_));
  for (const spec::ArmSpec& arm : arms_) {
    if (arm.mode) KVIST_TRY_VOID(spec::require_live(*arm.mode));
  }
  const auto now = static_cast<std::uint64_t>(net::now().time_since_epoch().count());
  salt_ = mix_seed({seed_part(net::utc_now()), now});
  return {};
}

Result<void> LiveLevels::begin(const spec::Arm& arm, const std::string& logs) {
  if (begun_) return {};
  const auto how = std::ranges::find(arms_, arm, &spec::ArmSpec::arm);
  KVIST_CHECK(how != arms_.end(), "an arm of the sweep");
  if (!deployer_) {
    if (auto started = start_deployment(*how, logs); !started) {
      deployer_.reset();
      return started;
    }
  }
  // If the deployment was started in this mode, the query verifies that.
  KVIST_TRY_VOID(deployer_->enter(*how, deploy::Until::after(kReadyTimeout, options_.stop)));
  begun_ = true;
  return {};
}

Result<void> LiveLevels::start_deployment(const spec::ArmSpec& arm, const std::string& logs) {
  const std::string& name = arm.arm.name();
  spec::DeploymentSpec deployment = resolved_.spec.deployment;
  if (arm.mode) deployment.gateway.mode = *arm.mode;
  deployment.gateway.seed = gateway_seed(sweep_, arm.arm, 0);  // a live gateway gives its requests ids of its own
  // Unless the file asks for it, no request is refused for its wait or held, as in a simulation: the sweep measures
  // what the fleet does with the whole load.
  if (!deployment.gateway.admission.enabled) deployment.gateway.admission.enabled = false;
  if (!deployment.gateway.hold.enabled) deployment.gateway.hold.enabled = false;
  if (sweep_.target.is_given()) {
    options_.progress(fmt::format("{}: {}", name, sweep_.target.url));
  } else if (deployment.kubernetes) {
    options_.progress(
        fmt::format("{}: deploying a gateway and {} workers in the cluster", name, deployment.workers.size()));
  } else {
    options_.progress(fmt::format("{}: starting a gateway and {} workers", name, deployment.workers.size()));
  }
  KVIST_TRY(deployer_, options_.make_deployer(logs));
  const TimePoint begun = net::now();
  KVIST_TRY_VOID(deployer_->apply(deployment, deploy::Until::after(kStartTimeout, options_.stop)));
  KVIST_TRY_VOID(deployer_->await_ready(deploy::Until::after(kReadyTimeout, options_.stop)));
  options_.progress(fmt::format("{}: ready after {:.1f} s", name, to_seconds(net::now() - begun)));
  if (options_.observer != nullptr) options_.observer->on_deployment(deployer_->addresses());
  return {};
}

loadgen::ServiceOptions LiveLevels::load_options(const PlannedLevel& level) const {
  const deploy::Addresses& addresses = deployer_->addresses();
  loadgen::ServiceOptions options;
  options.target_url = addresses.gateway.url;
  options.target = addresses.gateway.server;
  options.model = addresses.models.front();
  options.workload = resolved_.spec.workload;
  options.input = resolved_.input;
  options.input.texts = arm_texts(sweep_, level, salt_);
  options.window = resolved_.spec.method.window;
  if (options_.observer != nullptr) options.feed = options_.observer->feed();
  return options;
}

AgentLoadOptions LiveLevels::agent_options(const PlannedLevel& level) const {
  const deploy::Addresses& addresses = deployer_->addresses();
  AgentLoadOptions options;
  options.agents = sweep_.agents;
  options.order = {.target = addresses.gateway.url,
                   .model = addresses.models.front(),
                   .workload = resolved_.spec.workload,
                   .texts = arm_texts(sweep_, level, salt_),
                   .level = level.concurrency,
                   .seed = level.seed};
  options.input = resolved_.input;
  options.input.texts = options.order.texts;
  options.window = resolved_.spec.method.window;
  options.progress = [this, title = title_of(level, sweep_.method.repetitions)](std::string_view line) {
    options_.progress(fmt::format("{}: {}", title, line));
  };
  options.stop = options_.stop;
  if (options_.observer != nullptr) options.watch = options_.observer->watch();
  return options;
}

Result<std::unique_ptr<LevelLoad>> LiveLevels::make_load(const PlannedLevel& level) const {
  if (sweep_.agents.are_given()) return AgentLoad::create(agent_options(level));
  return LoadGenerator::create(load_options(level),
                               options_.observer != nullptr ? options_.observer->watch() : nullptr);
}

Result<void> LiveLevels::run(std::span<const PlannedLevel> levels, const KeepLevel& keep) {
  KVIST_CHECK(begun_, "begin() before run()");
  if (sweep_.comparison.caches == spec::CacheProof::kReset) {
    KVIST_TRY_VOID(deployer_->empty_caches(deploy::Until::after(kEmptyTimeout, options_.stop)));
  }
  KVIST_TRY(const std::unique_ptr<LevelLoad> load, make_load(levels.front()));
  LevelRunner runner(*deployer_, *load, sweep_.method, options_.progress, options_.stop, options_.observer);
  return runner.run(levels, [&](results::LevelRecord& record) {
    workload::TraceOutcome of_trace(resolved_.input.trace);
    of_trace.add(record.turns);
    std::ranges::move(of_trace.remarks(record.started, record.measure_to), std::back_inserter(record.remarks));
    return keep(record);
  });
}

void LiveLevels::end() {
  begun_ = false;
  if (sweep_.comparison.caches == spec::CacheProof::kRestart) stop();
}

void LiveLevels::stop() {
  begun_ = false;
  if (deployer_) deployer_->stop();
  deployer_.reset();
}

}  // namespace kvist::sweep
