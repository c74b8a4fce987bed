// One turn over HTTP: sends the request, reads the stream, reports what was measured.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/loadgen/answer_reader.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_types.h"
#include "kvist/workload/prompt_ids.h"
#include "kvist/workload/turn_clock.h"
#include "kvist/workload/turn_sample.h"
#include "kvist/workload/turn_source.h"

namespace kvist::loadgen {

/// Receives the events of turns under way. Threads: called on the loop's, never from within TurnCall's constructor.
class TurnListener {
 public:
  virtual ~TurnListener() = default;
  /// `chunks` content chunks were read at `at`, with `gaps_ms` between them and to the one before. `ttft` is set if the
  /// first of them was the first token.
  virtual void on_content(TimePoint at, std::uint32_t chunks, std::optional<Duration> ttft,
                          std::span<const float> gaps_ms) = 0;
  /// The turn has ended, with or without success. `status`: of the answer; 0: none came. Requires: the call is not
  /// destroyed before this returns to the loop.
  virtual void on_finished(workload::TurnSample sample, std::string reply, int status) = 0;
};

/// The server to which turns are sent.
struct Target {
  std::string url;  ///< http://host:port
  std::string model;
  Duration timeout{};      ///< of a whole turn
  std::string request_id;  ///< prefix of X-Request-Id, by which this run's requests are recognised in the server's logs
  std::string path = "/v1/chat/completions";
  net::Headers headers = {};   ///< further ones
  std::uint64_t run_seed = 0;  ///< of X-Session-ID: workload::session_name()
  std::optional<workload::PromptIds> prompt_ids =
      {};  ///< prompts are sent as token ids, to an endpoint that takes them
  /// Counts the tokens of an answer whose server does not report them; null: one per chunk.
  std::function<std::uint32_t(std::string_view)> count_tokens = {};
  std::vector<std::string> secrets = {};  ///< left out of what a failed turn says (redaction.h)
};

/// A turn under way. The constructor sends it. It succeeds if the stream ended with [DONE] and something was
/// generated; everything else is a failure with its cause. `sent` of the sample is when the socket took the request's
/// last byte or, if it never did (no connection), when the request was handed to the HTTP client. The destructor closes
/// the connection and reports nothing. Threads: the loop's.
class TurnCall {
 public:
  /// `target` and `listener` must outlive the call.
  TurnCall(net::HttpClient& client, const Target& target, workload::StartTurn turn, TurnListener& listener);
  TurnCall(const TurnCall&) = delete;  // because the handlers and the reader refer to it
  TurnCall& operator=(const TurnCall&) = delete;

  /// Closes the connection and returns what was measured, as kAbandoned. The listener is not called any more.
  [[nodiscard]] workload::TurnSample abandon(TimePoint now);

 private:
  [[nodiscard]] net::CallHandlers handlers();
  void on_head(int status, const net::Headers& headers);
  void on_body(std::string_view data, TimePoint at);
  void on_end();
  void on_error(const Error& error);
  void succeed(TimePoint ended);
  void fail_turn(const std::string& what, TimePoint ended);

  const Target* target_;
  TurnListener* listener_;
  Duration timeout_;
  std::uint32_t most_tokens_;  // that were asked for
  workload::TurnClock clock_;
  AnswerReader reader_;
  int status_ = 0;
  std::string error_body_;  // the beginning of the body, if the answer is not a stream
  bool finished_ = false;
  std::unique_ptr<net::HttpCall> call_;
};

}  // namespace kvist::loadgen
