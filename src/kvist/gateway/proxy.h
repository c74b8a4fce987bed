// The proxied endpoints: from a client's request to a routed one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvist/gateway/prompt_reader.h"
#include "kvist/gateway/proxied_request.h"
#include "kvist/gateway/reading_pool.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_server.h"

namespace kvist::gateway {

/// Takes requests, refuses what cannot be served, and owns those under way. Loop thread only. What cannot be read goes
/// to a worker all the same, chosen as if nothing were known of its prompt: the worker says what is wrong with it in
/// its own words, or understands what the gateway does not. A prompt is read (rendered, tokenized, hashed) here with
/// the byte tokenizer, which takes a few microseconds per thousand tokens, and on a ReadingPool with a model's own.
/// Requests of one session follow each other, because a client waits for an answer before it goes on; those that are
/// sent at once have no order.
class Proxy {
 public:
  struct Options {
    std::string model;
    std::uint32_t block_size = 32;
    Duration upstream_timeout{};
    std::uint64_t request_id_seed = 0;  ///< makes generated request ids differ from those of other gateways
    std::shared_ptr<const text::ModelText> text = {};  ///< of the model; null: bytes
  };
  /// A request waits at most so long for a thread that reads its prompt.
  static constexpr Duration kMaxReadingWait = std::chrono::seconds(10);

  /// The others outlive it.
  Proxy(net::EventLoop& loop, Options options, net::HttpClient& client, dispatch::Dispatcher& dispatcher,
        const std::vector<spec::UpstreamSpec>& workers);

  void handle(Api api, net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange);
  /// A request of no endpoint that the gateway knows: to a worker and back, as it is.
  void pass_on(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange);
  /// Who is told of a worker that failed a request. To be set before the first one.
  void on_doubt(std::function<void(WorkerId)> handler) { parts_.on_doubt = std::move(handler); }
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

  [[nodiscard]] const ProxyCounters& counters() const { return counters_; }
  [[nodiscard]] const PromptReader& reader() const { return reader_; }
  /// Null where prompts are read on the loop.
  [[nodiscard]] const ReadingPool* pool() const { return pool_.get(); }
  /// Requests this gateway refused itself, by status: they reached no worker.
  [[nodiscard]] const std::map<int, std::uint64_t>& refused() const { return refused_; }
  /// Requests given to a worker unread: chats and completions, and all others.
  [[nodiscard]] std::uint64_t passed_on_unread() const { return passed_on_unread_; }
  [[nodiscard]] std::uint64_t passed_on_others() const { return passed_on_others_; }

 private:
  /// A request whose prompt is being read.
  struct Arrival {
    Api api;
    net::HttpRequest request;
    std::shared_ptr<net::HttpExchange> exchange;
    std::string request_id;
    TimePoint arrived;
    std::atomic<bool> client_left = false;  // set on the loop; a prompt that nobody waits for is not read
  };

  [[nodiscard]] Result<void> check_room(TimePoint now);
  [[nodiscard]] Result<void> read_on_pool(const std::shared_ptr<Arrival>& arrival);
  void on_read(Arrival& arrival, Result<ReadRequest> read);
  [[nodiscard]] Result<void> admit(Arrival& arrival, ReadRequest read);
  [[nodiscard]] Result<void> admit_unread(Arrival& arrival, RequestKind kind);
  /// Routes it and sets it going; what `job` says of the request itself is filled in.
  [[nodiscard]] Result<void> begin(Arrival& arrival, dispatch::RequestProfile profile, ProxyJob job);
  void refuse(Arrival& arrival, const Error& error);
  void look_whether_idle();
  [[nodiscard]] std::string request_id_for(const net::Headers& headers);
  void on_over(const ProxiedRequest& request, dispatch::Outcome outcome);
  /// Those under way, held: ending one takes it off live_.
  [[nodiscard]] std::vector<std::shared_ptr<ProxiedRequest>> live() const;

  PromptReader reader_;
  FleetReadings readings_;
  std::unique_ptr<ReadingPool> pool_;
  std::size_t reading_ = 0;  // on the pool
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
