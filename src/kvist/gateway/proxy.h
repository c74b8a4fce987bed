// The proxied endpoints: takes requests from clients and has them routed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kvist/gateway/carrier.h"
#include "kvist/gateway/prepared_request.h"
#include "kvist/gateway/prompt_reader.h"
#include "kvist/gateway/proxied_request.h"
#include "kvist/gateway/proxy_headers.h"
#include "kvist/gateway/reading_pool.h"
#include "kvist/gateway/request_ids.h"
#include "kvist/gateway/unread_body.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"
#include "kvist/openai/body_edit.h"

namespace kvist::gateway {

/// What a proxy has counted. Reports can be added.
struct ProxyReport {
  ProxyCounters counters;
  RequestTimesTable times;
  std::map<int, std::uint64_t> refused;  ///< by status: requests that reached no worker
  std::uint64_t left_early = 0;          ///< whose clients left before routing was asked for a worker
  std::uint64_t passed_on_unread = 0;    ///< chats and completions that could not be read and were given to a worker
  std::uint64_t passed_on_others = 0;    ///< the same of all other endpoints
  std::size_t under_way = 0;             ///< requests now, those whose prompt is being read among them
  ReadingPool::Counters pool;            ///< of long requests, which are read on other threads

  void add(const ProxyReport& other);
};

/// Takes requests, refuses what cannot be served, and owns the requests under way.
/// A request that cannot be read goes to a worker too, chosen as if nothing were known of its prompt, because the
/// worker may understand what the gateway does not, or says in its own words what is wrong.
/// Short requests are read (rendered, tokenized, hashed) on this thread, long ones on a ReadingPool, so that nobody's
/// holds up the streams of others. So requests that a client sends at once may overtake each other. Those of one
/// session do not, because a client waits for an answer before it sends the next. Threads: the loop's.
class Proxy {
 public:
  struct Options {
    Duration upstream_timeout{};
    Duration stream_idle_timeout{};     ///< 0: none
    Duration stream_keepalive{};        ///< 0: none
    bool send_priority = false;         ///< spec::GatewaySpec::send_priority
    std::uint64_t request_id_seed = 0;  ///< makes generated request ids different from those of other proxies
    std::size_t reading_threads = 2;    ///< for long prompts
    RecordWriter* recorder = nullptr;   ///< outlives the proxy; null: nothing is recorded
    bool pass_client_keys = false;      ///< whether workers get the clients' credentials
    spec::MigrationSpec migration = {};
    RequestReporter* reporter = nullptr;  ///< outlives the proxy; null: no one is told of requests
  };
  /// The longest time that a request waits for a thread that reads its prompt.
  static constexpr Duration kMaxReadingWait = std::chrono::seconds(10);

  /// `workers`: by WorkerId. Requires: the other arguments outlive this object.
  Proxy(net::EventLoop& loop, const Options& options, net::HttpClient& client, RoutingChannel& channel,
        const PromptReader& reader, std::vector<spec::UpstreamSpec> workers);

  /// A worker has taken this place, in which no request is. Comes before the first decision for it.
  void set_worker(WorkerId place, const spec::UpstreamSpec& worker, const net::ServerSettings& settings);
  /// The workers at this URL get this key and certificate from here on, over new connections.
  void set_server(const std::string& url, const net::ServerSettings& settings) {
    parts_.client->set_server(url, settings);
  }
  /// No worker has this URL any more.
  void forget_server(const std::string& url) { parts_.client->set_server(url, {}); }
  /// `lease` is of the client's key. `carrier` takes the request to its worker; null: this proxy does.
  void handle(Api api, net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange,
              KeyLease lease = {}, std::shared_ptr<Carrier> carrier = {});
  /// Passes a request to an endpoint that the gateway does not know to a worker, and the answer back. Of the body only
  /// an alias of the model and a priority are changed (settle_unread()), of the answer nothing.
  void pass_on(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease = {},
               std::shared_ptr<Carrier> carrier = {});
  /// Answers a request that came to this loop but cannot be handled.
  void turn_away(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease,
                 const Error& error);
  /// The worker's process is a new one. Forgets the fingerprint of the last one.
  void on_worker_restarted(WorkerId worker) { parts_.fingerprints.at(worker.value()).clear(); }

  /// From here on new requests are refused with 503. Calls `idle` as soon as no request is under way, which may be at
  /// once.
  void drain(std::function<void()> idle);
  /// Ends all requests under way with an error.
  void break_off_all();
  /// Requests that wait at the worker for the beginning of their answer go to other workers, as far as the retry budget
  /// allows.
  void on_worker_stalled(WorkerId worker);
  /// These requests wait at a worker that shows no sign of life. They go to other workers.
  void on_worker_silent(const std::vector<dispatch::Dispatcher::Findings::Leaving>& leaving);
  /// The worker has stalled and answers no health check. Its requests go to other workers or end with an error.
  void on_worker_lost(WorkerId worker);
  /// The worker was taken out of the fleet. Its requests go to other workers or end with an error.
  void on_worker_removed(WorkerId worker);

  /// Sets how prompts are read from here on.
  void set_readings(const FleetReadings& readings) { readings_ = readings; }

  /// What was counted so far.
  [[nodiscard]] ProxyReport report() const;

