// Does a worker read texts and chats as the gateway does?
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
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/text/prompt_encoding.h"

namespace kvist::gateway {

enum class TokenizerMatch : std::uint8_t {
  kUnknown,    ///< not asked yet, or no answer came
  kSame,       ///< text and chat become the same tokens
  kDifferent,  ///< they do not: block names of the gateway mean nothing there
  kNotTold,    ///< the worker has no /tokenize
};
inline constexpr TokenizerMatch kTokenizerMatches[] = {TokenizerMatch::kUnknown, TokenizerMatch::kSame,
                                                       TokenizerMatch::kDifferent, TokenizerMatch::kNotTold};
/// "unknown", "same", "different", "not_told"
[[nodiscard]] std::string_view to_string(TokenizerMatch match);

/// Asks a worker's POST /tokenize for the tokens of a text of many scripts with look-alikes of special tokens, and for
/// those of a chat, and compares them with what the gateway makes of both under each reading there is: that of the
/// worker is the one that gives the same. Where no answer comes it asks again, after growing pauses. Loop thread only.
class TokenizerCheck {
 public:
  struct Options {
    Duration timeout = std::chrono::seconds(5);  ///< of one question
    Duration pause = std::chrono::seconds(1);    ///< before the second question; doubles up to `longest_pause`
    Duration longest_pause = std::chrono::minutes(1);
  };

  /// The others outlive it. `on_change`: match(), reading() or max_model_len() say something else than before.
  TokenizerCheck(net::EventLoop& loop, net::HttpClient& client, const PromptReader& reader, std::string worker,
                 std::string url, Options options, std::function<void()> on_change);

  /// Asks (again); what an earlier question brings is dropped.
  void start();

  [[nodiscard]] TokenizerMatch match() const { return match_; }
  /// How the worker reads texts; nothing unless match() is kSame.
  [[nodiscard]] std::optional<text::PromptReading> reading() const { return reading_; }
  /// Tokens of its context, as it told with an answer; 0: it did not.
  [[nodiscard]] std::uint32_t max_model_len() const { return max_model_len_; }

 private:
  /// What the gateway makes of a probe under one reading; nothing where it does not take the probe.
  using Own = std::function<std::optional<std::vector<TokenId>>(const text::PromptReading&)>;
  struct Question {
    std::string_view what;
    Own own;
    std::vector<text::PromptReading> readings;  ///< to try, the likeliest first
    std::function<void(const text::PromptReading&)> if_same;
  };

  void ask_for_text();
  void ask_for_chat(const text::PromptReading& of_texts);
  void ask(std::string body, Question question);
  void on_answer(const Result<net::HttpResponse>& answer, const Question& question);
  void compare(const std::vector<TokenId>& theirs, const Question& question);
  void decide(TokenizerMatch match, std::string_view why, std::optional<text::PromptReading> reading = std::nullopt);
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
  std::uint32_t told_model_len_ = 0;  // by the last answer; max_model_len_ once there is a verdict
  Duration pause_{};                  // before the next question, where this one gets no answer
  net::Timer timer_;
  std::unique_ptr<net::HttpCall> call_;
};

}  // namespace kvist::gateway
