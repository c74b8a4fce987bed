// Checks whether a worker tokenizes texts and chats as the gateway does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/gateway/prompt_reader.h"
#include "kvist/gateway/warning_gate.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/text/prompt_encoding.h"

namespace kvist::gateway {

enum class TokenizerMatch : std::uint8_t {
  kUnknown,    ///< not asked yet, or not answered
  kSame,       ///< text and chat give the same tokens
  kDifferent,  ///< they give other tokens, so the gateway's block hashes are useless there
  kNotTold,    ///< the worker has no /tokenize (a 404 that is about the model's name says nothing of it)
};
inline constexpr TokenizerMatch kTokenizerMatches[] = {TokenizerMatch::kUnknown, TokenizerMatch::kSame,
                                                       TokenizerMatch::kDifferent, TokenizerMatch::kNotTold};
/// "unknown", "same", "different", "not_told"
[[nodiscard]] std::string_view to_string(TokenizerMatch match);

/// Asks a worker's POST /tokenize for the tokens of a text, with many scripts and look-alikes of special tokens, and
/// for those of a chat. It compares them with the gateway's own tokens in every reading; the worker's reading is the
/// one that gives the same tokens. Without an answer it asks again, after growing pauses. Threads: the loop's.
class TokenizerCheck {
 public:
  struct Options {
    Duration timeout = std::chrono::seconds(5);  ///< of one request
    Duration pause = std::chrono::seconds(1);    ///< before the second request; doubles up to `longest_pause`
    Duration longest_pause = std::chrono::minutes(1);
  };

  /// Calls `on_change` when match(), reading() or max_model_len() has changed. Requires: the other arguments outlive
  /// this object.
  TokenizerCheck(net::EventLoop& loop, net::HttpClient& client, const PromptReader& reader, std::string worker,
                 std::string url, Options options, std::function<void()> on_change);

  /// Starts the check, or starts it afresh. Answers to earlier requests are dropped.
  void start();

  [[nodiscard]] TokenizerMatch match() const { return match_; }
  /// The worker's reading; nothing unless match() is kSame.
  [[nodiscard]] std::optional<text::PromptReading> reading() const { return reading_; }
  /// The worker's context length in tokens, as reported in an answer; 0: not reported.
  [[nodiscard]] std::uint32_t max_model_len() const { return max_model_len_; }

 private:
  /// The gateway's tokens of a probe in one reading; nothing if the gateway refuses the probe.
  using Own = std::function<std::optional<std::vector<TokenId>>(const text::PromptReading&)>;
  struct Question {
    std::string_view what;
    Own own;
    std::vector<text::PromptReading> readings;  ///< to be tried, the likeliest first
    std::function<void(const text::PromptReading&)> if_same;
  };

  void ask_for_text();
  void ask_for_chat(const text::PromptReading& of_texts);
  void ask(std::string body, Question question);
  void on_answer(const Result<net::HttpResponse>& answer, const Question& question);
  void compare(const std::vector<TokenId>& theirs, const Question& question);
  void decide(TokenizerMatch match, std::string_view why, std::optional<text::PromptReading> reading = std::nullopt);
  void log(TokenizerMatch match, const std::string& text);
  void ask_later();

  net::HttpClient* client_;
  const PromptReader* reader_;
  std::string worker_;
  std::string url_;
  Options options_;
  std::function<void()> on_change_;
  TokenizerMatch match_ = TokenizerMatch::kUnknown;
  std::optional<text::PromptReading> reading_;
  std::uint32_t max_model_len_ = 0;
  std::uint32_t told_model_len_ = 0;  // of the last answer; copied to max_model_len_ with the result
  Duration pause_{};                  // before the next request, if this one gets no answer
  std::string logged_;                // last
  WarningGate warnings_;
  net::Timer timer_;
  std::unique_ptr<net::HttpCall> call_;
};

}  // namespace kvist::gateway