 private:
  /// A request whose prompt is being read.
  struct Arrival {
    Api api;
    net::HttpRequest request;
    std::shared_ptr<net::HttpExchange> exchange;
    std::string request_id;
    TimePoint arrived;
    KeyLease lease = {};
    std::shared_ptr<Carrier> carrier = {};
    ProxyJob job = {};  // set when the prompt was read
    std::unique_ptr<RequestReport> report = {};
    TimePoint asked = {};   // for a worker
    bool answered = false;  // routing has decided
    // Set on the loop; then the prompt is not read any more, and a request that is held not begun.
    std::shared_ptr<std::atomic<bool>> client_left = std::make_shared<std::atomic<bool>>(false);
  };

  using ArrivalPointer = std::shared_ptr<Arrival>;
  // Longer bodies would hold up the loop by more than about a millisecond. Without a tokenizer of the model a prompt's
  // bytes stand for its tokens, which is quicker.
  static constexpr std::size_t kTokenizedOnLoopBytes = 16U << 10;
  static constexpr std::size_t kReadOnLoopBytes = 64U << 10;

  /// Breaks off answers that stand still, and keeps streams alive, as long as there are requests.
  void watch_streams();
  void keep_held_alive(TimePoint now);
  [[nodiscard]] Result<void> check_room() const;
  /// Has the pool do `read`, and refuses the request if too much waits there.
  void read_on_pool(const ArrivalPointer& arrival, ReadingPool::Work read);
  /// Whether a thread that has come to the request should still read it. Threads: any.
  [[nodiscard]] static bool is_wanted(const Arrival& arrival);
  void on_read(const ArrivalPointer& arrival, Result<PreparedRequest> read);
  void admit(const ArrivalPointer& arrival, PreparedRequest prepared);
  void admit_unread(const ArrivalPointer& arrival, RequestKind kind);
  void admit_unasked(const ArrivalPointer& arrival);
  /// What is not read is routed by the model that it names all the same, and has no better priority than its key.
  void begin_unread(const ArrivalPointer& arrival, dispatch::RequestProfile profile, RequestKind kind);
  /// Threads: whose the arrival is meanwhile.
  [[nodiscard]] Result<UnreadBody> settle(Arrival& arrival, RequestKind kind, const FleetReadings& readings) const;
  void on_settled(const ArrivalPointer& arrival, dispatch::RequestProfile profile, RequestKind kind,
                  Result<UnreadBody> unread);
  /// Asks for a worker. `asked`: by the body. Fills in the fields of `job` that describe the request itself.
  void begin(const ArrivalPointer& arrival, dispatch::RequestProfile profile, ProxyJob job,
             const openai::AskedPriority& asked);
  /// What a carrier asks for.
  void heed(const Carrier& carrier, dispatch::RequestProfile& profile) const;
  /// Gives the body the priority that counts here, where it may have one.
  [[nodiscard]] Result<void> name_priority(Arrival& arrival, RequestKind kind, const openai::AskedPriority& asked,
                                           std::int32_t counts) const;
  /// What a record has of a request before anything has happened to it; null: it is not recorded.
  [[nodiscard]] std::unique_ptr<TrafficRecord> record_of(const Arrival& arrival,
                                                         const dispatch::RequestProfile& profile) const;
  /// The worker is known, or the request was refused: starts it, or answers with the error.
  void on_started(Arrival& arrival, const dispatch::Started& ticket);
  void refuse(Arrival& arrival, const Error& error, dispatch::Outcome outcome = dispatch::Outcome::kRejected,
              Duration retry_after = dispatch::Refusal::kAtOnce);
  /// The client left while its request was read.
  void note_left(Arrival& arrival);
  /// The request ends before a worker has it; status 0: its client has left.
  void report_early_end(Arrival& arrival, int status, dispatch::Outcome outcome);
  [[nodiscard]] ArrivalPointer arrive(Api api, net::HttpRequest request,
                                      const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease);
  void note_routed(Arrival& arrival, const dispatch::Ticket& ticket);
  void look_whether_idle();
  void on_over(const ProxiedRequest& request, dispatch::Outcome outcome);
  /// The requests under way, as owning pointers, because a request that ends is erased from live_.
  [[nodiscard]] std::vector<std::shared_ptr<ProxiedRequest>> live() const;

  const PromptReader* reader_;
  std::vector<spec::UpstreamSpec> workers_;  // by WorkerId: this loop's copy
  FleetReadings readings_;
  ReadingPool pool_;
  std::size_t reading_ = 0;   // number of requests on the pool
  std::size_t starting_ = 0;  // number of requests that wait for a worker
  ProxyCounters counters_;
  RequestTimesTable times_;
  spec::MigrationSpec migration_;
  ProxyParts parts_;
  RequestIds ids_;
  Credentials credentials_;
  std::map<int, std::uint64_t> refused_;
  std::uint64_t left_early_ = 0;
  std::uint64_t passed_on_unread_ = 0;
  std::uint64_t passed_on_others_ = 0;
  std::unordered_map<const ProxiedRequest*, std::shared_ptr<ProxiedRequest>> live_;
  std::unordered_set<ArrivalPointer> held_;  // streams that wait for a worker, if they are to be kept alive
  bool draining_ = false;
  bool broken_off_ = false;
  std::function<void()> idle_;
  Duration stream_idle_timeout_{};
  Duration stream_keepalive_{};
  bool send_priority_ = false;
  net::Timer stream_timer_;
  bool watching_ = false;  // stream_timer_ is armed
};

}  // namespace kvist::gateway
