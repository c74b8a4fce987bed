// Answers of OpenAI's Responses API. Private to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"
#include "kvist/dialects/chat_answer.h"
#include "kvist/dialects/dialect.h"
#include "kvist/openai/types.h"

namespace kvist::dialects {

/// One item of an answer's output.
struct OutputItem {
  enum class Kind : std::uint8_t { kReasoning, kMessage, kCall };
  Kind kind = Kind::kMessage;
  std::string id = {};
  std::string text = {};  ///< a call's arguments
  std::string call_id = {};
  std::string name = {};
  std::uint32_t call = 0;  ///< the call's index in the chat completion
  bool is_cut = false;     ///< the answer ended within it, so that a call must not be run
};

/// A stream becomes response.created, response.in_progress, the output's items one after another, each with its parts,
/// and response.completed or response.incomplete; an error becomes `error` and response.failed. The items are kept, as
/// the last events repeat them. Threads: one.
class ResponsesAnswer final : public ChatAnswerTranslator {
 public:
  /// `echo` are members of a JSON object (ResponsesRequest::echo).
  explicit ResponsesAnswer(std::string echo) : echo_(std::move(echo)) {}

  void end(std::string& out) override;
  void on_error(std::string_view message, std::string& out) override;

 private:
  [[nodiscard]] Result<std::string> whole_of(const ChatPart& part) override;
  [[nodiscard]] Result<void> add_chunk(const ChatPart& part, std::string& out) override;

  void identify(const ChatPart& part);
  void start(std::string& out);
  [[nodiscard]] Result<void> add(const ChatPart& part, std::string& out);
  [[nodiscard]] Result<void> add_text(OutputItem::Kind kind, std::string_view text, std::string& out);
  [[nodiscard]] Result<void> add_call(const CallPart& call, std::string& out);
  [[nodiscard]] Result<void> keep(std::string_view text);
  void open(OutputItem item, std::string& out);
  void close(std::string& out);
  /// The part of the last item, if its kind has parts: "response.NAME" with `fields` and what is common to all.
  void write_delta(std::string_view name, std::string_view field, std::string_view text, bool has_part,
                   std::string& out);
  void write_part(std::string_view event, std::string_view part, std::string& out);
  void write_item(std::string_view event, bool done, std::string& out);
  void write_response(std::string_view event, std::string_view status, std::string& out);
  [[nodiscard]] JsonWriter event(std::string_view type);
  [[nodiscard]] std::string response(std::string_view status, std::string_view error) const;
  [[nodiscard]] std::string_view final_status() const;

  std::string echo_;
  std::string id_;
  std::string model_;
  std::int64_t created_ = 0;
  std::string finish_reason_;
  std::optional<openai::Usage> usage_;
  std::string error_;  // of a failed answer
  std::vector<OutputItem> items_;
  bool open_ = false;  // the last item goes on
  bool started_ = false;
  std::uint64_t sequence_ = 0;
  std::size_t kept_ = 0;         // bytes of all items
  std::uint32_t next_call_ = 0;  // one more than the index of the last call
  std::string call_id_;          // of that call
};

}  // namespace kvist::dialects
