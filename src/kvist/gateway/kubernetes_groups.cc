#include "kvist/gateway/kubernetes_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/gateway/cluster_source.h"
#include "kvist/gateway/mode_from_environment.h"
#include "kvist/gateway/shared_parts.h"
#include "kvist/kubernetes/api_client.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

constexpr std::string_view kComponent = "kubernetes";
/// The pause between attempts to find out how the cluster is reached.
constexpr Duration kPause = std::chrono::seconds(1);

std::optional<std::string> environment(const std::string& name) {
  return process_environment(name.c_str());
}

}  // namespace

std::string_view to_string(DiscoveryState state) {
  switch (state) {
    case DiscoveryState::kStarting:
      return "starting";
    case DiscoveryState::kSynced:
      return "synced";
    case DiscoveryState::kStale:
      return "stale";
  }
  return "starting";
}

/// One Service or InferencePool that is followed.
class KubernetesGroups::Group {
 public:
  Group(net::EventLoop& loop, spec::WorkerGroupSpec of, const std::string& model, FleetChanges& changes)
      : loop_(&loop),
        spec_(std::move(of)),
        changes_(&changes),
        source_(make_cluster_source(spec_, model)),
        timer_(loop) {}

  void start() {
    if (const auto begun = begin(); !begun) {
      note(begun.error().message);
      timer_.arm(net::now() + kPause, [this] { start(); });
    }
  }

  void stop() {
    timer_.cancel();
    source_->stop();
    client_.reset();
  }

  [[nodiscard]] const std::string& name() const { return spec_.name; }

  /// The workers as carried out last. Nothing changes afterwards.
  [[nodiscard]] std::vector<spec::UpstreamSpec> give_up() {
    stop();
    return std::exchange(workers_, {});
  }
  /// Those of the group in whose place this one is; what the cluster says changes them. Requires: start() was not
  /// called.
  void take_over(std::vector<spec::UpstreamSpec> workers) { workers_ = std::move(workers); }

  [[nodiscard]] DiscoveryReport report() const {
    DiscoveryReport report{.group = spec_.name,
                           .service = name_of(*spec_.kubernetes),
                           .state = state(),
                           .stale_since = stale_since(),
                           .problem = problem(),
                           .workers = workers_.size(),
                           .calls = source_->past_calls()};
    for (const kubernetes::InformerBase* const each : source_->copies()) {
      const kubernetes::ListWatch::Counters& calls = each->protocol().counters();
      report.calls.lists += calls.lists;
      report.calls.watches += calls.watches;
      report.calls.expired += calls.expired;
      report.calls.failures += calls.failures;
      report.unreadable += each->unreadable();
    }
    return report;
  }

 private:
  [[nodiscard]] Result<void> begin() {
    const spec::KubernetesSourceSpec& source = *spec_.kubernetes;
    KVIST_TRY(kubernetes::ClusterAccess access, kubernetes::find_access(source.kubeconfig, environment));
    const std::string name_space = source.name_space.empty() ? access.name_space : source.name_space;
    telemetry::log_info(kComponent, fmt::format("{}: follows the endpoints of {}/{} at {}", spec_.name, name_space,
                                                name_of(source), access.server));
    KVIST_TRY(client_, kubernetes::ApiClient::create(*loop_, std::move(access)));
    problem_.clear();
    source_->start(*loop_, *client_, name_space, [this] { on_event(); });
    return {};
  }

  [[nodiscard]] bool synced() const {
    return std::ranges::all_of(source_->copies(), [](const auto* each) { return each->protocol().synced(); });
  }

  [[nodiscard]] std::optional<TimePoint> stale_since() const {
    std::optional<TimePoint> since;
    if (!synced()) return since;
    for (const kubernetes::InformerBase* const each : source_->copies()) {
      const auto of_this = each->protocol().stale_since();
      if (of_this && (!since || *of_this < *since)) since = of_this;
    }
    return since;
  }

  [[nodiscard]] DiscoveryState state() const {
    if (!synced()) return DiscoveryState::kStarting;
    return stale_since() ? DiscoveryState::kStale : DiscoveryState::kSynced;
  }

  [[nodiscard]] std::string problem() const {
    if (!problem_.empty()) return problem_;
    for (const kubernetes::InformerBase* const each : source_->copies())
      if (!each->protocol().problem().empty()) return each->protocol().problem();
    for (const kubernetes::InformerBase* const each : source_->copies())
      if (!each->unreadable_problem().empty()) return "left out: " + each->unreadable_problem();
    return source_->problem();
  }

