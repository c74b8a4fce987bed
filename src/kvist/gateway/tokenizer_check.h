// Does a worker read texts and chats as the gateway does?
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/gateway/prompt_reader.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"

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
/// those of a chat, and compares them with the gateway's own. Where no answer comes it asks again, after growing
/// pauses. Loop thread only.
class TokenizerCheck {
 public:
  struct Options {
    Duration timeout = std::chrono::seconds(5);  ///< of one question
    Duration pause = std::chrono::seconds(1);    ///< before the second question; doubles up to `longest_pause`
    Duration longest_pause = std::chrono::minutes(1);
  };

  /// The others outlive it. `on_change`: match() may say something else than before.
  TokenizerCheck(net::EventLoop& loop, net::HttpClient& client, const PromptReader& reader, std::string worker,
                 std::string url, Options options, std::function<void()> on_change);

  /// Asks (again); what an earlier question brings is dropped.
  void start();

  [[nodiscard]] TokenizerMatch match() const { return match_; }

 private:
  using Tokens = Result<std::vector<TokenId>>;

  void ask_for_text();
  void ask(std::string body, std::string_view what, Tokens own, std::function<void()> if_same);
  void on_answer(const Result<net::HttpResponse>& answer, std::string_view what, const Tokens& own,
                 const std::function<void()>& if_same);
  void ask_for_chat();
  void decide(TokenizerMatch match, std::string_view why);
  void ask_later();

  net::HttpClient* client_;
  const PromptReader* reader_;
  std::string worker_;
  std::string url_;
  Options options_;
  std::function<void()> on_change_;
  TokenizerMatch match_ = TokenizerMatch::kUnknown;
  Duration pause_{};  // before the next question, where this one gets no answer
  net::Timer timer_;
  std::unique_ptr<net::HttpCall> call_;
};

}  // namespace kvist::gateway
