// Which of the served models a name stands for.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"

namespace kvist::gateway {

/// All names under which clients may ask for a model: its own, its aliases, and those of its adapters. A name that is a
/// model's own or an alias is never that of another model's adapter. Immutable, so that all loops share one. Threads:
/// any.
class ModelNames {
 public:
  struct Model {
    ModelId id;
    std::string name;
    std::vector<std::string> aliases = {};
    std::vector<std::string> adapters = {};  ///< that its workers list
  };

  ModelNames() = default;
  /// Of two models that have a name, the first one gets the requests.
  explicit ModelNames(std::vector<Model> models);

  /// The model, if there is only one. Then requests need not name it, and its workers refuse the names that they do not
  /// know.
  [[nodiscard]] std::optional<ModelId> only() const;
  /// The model that is called so. Errors: kInvalidArgument if no name is given, kNotFound if no model has it; the
  /// message names the models that there are.
  [[nodiscard]] Result<ModelId> find(const std::optional<std::string>& name) const;
  /// The model whose own name or alias this is; nothing if there is none.
  [[nodiscard]] std::optional<ModelId> owner(std::string_view name) const;
  [[nodiscard]] std::size_t size() const { return models_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Table = std::unordered_map<std::string, ModelId, Hash, std::equal_to<>>;

  /// The models' names, as many as a message should have.
  [[nodiscard]] std::string list() const;

  std::vector<Model> models_;
  Table own_;
  Table adapters_;
};

}  // namespace kvist::gateway
