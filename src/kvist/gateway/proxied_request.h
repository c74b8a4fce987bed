// A request from its routing decision to the end of its answer.
#pragma once

#include <array>
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
#include "kvist/gateway/answer_meter.h"
#include "kvist/gateway/answer_relay.h"
#include "kvist/gateway/carrier.h"
#include "kvist/gateway/kept_stream.h"
#include "kvist/gateway/key_gate.h"
#include "kvist/gateway/latency_histogram.h"
#include "kvist/gateway/record_writer.h"
#include "kvist/gateway/request_reporter.h"
#include "kvist/gateway/request_times.h"
#include "kvist/gateway/resumable_answer.h"
#include "kvist/gateway/routing_channel.h"
#include "kvist/gateway/warning_gate.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// What the proxy counts in addition to the dispatcher.
struct ProxyCounters {
  std::uint64_t pauses = 0;  ///< how often reading from a worker was paused because the client was slow
  std::uint64_t unreadable_chunks = 0;
  std::uint64_t unended_streams =
      0;  ///< streams that ended without finish reason, usage or [DONE], though the connection was closed in order
  std::uint64_t error_frames = 0;   ///< streams in which the worker sent an error frame
  std::uint64_t exhaustions = 0;    ///< calls to a worker that failed for want of a socket, port or memory here
  std::uint64_t idle_streams = 0;   ///< answers given up because they stood still for too long
  std::uint64_t moved_streams = 0;  ///< answers that went on at another worker: how often, and behind how many tokens
  std::uint64_t moved_tokens = 0;
  std::uint64_t keepalives = 0;   ///< comments that were sent to streams
  std::uint64_t late_errors = 0;  ///< errors that had to be told in an event, as a comment was sent before
  LatencyHistogram move_gap;      ///< from the failure of the worker to the first text from the next one
  std::array<std::uint64_t, kMigrationRefusals> unmoved_streams{};  ///< begun answers that did not go on, by reason
};

/// What all requests share. Requires: all of it outlives them.
struct ProxyParts {
  net::HttpClient* client = nullptr;
  RoutingChannel* channel = nullptr;
  const std::vector<spec::UpstreamSpec>* workers = nullptr;  ///< by WorkerId
  ProxyCounters* counters = nullptr;
  Duration upstream_timeout{};
  std::vector<std::string> fingerprints = {};  ///< by WorkerId: the last system_fingerprint in its answers
  RecordWriter* recorder = nullptr;            ///< null: nothing is recorded
  net::EventLoop* loop = nullptr;
  WarningGate exhaustion_warning = WarningGate();
  const spec::MigrationSpec* migration = nullptr;
  RequestTimesTable* times = nullptr;
  RequestReporter* reporter = nullptr;  ///< null: no one is told of requests
};

/// What the gateway knows of a request.
enum class RequestKind : std::uint8_t {
  kRead,    ///< its prompt; the router learns from its answer
  kUnread,  ///< that it is a chat or a completion, and its model if it names one; the worker understands it or says
            ///< what is wrong with it
  kOther,   ///< its model, if it names one; bytes are passed in both directions
};

/// What the client sent and how it is answered.
struct ProxyJob {
  /// Whether a worker that has the whole request may have changed something.
  [[nodiscard]] bool has_effects() const { return has_effects(kind, request); }
  [[nodiscard]] static bool has_effects(RequestKind kind, const net::HttpRequest& request);

