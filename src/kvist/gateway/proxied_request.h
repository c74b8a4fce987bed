// One request on its way: from the routing decision to the end of the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/dispatch/request_life.h"
#include "kvist/gateway/answer_relay.h"
#include "kvist/gateway/latency_histogram.h"
#include "kvist/gateway/routing_desk.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// What the proxy counts beside the dispatcher.
struct ProxyCounters {
  LatencyHistogram time_to_first_token;  ///< of streams: from the request's arrival here
  std::uint64_t pauses = 0;              ///< times a worker was slowed because its client was slow
  std::uint64_t unreadable_chunks = 0;
  std::uint64_t unended_streams = 0;  ///< that ended in order on the wire, but did not say how
  std::uint64_t error_frames = 0;     ///< streams in which the worker put an error of its own
};

/// What requests share. All of it outlives them.
struct ProxyParts {
  net::HttpClient* client = nullptr;
  RoutingDesk* desk = nullptr;
  const std::vector<spec::UpstreamSpec>* workers = nullptr;  ///< by WorkerId
  ProxyCounters* counters = nullptr;
  Duration upstream_timeout{};
  std::vector<std::string> fingerprints = {};  ///< by WorkerId: what its answers last had as system_fingerprint
};

/// What the gateway knows of a request.
enum class RequestKind : std::uint8_t {
  kRead,    ///< its prompt: its answer teaches the router
  kUnread,  ///< only that it is a chat or a completion: the worker says what is wrong with it, or understands it
  kOther,   ///< nothing: bytes there and back
};

/// What the client sent and how it is answered.
struct ProxyJob {
  RequestKind kind = RequestKind::kRead;
  net::HttpRequest request = {};  ///< as it goes to the worker
  std::shared_ptr<net::HttpExchange> exchange = {};
  std::string request_id = {};
  bool usage_wanted = false;        ///< the usage chunk is the client's: it asked, or nothing was asked in its name
  bool prediction_is_whole = true;  ///< the prediction speaks of all prompts of the request
  std::uint32_t choices = 1;        ///< answers to each prompt
  TimePoint arrived = {};
};

/// The network of one request: does what its life (dispatch/request_life.h) says, and tells it what happens. Lives on
/// the loop's thread. Owned by the Proxy until on_over is called; its handlers hold it weakly. Bounded: a client that
/// does not read stops the reading from its worker.
class ProxiedRequest : public std::enable_shared_from_this<ProxiedRequest> {
 public:
  ProxiedRequest(ProxyParts& parts, ProxyJob job, dispatch::DispatchHandle request,
                 std::function<void(ProxiedRequest&, dispatch::Outcome)> on_over);

  void start(const routing::Decision& decision);
  [[nodiscard]] dispatch::DispatchHandle handle() const { return request_; }
  /// Ends it now, as if the worker had failed: the gateway is shutting down.
  void break_off(const Error& error);
  /// Leaves the worker if it is this one and nothing of an answer is here.
  void on_worker_stalled(WorkerId worker);
  /// As if the connection to the worker had failed, if it is this one.
  void on_worker_lost(WorkerId worker);

 private:
  /// How the answer under way reaches the client.
  enum class Form : std::uint8_t {
    kWhole,   // collected, and given in one piece
    kEvents,  // relayed event by event
    kBytes,   // relayed as it comes
  };

  /// Does what is to be done. A question for another worker is answered later, from within the call or not: until then
  /// the call to this one is at rest.
  void act(const dispatch::LifeActions& actions);
  void ask(const dispatch::LifeActions& actions);
  void on_rerouted(const std::optional<routing::Decision>& decision);
  void carry_out(const dispatch::LifeActions& actions);
  /// What is here of the answer goes on to the client, and so does what comes.
  void pass_on();
  void attempt(const routing::Decision& decision);
  [[nodiscard]] net::CallHandlers handlers();
  void on_head(int status, const net::Headers& headers);
  void take_head();
  void on_body(std::string_view data, TimePoint at);
  void on_end();
  void on_error(const Error& error);

  void relay(std::string_view data, TimePoint at);
  void send_events(std::string_view events);
  void take_note(std::uint64_t tokens_before, bool first_before, TimePoint at);
  void note_error(const std::string& problem);
  void report_usage(const openai::Usage& usage);
  void report_whole(const openai::Usage& usage);
  void end_whole();
  void end_stream();
  void break_stream(const Error& error);
  void over(dispatch::Outcome outcome);
  [[nodiscard]] const spec::UpstreamSpec& worker() const;

  ProxyParts* parts_;
  ProxyJob job_;
  dispatch::DispatchHandle request_;
  std::function<void(ProxiedRequest&, dispatch::Outcome)> on_over_;

  dispatch::RequestLife life_;
  Form form_ = Form::kWhole;
  int status_ = 0;
  net::Headers headers_;  // the worker's, and once the answer is passed on those for the client
  bool head_taken_ = false;
  bool asking_ = false;              // for another worker
  std::optional<Error> held_error_;  // of the call, while asking
  std::string body_;                 // of a plain answer
  AnswerRelay relay_;
  std::string events_;  // for the client
  std::unique_ptr<net::HttpCall> call_;
};

}  // namespace kvist::gateway
