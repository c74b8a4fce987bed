// Streams that another worker can go on with: what a worker tells of the tokens in its chunks, and how it is asked to
// go on behind them. docs/design/migration.md has the protocol.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/id.h"

namespace kvist::openai {

/// In a request: the sender wants a stream that can be resumed, and has so many tokens of the answer already (0, unless
/// the request has kvist_resume). In the answer: the stream can be resumed, and the value is its `created`; or one of
/// the words below says why it cannot.
inline constexpr std::string_view kResumableHeader = "x-kvist-resumable";
inline constexpr std::string_view kSeveralChoices = "several_choices";
inline constexpr std::string_view kToolCalls = "tool_calls";

/// Reads the whole value of the header.
[[nodiscard]] std::optional<std::int64_t> read_resumable(std::string_view value);

/// A line before the first event of a group: which tokens the answer has once the group is passed on. It is a comment
/// of the SSE format, so that a reader who does not know it ignores it. A group is what a worker writes at once.
struct TokenNote {
  std::uint32_t events = 1;      ///< of the group, this one included
  std::string_view tokens = {};  ///< ",17,4", to be read with for_each_token()
  std::size_t bytes = 0;         ///< of the line, with its end
};

/// Appends ":1,17,4" and a line feed.
void append_token_note(std::string& out, std::uint32_t events, std::span<const TokenId> tokens);
/// Reads the line that `event` begins with; nothing if it is another line, or longer than kMaxTokenNoteBytes.
[[nodiscard]] std::optional<TokenNote> read_token_note(std::string_view event);
inline constexpr std::size_t kMaxTokenNoteBytes = 64UL << 10;
/// The most events of a group.
inline constexpr std::uint32_t kMaxGroupedEvents = 4'096;

/// Appends the tokens of a note. Requires: read_token_note() returned it.
void append_tokens_of(const TokenNote& note, std::vector<TokenId>& out);

/// The body of a chat or completion with the field kvist_resume at its beginning, every other byte unchanged. Requires:
/// `body` is the text of a JSON object with at least one member.
[[nodiscard]] std::string with_resumption(std::string_view body, std::span<const TokenId> tokens, std::int64_t created);

}  // namespace kvist::openai
