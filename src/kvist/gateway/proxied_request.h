// One request on its way: from the routing decision to the end of the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/dispatch/dispatcher.h"
#include "kvist/gateway/answer_relay.h"
#include "kvist/gateway/latency_histogram.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// What the proxy counts beside the dispatcher.
struct ProxyCounters {
  LatencyHistogram time_to_first_token;  ///< of streams: from the request's arrival here
  std::uint64_t pauses = 0;              ///< times a worker was slowed because its client was slow
  std::uint64_t unreadable_chunks = 0;
};

/// What requests share. All of it outlives them.
struct ProxyParts {
  net::HttpClient* client = nullptr;
  dispatch::Dispatcher* dispatcher = nullptr;
  const std::vector<spec::UpstreamSpec>* workers = nullptr;  ///< by WorkerId
  ProxyCounters* counters = nullptr;
  Duration upstream_timeout{};
};

/// What the client sent and how it is answered.
struct ProxyJob {
  net::HttpRequest request;  ///< as it goes to the worker
  std::shared_ptr<net::HttpExchange> exchange;
  std::string request_id;
  bool usage_wanted = false;        ///< the client itself asked for the usage chunk
  bool prediction_is_whole = true;  ///< the prediction speaks of all prompts of the request
  TimePoint arrived;
};

/// Drives one request; lives on the loop's thread. Owned by the Proxy until on_over is called; its handlers hold it
/// weakly.
///
/// Nothing goes to the client before there is something to say: until the first event of a stream, or the whole of a
/// plain answer, is here, a failed worker is replaced by another. Once a stream has begun, a failure ends it with an
/// error frame and a broken connection, never silently. Bounded: a client that does not read stops the reading from its
/// worker.
class ProxiedRequest : public std::enable_shared_from_this<ProxiedRequest> {
 public:
  ProxiedRequest(const ProxyParts& parts, ProxyJob job, RequestId id,
                 std::function<void(RequestId, dispatch::Outcome)> on_over);

  void start(const dispatch::Ticket& ticket);
  /// It waited for a worker: there is one, or it has to end.
  void on_ready(const Result<routing::Decision>& decision);
  /// Ends it now, as if the worker had failed: the gateway is shutting down.
  void break_off(const Error& error);
  /// Leaves the worker if it is this one and nothing of an answer is here.
  void on_worker_stalled(WorkerId worker);
  /// As if the connection to the worker had failed, if it is this one.
  void on_worker_lost(WorkerId worker);

 private:
  enum class Phase : std::uint8_t {
    kQueued,     // for a worker
    kWaiting,    // for the worker's head
    kWhole,      // collecting a plain answer
    kStreaming,  // relaying events
    kOver,
  };

  void attempt(const routing::Decision& decision);
  [[nodiscard]] net::CallHandlers handlers();
  void on_head(int status, const net::Headers& headers);
  void on_body(std::string_view data, TimePoint at);
  void on_end();
  void on_error(const Error& error);
  void on_client_gone();

  void relay(std::string_view data, TimePoint at);
  void send_events(std::string_view events);
  void take_note(const StreamState& before, TimePoint at);
  void report_usage(const openai::Usage& usage);
  void end_whole();
  void end_stream();
  void fail_with(const Error& error, dispatch::Outcome outcome);
  void break_stream(const Error& error);
  void over(dispatch::Outcome outcome);

  const ProxyParts* parts_;
  ProxyJob job_;
  RequestId id_;
  std::function<void(RequestId, dispatch::Outcome)> on_over_;

  Phase phase_ = Phase::kQueued;
  WorkerId worker_;
  std::uint32_t predicted_cached_tokens_ = 0;
  bool back_pressure_ = false;  // the answer being passed on is a 429 or 503
  bool stream_begun_ = false;   // the head has gone to the client
  int status_ = 0;
  net::Headers headers_;  // for the client
  std::string body_;      // of a plain answer
  AnswerRelay relay_;
  std::string events_;  // scratch of relay()
  std::unique_ptr<net::HttpCall> call_;
};

}  // namespace kvist::gateway
