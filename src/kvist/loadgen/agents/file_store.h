// The files that a coordinator sends to an agent: known by their digests, bounded, in a folder of the agent's own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/loadgen/agents/agent_messages.h"
#include "kvist/net/sha256.h"

namespace kvist::loadgen {

/// Files come in parts, in order, and are known by SHA-256, which is checked when the last part is there: nobody can
/// name a file of the agent's machine, and what is there is what was meant. Threads: one; path() any.
class FileStore {
 public:
  /// Of one part, of one file, of all together.
  static constexpr std::uint64_t kPartBytes = std::uint64_t{1} << 20;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;
  static constexpr std::size_t kMostFiles = 256;

  /// Requires: nothing else writes into the folder, which exists.
  explicit FileStore(std::filesystem::path folder, std::uint64_t most_bytes = kMostBytes)
      : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  [[nodiscard]] FileState state(const net::Sha256& digest) const;
  /// Adds a part that begins at `offset`, where the file ends so far, of a file of `size` bytes. Errors:
  /// kInvalidArgument for another offset, a part beyond the size, or a whole file with another digest, which is
  /// forgotten; kResourceExhausted if there is no room.
  [[nodiscard]] Result<FileState> add(const net::Sha256& digest, std::uint64_t offset, std::uint64_t size,
                                      std::string_view part);
  /// Forgets all files.
  void clear();
  /// Where a complete file is. Errors: kNotFound.
  [[nodiscard]] static Result<std::string> path(const std::filesystem::path& folder, const net::Sha256& digest);

 private:
  struct Part {
    std::uint64_t size = 0;   // of the whole file
    std::uint64_t bytes = 0;  // that are there
    bool complete = false;
  };

  [[nodiscard]] std::uint64_t promised_bytes() const;
  [[nodiscard]] Result<void> finish(const net::Sha256& digest, Part& part);

  std::filesystem::path folder_;
  std::uint64_t most_bytes_;
  std::map<net::Sha256, Part> files_;
};

}  // namespace kvist::loadgen