  /// The cluster has reported something, or has stopped reporting.
  void on_event() {
    log_state();
    const std::uint64_t changes = source_->changes();
    if (!synced() || changes == seen_) return;
    seen_ = changes;
    std::vector<spec::UpstreamSpec> workers = workers_of(spec_, source_->workers());
    const FleetPlan plan = plan_of(workers_, workers);
    if (plan.empty()) return;
    telemetry::log_info(kComponent, fmt::format("{} ({}): {} workers; {} are new, {} have changed, {} are gone",
                                                spec_.name, name_of(*spec_.kubernetes), workers.size(), plan.add.size(),
                                                plan.replace.size(), plan.drain.size()));
    workers_ = std::move(workers);
    changes_->carry_out(plan, WorkerSource::kKubernetes);
  }

  void log_state() {
    const DiscoveryState now = state();
    const std::string what = problem();
    if (now == logged_state_ && what == logged_problem_) return;
    const bool is_news = now != logged_state_;
    logged_state_ = now;
    logged_problem_ = what;
    if (now == DiscoveryState::kSynced) {
      if (is_news) telemetry::log_info(kComponent, fmt::format("{}: synced", spec_.name));
    } else if (!what.empty()) {
      telemetry::log_warning(kComponent, fmt::format("{}: {}, its {} workers stay as they are: {}", spec_.name,
                                                     to_string(now), workers_.size(), what));
    }
  }

  void note(const std::string& problem) {
    if (std::exchange(problem_, problem) != problem)
      telemetry::log_warning(kComponent, fmt::format("{}: the cluster cannot be asked: {}", spec_.name, problem));
  }

  net::EventLoop* loop_;
  spec::WorkerGroupSpec spec_;
  FleetChanges* changes_;
  std::unique_ptr<ClusterSource> source_;
  net::Timer timer_;
  std::unique_ptr<kubernetes::ApiClient> client_;
  std::vector<spec::UpstreamSpec> workers_;  // as carried out last
  std::optional<std::uint64_t> seen_ = {};   // changes of the copies, that the workers are of; nothing: of no copy
  std::string problem_;                      // why nothing can be asked; empty: it can
  DiscoveryState logged_state_ = DiscoveryState::kStarting;
  std::string logged_problem_;
};

KubernetesGroups::KubernetesGroups(net::EventLoop& loop, const std::vector<spec::WorkerGroupSpec>& groups,
                                   const std::string& model, FleetChanges& changes)
    : loop_(&loop), model_(model), changes_(&changes) {
  for (const spec::WorkerGroupSpec& group : groups)
    if (group.kubernetes) groups_.push_back(make(group));
}

KubernetesGroups::~KubernetesGroups() = default;

void KubernetesGroups::start() {
  for (const auto& group : groups_) group->start();
}

std::unique_ptr<KubernetesGroups::Group> KubernetesGroups::make(const spec::WorkerGroupSpec& group) {
  return std::make_unique<Group>(*loop_, group, model_, *changes_);
}

KubernetesGroups::Groups::iterator KubernetesGroups::find(const std::string& name) {
  return std::ranges::find(groups_, name, [](const auto& group) { return group->name(); });
}

void KubernetesGroups::carry_out(const GroupPlan& plan) {
  for (const std::string& name : plan.remove) {
    const auto group = find(name);
    if (group == groups_.end()) continue;
    changes_->carry_out(plan_of((*group)->give_up(), {}), WorkerSource::kKubernetes);
    groups_.erase(group);
  }
  for (const spec::WorkerGroupSpec& spec : plan.replace) {
    const auto group = find(spec.name);
    if (group == groups_.end()) continue;
    std::vector<spec::UpstreamSpec> workers = (*group)->give_up();
    *group = make(spec);
    (*group)->take_over(std::move(workers));
    (*group)->start();
  }
  for (const spec::WorkerGroupSpec& spec : plan.add)
    if (spec.kubernetes) groups_.emplace_back(make(spec))->start();
}

void KubernetesGroups::stop() {
  for (const auto& group : groups_) group->stop();
}

std::vector<DiscoveryReport> KubernetesGroups::reports() const {
  std::vector<DiscoveryReport> reports;
  reports.reserve(groups_.size());
  for (const auto& group : groups_) reports.push_back(group->report());
  return reports;
}

}  // namespace kvist::gateway