  RequestKind kind = RequestKind::kRead;
  net::HttpRequest request = {};  ///< as it is sent to the worker
  std::shared_ptr<net::HttpExchange> exchange = {};
  std::shared_ptr<Carrier> carrier = {};  ///< takes the request to its worker; null: the gateway does
  std::string request_id = {};
  KeptStream kept = {};  ///< what the client has of it already, if it asked for a stream
  bool usage_wanted =
      false;             ///< the client gets the usage chunk, as it asked for it, or the gateway did not ask for one
  bool streams = false;  ///< the client asked for a stream
  bool prediction_is_whole = true;  ///< the prediction covers all prompts of the request
  std::uint32_t choices = 1;        ///< answers that are generated for each prompt
  std::string adapter = {};         ///< of the model, that it asks for; empty: none
  std::uint32_t prompt_tokens = 0;  ///< as read here; 0: not known
  TimePoint arrived = {};
  KeyLease lease = {};                         ///< of the client's key
  std::unique_ptr<TrafficRecord> record = {};  ///< what was known of it at its arrival; null: it is not recorded
  std::unique_ptr<RequestReport> report = {};  ///< the same for the access log and traces; null: neither wants it
};

/// The sockets of one request. It reports events to the request's life (dispatch/request_life.h) and carries out the
/// actions that this returns. The Proxy owns it until on_over is called; its handlers hold weak references. If the
/// client does not read, reading from the worker stops, so that memory is bounded. Threads: the loop's.
class ProxiedRequest : public std::enable_shared_from_this<ProxiedRequest> {
 public:
  ProxiedRequest(ProxyParts& parts, ProxyJob job, dispatch::DispatchHandle request,
                 std::function<void(ProxiedRequest&, dispatch::Outcome)> on_over);

  void start(const routing::Decision& decision);
  [[nodiscard]] dispatch::DispatchHandle handle() const { return request_; }
  /// Ends the request now, as if the worker had failed, because the gateway is shutting down.
  void break_off(const Error& error);
  /// If the request is at this worker and nothing of its answer was sent to the client, it leaves the worker.
  void on_worker_stalled(WorkerId worker, dispatch::AttemptFailure how);
  /// Breaks the answer off if it has begun and nothing more of it has come for `timeout`.
  void check_idle(TimePoint now, Duration timeout);
  /// Sends a comment to a stream to which nothing was sent for `interval`. It may be the first thing that the client
  /// gets: then the head that belongs to it is sent, and what the answer turns out to be is told in events.
  void keep_alive(TimePoint now, Duration interval);
  /// If the request is at this worker, handles it as if the connection had failed.
  void on_worker_lost(WorkerId worker);
  /// If the request is at this worker, which was taken out of the fleet, it leaves it.
  void on_worker_removed(WorkerId worker);

 private:
  /// How the answer under way reaches the client.
  enum class Form : std::uint8_t {
    kWhole,   // collected and sent in one piece
    kEvents,  // relayed event by event
    kBytes,   // relayed as the bytes arrive
  };

  /// Carries out actions. If they ask for another worker, the answer comes from within this call or later. Until then
  /// the call to the present worker is paused.
  void act(const dispatch::LifeActions& actions);
  /// What the life is told before an event that may end the attempt: whether another worker can go on.
  void update_resumable();
  /// The begun answer goes on at another worker, or does not because its worker failed.
  void note_moved();
  void note_broken();
  void ask(const dispatch::LifeActions& actions);
  void on_rerouted(const std::optional<routing::Decision>& decision);
  void carry_out(const dispatch::LifeActions& actions);
  /// Sends what has arrived of the answer to the client, and from now on what arrives.
  void pass_on();
  void attempt(const routing::Decision& decision);
  void call();
  /// Has the carrier take the request to its worker, or tells it by which one the answer came.
  void have_carried();
  void on_served_by(std::string_view endpoint);
  void on_client_gone();
  /// Makes the call of the present attempt once more, after a while.
  void call_again(Duration in);
  [[nodiscard]] net::CallHandlers handlers();
  void on_head(int status, net::Headers headers);
  void take_head();
  void on_body(std::string_view data, TimePoint at);
  void on_end();
  void on_error(const Error& error);
  /// `what` is too large for the gateway, which is not the worker's fault.
  void on_too_large(const std::string& what);

