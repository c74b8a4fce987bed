#include "kvist/dispatch/model_watch.h"

#include <algorithm>
#include <utility>

namespace kvist::dispatch {

std::string_view to_string(ModelMatch match) {
  switch (match) {
    case ModelMatch::kUnknown:
      return "unknown";
    case ModelMatch::kSame:
      return "same";
    case ModelMatch::kOther:
      return "other";
  }
  return "unknown";
}

bool ModelWatch::on_list(WorkerId id, std::span<const ServedModel> models) {
  constexpr std::size_t kMostBytes = 200;
  if (models.empty()) return on_no_list(id);
  const auto own = std::ranges::find(models, model_, &ServedModel::id);
  if (own == models.end())
    return change(id, {.match = ModelMatch::kOther, .served = models.front().id.substr(0, kMostBytes)});
  return change(id, {.match = ModelMatch::kSame,
                     .served = model_,
                     .max_model_len = own->max_model_len,
                     .adapters = adapters_in(models)});
}

bool ModelWatch::on_no_list(WorkerId id) {
  return change(id, {});
}

bool ModelWatch::change(WorkerId id, Worker now) {
  Worker& worker = workers_.at(id.value());
  now.changes = worker.changes;
  const bool changed = worker.match != now.match || worker.served != now.served ||
                       worker.max_model_len != now.max_model_len || worker.adapters != now.adapters;
  if (changed) ++now.changes;
  worker = std::move(now);
  return changed;
}

// An engine that serves its model under several names gives the first of them as the parent of all adapters. The names
// of one model have the same root.
std::vector<std::string> ModelWatch::adapters_in(std::span<const ServedModel> models) const {
  const auto own = std::ranges::find(models, model_, &ServedModel::id);
  const auto is_own = [&](const std::string& parent) {
    if (parent == model_) return true;
    const auto other = std::ranges::find(models, parent, &ServedModel::id);
    return other != models.end() && other->parent.empty() && !own->root.empty() && other->root == own->root;
  };
  std::vector<std::string> adapters;
  for (const ServedModel& model : models) {
    const bool is_adapter = !model.parent.empty() && !model.id.empty() && model.id != model_;
    if (is_adapter && model.id.size() <= kMaxAdapterNameBytes && is_own(model.parent)) adapters.push_back(model.id);
  }
  std::ranges::sort(adapters);
  const auto twice = std::ranges::unique(adapters);
  adapters.erase(twice.begin(), twice.end());
  return adapters;
}

std::vector<std::string> ModelWatch::adapters() const {
  std::vector<std::string> all;
  for (const Worker& worker : workers_) all.insert(all.end(), worker.adapters.begin(), worker.adapters.end());
  std::ranges::sort(all);
  const auto twice = std::ranges::unique(all);
  all.erase(twice.begin(), twice.end());
  return all;
}

bool ModelWatch::is_usable(WorkerId id) const {
  return workers_.at(id.value()).match != ModelMatch::kOther ||
         std::ranges::none_of(workers_, [](const Worker& worker) { return worker.match == ModelMatch::kSame; });
}

std::uint32_t ModelWatch::longest_context() const {
  return std::ranges::max(workers_, {}, &Worker::max_model_len).max_model_len;
}

}  // namespace kvist::dispatch
