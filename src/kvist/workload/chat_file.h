// Conversations of users from a file, as the load generator drives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/workload/dataset.h"

namespace kvist::workload {

/// What a file holds, as its first characters tell.
enum class DatasetKind {
  kShareGpt,  ///< a JSON array of {"conversations": [{"from", "value"}, ...]}
  kChats,     ///< JSON lines with {"messages": [...]} or {"prompt": ...}
  kTrace,     ///< JSON lines with {"input_length", ...} (docs/formats/trace.md), or a record of traffic
};

/// Errors: a text that is none of these.
[[nodiscard]] Result<DatasetKind> dataset_kind(std::string_view text, const std::string& name);

/// How a file of chats is read.
struct ChatReading {
  double characters_per_token = 0;  ///< above 0: the length of a reply in the file limits the live answer
  std::function<std::uint32_t(std::string_view)> count_tokens = {};  ///< the same, exactly
  bool replies = false;  ///< the replies in the file are kept, for spec::Replies::kRecorded
};

/// Bounds of a file of chats; what exceeds one is refused with its place.
struct ChatLimits {
  std::size_t file_bytes = std::size_t{1} << 30;
  std::size_t line_bytes = std::size_t{16} << 20;
  std::size_t conversations = 10'000'000;
  std::size_t turns = 1'000;  ///< messages of the user in one conversation
};

/// Reads a ShareGPT file or JSON lines (docs/formats/datasets.md). A conversation without a message of a user is
/// skipped. Errors name the file and the place; kInvalidArgument if there is no conversation at all, kTooLarge beyond a
/// limit.
[[nodiscard]] Result<std::vector<ChatScript>> read_chats(std::string_view text, const std::string& name,
                                                         const ChatReading& reading, const ChatLimits& limits = {});
/// The same from a file.
[[nodiscard]] Result<std::vector<ChatScript>> load_chats(const std::string& path, const ChatReading& reading,
                                                         const ChatLimits& limits = {});

/// The first 64 KiB of a file, for dataset_kind().
[[nodiscard]] Result<std::string> beginning_of(const std::string& path);

}  // namespace kvist::workload
