// What an administrator has decided of workers, by their names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvist::dispatch {

/// What an administrator wants of a worker.
enum class WorkerHold : std::uint8_t {
  kCordoned,  ///< it is to get no requests
  kRemoved,   ///< it is not to be in the fleet
};
/// "cordoned", "removed"
[[nodiscard]] constexpr std::string_view to_string(WorkerHold hold) {
  return hold == WorkerHold::kCordoned ? "cordoned" : "removed";
}

/// A hold outlasts the worker's place: if a file or DNS drops the worker and lists it again, this does not undo what a
/// person has decided; only a person does. Memory: beyond kMost names, the one that was decided on first is forgotten.
/// Threads: one.
class WorkerHolds {
 public:
  static constexpr std::size_t kMost = 4'096;

  struct Entry {
    std::string name;
    WorkerHold hold = WorkerHold::kCordoned;
  };

  /// Sets the hold, in place of what was decided before.
  void set(std::string_view name, WorkerHold hold) {
    (void)release(name);
    if (entries_.size() >= kMost) entries_.erase(entries_.begin());
    entries_.push_back({.name = std::string(name), .hold = hold});
  }
  /// Returns whether there was anything to undo.
  bool release(std::string_view name) {
    return std::erase_if(entries_, [name](const Entry& entry) { return entry.name == name; }) > 0;
  }
  [[nodiscard]] std::optional<WorkerHold> find(std::string_view name) const {
    const auto found = std::ranges::find(entries_, name, &Entry::name);
    return found == entries_.end() ? std::nullopt : std::optional(found->hold);
  }
  /// The one that was decided on first comes first.
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

}  // namespace kvist::dispatch
