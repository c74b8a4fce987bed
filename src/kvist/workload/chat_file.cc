#include "kvist/workload/chat_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/base/unpacked_file.h"
#include "kvist/workload/dynamo_trace.h"
#include "kvist/workload/text_lines.h"

namespace kvist::workload {
namespace {

constexpr std::uint32_t kMaxAnswerTokens = 1'000'000;
constexpr std::size_t kBeginningBytes = std::size_t{64} << 10;

constexpr std::string_view kSpaces = " \t\r\n";

bool is_user(std::string_view role) {
  return role == "user" || role == "human";
}
bool is_assistant(std::string_view role) {
  return role == "assistant" || role == "gpt" || role == "chatgpt" || role == "bing" || role == "bard";
}

/// Builds one script from messages in their order.
class ScriptBuilder {
 public:
  explicit ScriptBuilder(const ChatReading& reading) : reading_(reading) {}

  void add(std::string_view role, std::string_view text) {
    if (role == "system" && script_.turns.empty()) {
      script_.system = text;
    } else if (is_user(role)) {
      script_.turns.push_back({.message = std::string(text)});
    } else if (is_assistant(role) && !script_.turns.empty()) {
      script_.turns.back().max_tokens = tokens_of(text);
      if (reading_.replies) script_.turns.back().reply = text;
    }
  }
  void limit_answers(std::uint32_t tokens) {
    for (ChatScript::Turn& turn : script_.turns) turn.max_tokens = tokens;
  }
  [[nodiscard]] ChatScript take() { return std::move(script_); }

 private:
  [[nodiscard]] std::uint32_t tokens_of(std::string_view text) const {
    if (reading_.count_tokens && !text.empty()) {
      return std::clamp(reading_.count_tokens(text), 1U, kMaxAnswerTokens);
    }
    if (!(reading_.characters_per_token > 0) || text.empty()) return 0;
    const double tokens = std::ceil(static_cast<double>(text.size()) / reading_.characters_per_token);
    return static_cast<std::uint32_t>(std::clamp(tokens, 1.0, static_cast<double>(kMaxAnswerTokens)));
  }

  const ChatReading& reading_;
  ChatScript script_;
};

/// A list of messages with the names of their two members.
Result<void> add_messages(const JsonArray& messages, std::string_view role_key, std::string_view text_key,
                          ScriptBuilder& builder) {
  for (const JsonValue message : messages) {
    KVIST_TRY(const JsonObject object, message.as_object());
    KVIST_TRY(const std::optional<std::string_view> role, object.find_string(role_key));
    KVIST_TRY(const std::optional<std::string_view> text, object.find_string(text_key));
    if (role && text) builder.add(*role, *text);
  }
  return {};
}

Result<ChatScript> read_script(const JsonValue& value, const ChatReading& reading) {
  KVIST_TRY(const JsonObject object, value.as_object());
  ScriptBuilder builder(reading);
  KVIST_TRY(const std::optional<JsonArray> conversations, object.find_array("conversations"));
  KVIST_TRY(const std::optional<JsonArray> messages, object.find_array("messages"));
  KVIST_TRY(const std::optional<std::string_view> prompt, object.find_string("prompt"));
  if (conversations) KVIST_TRY_VOID(add_messages(*conversations, "from", "value", builder));
  if (messages) KVIST_TRY_VOID(add_messages(*messages, "role", "content", builder));
  if (prompt) builder.add("user", *prompt);
  for (const char* key : {"max_tokens", "output_tokens"}) {
    KVIST_TRY(const std::optional<std::uint64_t> tokens, object.find_unsigned(key, 1, kMaxAnswerTokens));
    if (tokens) builder.limit_answers(static_cast<std::uint32_t>(*tokens));
  }
  return builder.take();
}

/// Collects scripts up to the bounds; those without a turn are skipped.
class ScriptList {
 public:
  ScriptList(const std::string& name, const ChatLimits& limits) : name_(name), limits_(limits) {}

  Result<void> add(ChatScript script) {
    if (script.turns.empty()) return {};
    if (script.turns.size() > limits_.turns) {
      return fail(ErrorCode::kTooLarge, fmt::format("a conversation with {} messages of the user; at most {} are read",
                                                    script.turns.size(), limits_.turns));
    }
    if (scripts_.size() == limits_.conversations) {
      return fail(ErrorCode::kTooLarge, fmt::format("more than {} conversations; cut the file", limits_.conversations));
    }
    scripts_.push_back(std::move(script));
    return {};
  }
  Result<std::vector<ChatScript>> take() {
    if (!scripts_.empty()) return std::move(scripts_);
    return fail(ErrorCode::kInvalidArgument, name_ + ": no conversation with a message of a user in it");
  }

