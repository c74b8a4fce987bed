// Conversations of users from a file, as the load generator drives them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/workload/dataset.h"

namespace kvist::workload {

/// What a file holds, by its first characters.
enum class DatasetKind {
  kShareGpt,  ///< a JSON array of {"conversations": [{"from", "value"}, ...]}
  kChats,     ///< JSON lines with {"messages": [...]} or {"prompt": ...}
  kTrace,     ///< JSON lines with {"input_length", ...} (docs/formats/trace.md), or a record of traffic
};

/// Errors: a text that is none of these.
[[nodiscard]] Result<DatasetKind> dataset_kind(std::string_view text, const std::string& name);

/// Bounds of a file of chats; what exceeds one is refused with its place.
struct ChatLimits {
  std::size_t file_bytes = std::size_t{1} << 30;
  std::size_t line_bytes = std::size_t{16} << 20;
  std::size_t conversations = 10'000'000;
  std::size_t turns = 1'000;  ///< messages of the user in one conversation
};

/// Reads a ShareGPT file or JSON lines (docs/formats/datasets.md). Replies in the file are not sent, because answers
/// are live; with `characters_per_token` above 0 their length limits the live answer. What has no message of a user is
/// skipped. Errors name the file and the place; kInvalidArgument if there is no conversation at all, kTooLarge beyond a
/// limit.
[[nodiscard]] Result<std::vector<ChatScript>> read_chats(std::string_view text, const std::string& name,
                                                         double characters_per_token, const ChatLimits& limits = {});
/// The same from a file.
[[nodiscard]] Result<std::vector<ChatScript>> load_chats(const std::string& path, double characters_per_token,
                                                         const ChatLimits& limits = {});

/// The first 64 KiB of a file, for dataset_kind().
[[nodiscard]] Result<std::string> beginning_of(const std::string& path);

}  // namespace kvist::workload