  void relay(std::string_view data, TimePoint at);
  void pass_on_bytes(std::string_view data);
  void send_events(std::string_view events);
  void begin_client_stream(int status, net::Headers headers);
  void read_on_when_drained();
  /// The client has a head and a comment, and nothing of a worker's.
  void on_early_head();
  /// Answers with a whole body, or, if a comment was sent before, tells its error in an event.
  void respond(net::HttpResponse answer);
  /// Stops or continues reading from the worker, as the client does or does not keep up.
  void read_on(bool reads);
  void take_note(std::uint64_t tokens_before, bool first_before, TimePoint at);
  void note_error(const std::string& problem);
  [[nodiscard]] bool on_error_frame();
  void report_usage(const openai::Usage& usage);
  void report_whole(const openai::Usage& usage);
  /// What it says goes into the record.
  void write_down(const openai::Usage& usage);
  void write_down_end(dispatch::Outcome outcome);
  // What is told of the request: proxied_report.cc.
  /// An attempt begins, and ends, with this reason if it failed.
  void report_attempt(const routing::Decision& decision);
  void report_failure(const dispatch::LifeActions& actions);
  void report_stays();  ///< at a worker that it would have left, had there been another
  void report_end(dispatch::Outcome outcome);
  /// What the present attempt sends: with its own span as the parent, if the request is traced.
  [[nodiscard]] std::shared_ptr<const net::HttpRequest> traced(std::shared_ptr<const net::HttpRequest> request) const;
  /// Adds the time of a token, or of several that arrived together, to the histograms.
  void time_token(bool is_first, TimePoint at);
  /// Charges the key's limits what the request took.
  void charge(dispatch::Outcome outcome);
  /// The answer is complete in body_: ends the request with it, unless it is none of this API.
  void take_whole();
  void end_whole(const openai::ChunkView* answer);
  void note_garbage(const std::string& problem);
  void end_stream();
  void break_stream(const Error& error);
  void over(dispatch::Outcome outcome);
  [[nodiscard]] const spec::UpstreamSpec& worker() const;

  ProxyParts* parts_;
  ProxyJob job_;
  dispatch::DispatchHandle request_;
  std::function<void(ProxiedRequest&, dispatch::Outcome)> on_over_;

  std::shared_ptr<const net::HttpRequest> to_send_;  // null when it will not be repeated nor resumed
  ResumableAnswer resumable_;
  std::uint32_t resumed_tokens_ = 0;  // that the client had when the present attempt began
  TimePoint lost_at_{};               // when a begun answer lost its worker, until its text goes on

  dispatch::RequestLife life_;
  Form form_ = Form::kWhole;
  int status_ = 0;
  net::Headers headers_;    // the worker's; from pass_on() on, those for the client, until they are sent
  bool is_events_ = false;  // by its head, the answer is an event stream
  bool head_taken_ = false;
  bool asking_ = false;              // a request for another worker is outstanding
  std::optional<Error> held_error_;  // the error of the call, while asking_
  bool ended_ = false;               // the worker's answer is complete in body_
  TimePoint read_at_{};              // when something of the answer came last
  std::string body_;                 // the body of an answer that is no stream
  AnswerRelay relay_;
  std::string tail_;                    // the last bytes that were sent of an answer that is passed on as bytes
  std::unique_ptr<AnswerMeter> meter_;  // of bytes that are passed on; null where no key pays for them
  std::string events_;                  // events for the client
  bool paused_ = false;                 // as the client is slow
  bool sent_ = false;                   // the worker has the whole request
  bool first_token_seen_ = false;       // of any attempt
  bool broken_off_ = false;             // by the gateway's own shutdown
  std::unique_ptr<net::HttpCall> call_;
  std::unique_ptr<net::Timer> again_;  // null, unless a call could not be made
  RequestTimes* times_ = nullptr;      // of the present worker; null for a request that was not read
  TimePoint last_token_{};             // when it arrived
  int client_status_ = 0;              // what the client got; 0: nothing yet
};

}  // namespace kvist::gateway