 private:
  const std::string& name_;
  ChatLimits limits_;
  std::vector<ChatScript> scripts_;
};

Error too_many_bytes(const std::string& name, const ChatLimits& limits) {
  return {.code = ErrorCode::kTooLarge,
          .message = fmt::format("{}: more than {} bytes; cut the file", name, limits.file_bytes)};
}

Result<void> read_share_gpt(std::string_view text, const std::string& name, const ChatReading& reading,
                            const ChatLimits& limits, ScriptList& list) {
  if (text.size() > limits.file_bytes) return std::unexpected(too_many_bytes(name, limits));
  JsonDocument document({.name = name, .wrong = ErrorCode::kInvalidArgument, .most_bytes = limits.file_bytes});
  KVIST_TRY(const JsonValue root, document.parse(text));
  KVIST_TRY(const JsonArray conversations, root.as_array("an array of conversations"));
  std::size_t index = 0;
  for (const JsonValue conversation : conversations) {
    KVIST_TRY(ChatScript script, read_script(conversation, reading));
    Result<void> added = list.add(std::move(script));
    if (!added) return std::unexpected(std::move(added).error().in(fmt::format("{}: [{}]", name, index)));
    ++index;
  }
  return {};
}

/// Reads JSON lines, one by one.
class LineReader {
 public:
  LineReader(const std::string& name, const ChatReading& reading, const ChatLimits& limits, ScriptList& list)
      : name_(name),
        reading_(reading),
        limits_(limits),
        list_(list),
        document_({.root = "line", .wrong = ErrorCode::kInvalidArgument, .most_bytes = limits.line_bytes}) {}

  Result<void> read(std::string_view line) {
    ++number_;
    bytes_ += line.size() + 1;
    if (bytes_ > limits_.file_bytes + 1) return std::unexpected(too_many_bytes(name_, limits_));
    if (line.find_first_not_of(kSpaces) == std::string_view::npos) return {};
    Result<void> done = read_line(line);
    if (!done) return std::unexpected(std::move(done).error().in(fmt::format("{}:{}", name_, number_)));
    return {};
  }

 private:
  Result<void> read_line(std::string_view line) {
    if (line.size() > limits_.line_bytes) {
      return fail(ErrorCode::kTooLarge,
                  fmt::format("longer than {} bytes; a line has one conversation", limits_.line_bytes));
    }
    KVIST_TRY(const JsonValue value, document_.parse(line));
    KVIST_TRY(ChatScript script, read_script(value, reading_));
    return list_.add(std::move(script));
  }

  const std::string& name_;
  const ChatReading& reading_;
  ChatLimits limits_;
  ScriptList& list_;
  JsonDocument document_;
  std::size_t number_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace

Result<DatasetKind> dataset_kind(std::string_view text, const std::string& name) {
  const std::size_t begin = text.find_first_not_of(kSpaces);
  const std::string_view rest = begin == std::string_view::npos ? std::string_view() : text.substr(begin);
  if (rest.starts_with('[')) return DatasetKind::kShareGpt;
  if (rest.starts_with('{')) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    for (const char* key : {"\"input_length\"", "\"hash_ids\"", "\"kvist_record\""}) {
      if (line.contains(key)) return DatasetKind::kTrace;
    }
    if (is_dynamo_trace(line)) return DatasetKind::kTrace;
    return DatasetKind::kChats;
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: begins with {}; want a ShareGPT array \"[...\" or JSON lines \"{{...\"", name,
                          in_quotes(rest.substr(0, 20))));
}

Result<std::vector<ChatScript>> read_chats(std::string_view text, const std::string& name, const ChatReading& reading,
                                           const ChatLimits& limits) {
  ScriptList list(name, limits);
  KVIST_TRY(const DatasetKind kind, dataset_kind(text, name));
  if (kind == DatasetKind::kShareGpt) {
    KVIST_TRY_VOID(read_share_gpt(text, name, reading, limits, list));
  } else {
    LineReader lines(name, reading, limits, list);
    KVIST_TRY_VOID(for_each_line(text, [&](std::string_view line, bool) { return lines.read(line); }));
  }
  return list.take();
}

Result<std::vector<ChatScript>> load_chats(const std::string& path, const ChatReading& reading,
                                           const ChatLimits& limits) {
  KVIST_TRY(const std::string beginning, beginning_of(path));
  KVIST_TRY(const DatasetKind kind, dataset_kind(beginning, path));
  ScriptList list(path, limits);
  if (kind == DatasetKind::kShareGpt) {
    KVIST_TRY(const std::string text, read_unpacked(path, limits.file_bytes));
    KVIST_TRY_VOID(read_share_gpt(text, path, reading, limits, list));
  } else {
    LineReader lines(path, reading, limits, list);
    KVIST_TRY_VOID(
        for_each_line_of_file(path, limits.line_bytes, [&](std::string_view line, bool) { return lines.read(line); }));
  }
  return list.take();
}

Result<std::string> beginning_of(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return fail(ErrorCode::kInvalidArgument, path + ": a folder; want a file");
  }
  KVIST_TRY(UnpackedFile file, UnpackedFile::open(path));
  std::string text(kBeginningBytes, '\0');
  KVIST_TRY(const std::size_t count, file.read(text));
  text.resize(count);
  return text;
}

}  // namespace kvist::workload
