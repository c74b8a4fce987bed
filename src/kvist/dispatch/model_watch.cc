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
  if (own != models.end()) return change(id, ModelMatch::kSame, model_, own->max_model_len);
  return change(id, ModelMatch::kOther, models.front().id.substr(0, kMostBytes), 0);
}

bool ModelWatch::on_no_list(WorkerId id) {
  return change(id, ModelMatch::kUnknown, "", 0);
}

bool ModelWatch::change(WorkerId id, ModelMatch match, std::string served, std::uint32_t max_model_len) {
  Worker& worker = workers_.at(id.value());
  const bool changed = worker.match != match || worker.served != served || worker.max_model_len != max_model_len;
  worker.match = match;
  worker.served = std::move(served);
  worker.max_model_len = max_model_len;
  if (changed) ++worker.changes;
  return changed;
}

bool ModelWatch::is_usable(WorkerId id) const {
  return workers_.at(id.value()).match != ModelMatch::kOther ||
         std::ranges::none_of(workers_, [](const Worker& worker) { return worker.match == ModelMatch::kSame; });
}

std::uint32_t ModelWatch::longest_context() const {
  return std::ranges::max(workers_, {}, &Worker::max_model_len).max_model_len;
}

}  // namespace kvist::dispatch
