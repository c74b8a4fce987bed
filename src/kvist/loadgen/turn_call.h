// One turn over HTTP: sends the request, reads the stream, reports what was measured.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/loadgen/answer_reader.h"
#include "kvist/net/http_client.h"
#include "kvist/workload/turn_clock.h"
#include "kvist/workload/turn_sample.h"
#include "kvist/workload/turn_source.h"

namespace kvist::loadgen {

/// Hears of turns under way. Called on the loop's thread, never from within TurnCall's constructor.
class TurnListener {
 public:
  virtual ~TurnListener() = default;
  /// `chunks` content chunks were read at `at`; `ttft` where the first of them was the first token.
  virtual void on_content(TimePoint at, std::uint32_t chunks, std::optional<Duration> ttft) = 0;
  /// The turn is over, well or not. The call must not be destroyed before this returns to the loop.
  virtual void on_finished(workload::TurnSample sample, std::string reply) = 0;
};

/// Where turns are sent.
struct Target {
  std::string url;  ///< http://host:port
  std::string model;
  Duration timeout{};          ///< of one turn, whole
  std::string request_id;      ///< prefix of X-Request-Id: tells this run's requests apart in the server's logs
  std::uint64_t run_seed = 0;  ///< of X-Session-ID: workload::session_name()
};

/// A turn under way, sent when constructed. A success is a stream that ended with [DONE] and had content; everything
/// else is a failure with its cause. `sent` of the sample is when the socket took the request's last byte; where it
/// never did (no connection), when the request was handed to the client. Owned by the service, on the loop's thread;
/// destroying it closes the connection and reports nothing.
class TurnCall {
 public:
  /// `listener` must outlive the call.
  TurnCall(net::HttpClient& client, const Target& target, workload::StartTurn turn, TurnListener& listener);
  TurnCall(const TurnCall&) = delete;  // the handlers and the reader refer to it
  TurnCall& operator=(const TurnCall&) = delete;

  /// Closes the connection and returns what was measured, as kAbandoned. The listener hears nothing more.
  [[nodiscard]] workload::TurnSample abandon(TimePoint now);

 private:
  [[nodiscard]] net::CallHandlers handlers();
  void on_head(int status, const net::Headers& headers);
  void on_body(std::string_view data, TimePoint at);
  void on_end();
  void on_error(const Error& error);
  void succeed(TimePoint ended);
  void fail_turn(const std::string& what, TimePoint ended);

  TurnListener* listener_;
  Duration timeout_;
  workload::TurnClock clock_;
  AnswerReader reader_;
  int status_ = 0;
  std::string error_body_;  // of an answer that is no stream, its beginning
  bool finished_ = false;
  std::unique_ptr<net::HttpCall> call_;
};

}  // namespace kvist::loadgen
