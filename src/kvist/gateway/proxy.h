// The proxied endpoints: from a client's request to a routed one.
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
#include <vector>

#include "kvist/gateway/prompt_reader.h"
#include "kvist/gateway/proxied_request.h"
#include "kvist/gateway/reading_pool.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_server.h"

namespace kvist::gateway {

/// What a proxy has counted; several of them add up.
struct ProxyReport {
  ProxyCounters counters;
  std::map<int, std::uint64_t> refused;       ///< by status: requests that reached no worker
  std::uint64_t passed_on_unread = 0;         ///< chats and completions given to a worker unread
  std::uint64_t passed_on_others = 0;         ///< the same of all other endpoints
  std::optional<ReadingPool::Counters> pool;  ///< where long prompts are read beside the loop

  void add(const ProxyReport& other);
};

/// Takes requests, refuses what cannot be served, and owns those under way. Loop thread only. What cannot be read goes
/// to a worker all the same, chosen as if nothing were known of its prompt: the worker says what is wrong with it in
/// its own words, or understands what the gateway does not. A prompt is read (rendered, tokenized, hashed) here with
/// the byte tokenizer, which takes a few microseconds per thousand tokens; with a model's own only where it is short,
/// and on a ReadingPool otherwise. Requests of one session follow each other, because a client waits for an answer
/// before it goes on; those that are sent at once have no order.
class Proxy {
 public:
  struct Options {
    Duration upstream_timeout{};
    std::uint64_t request_id_seed = 0;  ///< makes generated request ids differ from those of other proxies
    std::size_t reading_threads = 2;    ///< for long prompts, where reading them takes time
  };
  /// A request waits at most so long for a thread that reads its prompt.
  static constexpr Duration kMaxReadingWait = std::chrono::seconds(10);

  /// The others outlive it.
  Proxy(net::EventLoop& loop, const Options& options, net::HttpClient& client, RoutingDesk& desk,
        const PromptReader& reader, const std::vector<spec::UpstreamSpec>& workers);

  void handle(Api api, net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange);
  /// A request of no endpoint that the gateway knows: to a worker and back, as it is.
  void pass_on(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange);
  /// The worker is another process: what its answers said of the last one is forgotten.
  void on_worker_restarted(WorkerId worker) { parts_.fingerprints.at(worker.value()).clear(); }

  /// From here on new requests are refused with 503. `idle` is called once no request is under way; at once where none
  /// is.
  void drain(std::function<void()> idle);
  /// Ends all requests under way with an error.
  void break_off_all();
  /// What waits there for the beginning of its answer goes elsewhere, as far as there is room for retries.
  void on_worker_stalled(WorkerId worker);
  /// It stands still and answers no health check: what is under way there ends with an error, or goes elsewhere.
  void on_worker_lost(WorkerId worker);

  /// How prompts are read from here on.
  void set_readings(const FleetReadings& readings) { readings_ = readings; }

  /// What it has counted so far.
  [[nodiscard]] ProxyReport report() const;

 private:
  /// A request whose prompt is being read.
  struct Arrival {
    Api api;
    net::HttpRequest request;
    std::shared_ptr<net::HttpExchange> exchange;
    std::string request_id;
    TimePoint arrived;
    ProxyJob job = {};                      // once it is read
    std::atomic<bool> client_left = false;  // set on the loop; a prompt that nobody waits for is not read
  };

  using ArrivalPointer = std::shared_ptr<Arrival>;
  static constexpr std::size_t kReadOnLoopBytes = 16U << 10;

  [[nodiscard]] Result<void> check_room() const;
  [[nodiscard]] Result<void> read_on_pool(const ArrivalPointer& arrival);
  void on_read(const ArrivalPointer& arrival, Result<ReadRequest> read);
  [[nodiscard]] Result<void> admit(const ArrivalPointer& arrival, ReadRequest read);
  void admit_unread(const ArrivalPointer& arrival, RequestKind kind);
  void admit_unasked(const ArrivalPointer& arrival);
  /// Asks for a worker; what `job` says of the request itself is filled in.
  void begin(const ArrivalPointer& arrival, dispatch::RequestProfile profile, ProxyJob job);
  /// The answer: sets it going, or refuses it.
  void on_started(Arrival& arrival, const Result<dispatch::Ticket>& ticket);
  void refuse(Arrival& arrival, const Error& error);
  void look_whether_idle();
  [[nodiscard]] std::string request_id_for(const net::Headers& headers);
  void on_over(const ProxiedRequest& request, dispatch::Outcome outcome);
  /// Those under way, held: ending one takes it off live_.
  [[nodiscard]] std::vector<std::shared_ptr<ProxiedRequest>> live() const;

  const PromptReader* reader_;
  FleetReadings readings_;
  std::unique_ptr<ReadingPool> pool_;
  std::size_t reading_ = 0;   // on the pool
  std::size_t starting_ = 0;  // asked for a worker
  ProxyCounters counters_;
  ProxyParts parts_;
  std::uint64_t request_id_seed_;
  std::uint64_t generated_ids_ = 0;
  std::map<int, std::uint64_t> refused_;
  std::uint64_t passed_on_unread_ = 0;
  std::uint64_t passed_on_others_ = 0;
  std::unordered_map<const ProxiedRequest*, std::shared_ptr<ProxiedRequest>> live_;
  bool draining_ = false;
  bool broken_off_ = false;
  std::function<void()> idle_;
};

}  // namespace kvist::gateway
