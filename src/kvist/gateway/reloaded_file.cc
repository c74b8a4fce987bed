#include "kvist/gateway/reloaded_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace kvist::gateway {
namespace {

using Workers = std::vector<spec::UpstreamSpec>;

Workers::const_iterator find(const Workers& workers, const std::string& name) {
  return std::ranges::find(workers, name, &spec::UpstreamSpec::name);
}

/// The text of each key of a mapping, as the settings' own writer has it.
std::map<std::string, std::string> sections_of(spec::GatewaySpec gateway) {
  gateway.workers.clear();
  gateway.worker_groups.clear();
  gateway.models.clear();
  gateway.model_aliases.clear();
  gateway.drain_timeout = spec::GatewaySpec().drain_timeout;
  const std::string yaml = spec::to_yaml(gateway);
  std::map<std::string, std::string> sections;
  std::string key;
  for (std::string_view rest = yaml; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size() - 1);
    const std::string_view line = rest.substr(0, end + 1);
    rest.remove_prefix(end + 1);
    if (!line.starts_with(' ')) key = line.substr(0, line.find(':'));
    sections[key] += line;
  }
  return sections;
}

std::vector<std::string> keys_that_differ(const spec::GatewaySpec& before, const spec::GatewaySpec& after) {
  std::map<std::string, std::string> old = sections_of(before);
  std::vector<std::string> keys;
  for (auto& [key, text] : sections_of(after)) {
    const auto found = old.find(key);
    if (found == old.end() || found->second != text) keys.push_back(key);
    if (found != old.end()) old.erase(found);
  }
  for (const auto& [key, text] : old) keys.push_back(key);
  std::ranges::sort(keys);
  return keys;
}

/// A gateway of this model only.
spec::GatewaySpec alone(const spec::ServedModelSpec& model) {
  spec::GatewaySpec gateway;
  static_cast<spec::ServedModelSpec&>(gateway) = model;
  return gateway;
}

}  // namespace

FleetPlan plan_of(const Workers& before, const Workers& after) {
  FleetPlan plan;
  for (const spec::UpstreamSpec& old : before)
    if (find(after, old.name) == after.end()) plan.drain.push_back(old.name);
  for (const spec::UpstreamSpec& worker : after) {
    const auto old = find(before, worker.name);
    if (old == before.end()) {
      plan.add.push_back(worker);
      continue;
    }
    if (*old == worker) continue;
    spec::UpstreamSpec with_old_limits = worker;
    with_old_limits.limits = old->limits;
    (with_old_limits == *old ? plan.limits : plan.replace).push_back(worker);
  }
  return plan;
}

GroupPlan plan_of(const std::vector<spec::WorkerGroupSpec>& before, const std::vector<spec::WorkerGroupSpec>& after) {
  const auto named = [](const std::vector<spec::WorkerGroupSpec>& groups, const std::string& name) {
    return std::ranges::find(groups, name, &spec::WorkerGroupSpec::name);
  };
  GroupPlan plan;
  for (const spec::WorkerGroupSpec& old : before)
    if (named(after, old.name) == after.end()) plan.remove.push_back(old.name);
  for (const spec::WorkerGroupSpec& group : after) {
    const auto old = named(before, group.name);
    if (old != before.end() && *old == group) continue;
    const bool of_another_kind = old != before.end() && old->kubernetes.has_value() != group.kubernetes.has_value();
    if (of_another_kind) plan.remove.push_back(group.name);
    (old == before.end() || of_another_kind ? plan.add : plan.replace).push_back(group);
  }
  return plan;
}

std::vector<std::string> settings_that_differ(const spec::GatewaySpec& before, const spec::GatewaySpec& after) {
  std::vector<std::string> keys = keys_that_differ(before, after);
  if (before.models.empty() != after.models.empty()) keys.emplace_back("models");
  for (const spec::ServedModelSpec& model : after.models) {
    const auto old = std::ranges::find(before.models, model.model, &spec::ServedModelSpec::model);
    if (old == before.models.end()) continue;
    for (const std::string& key : keys_that_differ(alone(*old), alone(model)))
      keys.push_back(fmt::format("{} of {}", key, model.model));
  }
  return keys;
}

}  // namespace kvist::gateway
