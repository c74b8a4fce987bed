// Why turns failed, counted by reason.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace kvist::sweep {

/// Counts the failed turns of a level by their error. Of errors that are all different only the first are kept apart.
class FailureReasons {
 public:
  void add(const std::string& error);
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// "no worker is healthy"; of several reasons the most frequent with their numbers: "791: no worker is healthy; 12:
  /// the worker broke off its answer; 3 for other reasons". Empty without failures.
  [[nodiscard]] std::string text() const;

 private:
  std::map<std::string, std::uint64_t> counts_;
  std::uint64_t count_ = 0;
};

}  // namespace kvist::sweep
