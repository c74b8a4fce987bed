// Answers of Anthropic's Messages API. Private to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/json.h"
#include "kvist/dialects/chat_answer.h"
#include "kvist/dialects/dialect.h"
#include "kvist/openai/types.h"

namespace kvist::dialects {

/// {"type":"error","error":{"type","message"},"request_id"}; an empty id is null.
[[nodiscard]] std::string messages_error(int status, std::string_view message, std::string_view request_id);

/// A stream becomes message_start, blocks one after another, message_delta, message_stop. A chat completion says at its
/// end how many tokens its prompt had, so the usage of message_start is 0 and that of message_delta is complete, as
/// Anthropic's own is (its counts are cumulative). Threads: one.
class MessagesAnswer final : public ChatAnswerTranslator {
 public:
  void end(std::string& out) override;
  void on_error(std::string_view message, std::string& out) override;

 private:
  [[nodiscard]] Result<std::string> whole_of(const ChatPart& part) override;
  [[nodiscard]] Result<void> add_chunk(const ChatPart& part, std::string& out) override;

  enum class Block : std::uint8_t { kNone, kThinking, kText, kCall };

  void start(const ChatPart& part, std::string& out);
  void add_text(Block kind, std::string_view text, std::string& out);
  [[nodiscard]] Result<void> add_call(const CallPart& call, std::string& out);
  void open(Block kind, std::string_view block, std::string& out);
  void close(std::string& out);

  bool started_ = false;
  Block block_ = Block::kNone;
  std::uint32_t blocks_ = 0;     // opened so far
  std::uint32_t next_call_ = 0;  // one more than the call of the last block of a call
  std::string call_id_;          // of that call
  std::string finish_reason_;
  std::string stop_;
  openai::Usage usage_;
};

}  // namespace kvist::dialects
