// Stored runs: which there are, their curves, their levels over time, comparisons, downloads.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/analysis/run_analysis.h"
#include "kvist/base/error.h"
#include "kvist/results/store.h"

namespace kvist::dashboard {

/// A file of a run to be saved.
struct Download {
  std::string content_type;
  std::string body;
};

/// Reads databases and analyses them, which can take seconds. Threads: one at a time. Memory: one level's samples, and
/// the analyses of the last kKeptRuns runs.
class RunLibrary {
 public:
  static constexpr std::size_t kKeptRuns = 8;
  static constexpr std::size_t kMostFiles = 256;

  /// A database, or a folder that holds one, or all of those in a folder's folders, the one written last first
  /// (analysis::find_databases). What cannot be read among several is named by runs_json(). Errors: there is none, or
  /// none that can be read.
  [[nodiscard]] Result<void> add(const std::string& place);
  [[nodiscard]] bool is_empty() const { return files_.empty(); }

  // The results of commands, as JSON (docs/formats/dashboard.md). Errors: kNotFound for an unknown id.
  [[nodiscard]] Result<std::string> runs_json();
  [[nodiscard]] Result<std::string> run_json(std::string_view run);
  [[nodiscard]] Result<std::string> level_json(std::string_view run, std::int64_t level);
  [[nodiscard]] Result<std::string> compare_json(std::string_view baseline, std::string_view candidate);
  [[nodiscard]] Result<Download> file(std::string_view run, std::string_view name);

 private:
  [[nodiscard]] Result<void> add_file(const std::string& path);

  struct File {
    std::string path;
    std::string name;  ///< for people: the folder's and the file's
    std::unique_ptr<results::Store> store;
  };
  struct Analysed {
    std::string id;
    std::vector<results::LevelHead> levels;
    std::shared_ptr<const analysis::RunAnalysis> analysis;
  };
  struct Found {
    File* file = nullptr;
    std::int64_t run = 0;
  };
  [[nodiscard]] Result<Found> find(std::string_view id);
  /// The analysis that an earlier question made, made again if levels have come since, or were measured again.
  [[nodiscard]] Result<Analysed> analysed(std::string_view id);

  std::vector<File> files_;
  std::vector<std::string> left_out_;  // why, each
  std::deque<Analysed> kept_;          // the last used at the end
};

/// A level's figures, once a second, from its turns; and the workers' timelines.
[[nodiscard]] std::string level_json(std::string_view run, std::int64_t id, const results::LevelRecord& level);

}  // namespace kvist::dashboard
