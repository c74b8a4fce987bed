#include "kvist/gateway/model_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/base/json.h"

namespace kvist::gateway {
namespace {

/// How much of an unknown name a message repeats.
constexpr std::size_t kMostQuoted = 200;

}  // namespace

ModelNames::ModelNames(std::vector<Model> models) : models_(std::move(models)) {
  for (const Model& model : models_) {
    own_.emplace(model.name, model.id);
    for (const std::string& alias : model.aliases) own_.emplace(alias, model.id);
    for (const std::string& adapter : model.adapters) adapters_.emplace(adapter, model.id);
  }
}

std::optional<ModelId> ModelNames::only() const {
  return models_.size() == 1 ? std::optional(models_.front().id) : std::nullopt;
}

std::optional<ModelId> ModelNames::owner(std::string_view name) const {
  const auto found = own_.find(name);
  return found == own_.end() ? std::nullopt : std::optional(found->second);
}

Result<ModelId> ModelNames::find(const std::optional<std::string>& name) const {
  if (!name) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("model: missing; this gateway serves {}", list()));
  }
  if (const auto model = owner(*name)) return *model;
  if (const auto found = adapters_.find(*name); found != adapters_.end()) return found->second;
  return fail(ErrorCode::kNotFound, fmt::format("The model {} does not exist; this gateway serves {}",
                                                in_quotes(std::string_view(*name).substr(0, kMostQuoted)), list()));
}

std::string ModelNames::list() const {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(models_.size(), kMost); ++i)
    text += (i == 0 ? "" : ", ") + in_quotes(models_[i].name);
  if (models_.size() > kMost) text += fmt::format(" and {} more (GET /v1/models)", models_.size() - kMost);
  return text.empty() ? "none" : text;
}

}  // namespace kvist::gateway
