// The proxied endpoints: from a client's request to a routed one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "kvist/gateway/prompt_reader.h"
#include "kvist/gateway/proxied_request.h"
#include "kvist/net/http_server.h"

namespace kvist::gateway {

/// Takes chat and completion requests, refuses what cannot be served, and owns those under way. Loop thread only.
/// Reading a prompt (tokenizing, hashing) is done here too: a few microseconds per thousand tokens with the byte
/// tokenizer.
class Proxy {
 public:
  struct Options {
    std::string model;
    std::uint32_t block_size = 32;
    Duration upstream_timeout{};
    std::uint64_t request_id_seed = 0;  ///< makes generated request ids differ from those of other gateways
  };

  /// The others outlive it.
  Proxy(Options options, net::HttpClient& client, dispatch::Dispatcher& dispatcher,
        const std::vector<spec::UpstreamSpec>& workers);

  void handle(Api api, net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange);

  /// From here on new requests are refused with 503. `idle` is called once no request is under way; at once where none
  /// is.
  void drain(std::function<void()> idle);
  /// Ends all requests under way with an error.
  void break_off_all();

  [[nodiscard]] const ProxyCounters& counters() const { return counters_; }
  /// Requests this gateway refused itself, by status: they reached no worker.
  [[nodiscard]] const std::map<int, std::uint64_t>& refused() const { return refused_; }

 private:
  [[nodiscard]] Result<void> admit(Api api, net::HttpRequest& request,
                                   const std::shared_ptr<net::HttpExchange>& exchange, const std::string& request_id);
  [[nodiscard]] std::string request_id_for(const net::Headers& headers);
  void on_over(RequestId id, dispatch::Outcome outcome);

  PromptReader reader_;
  ProxyCounters counters_;
  ProxyParts parts_;
  std::uint64_t request_id_seed_;
  std::uint64_t generated_ids_ = 0;
  std::map<int, std::uint64_t> refused_;
  std::unordered_map<RequestId, std::shared_ptr<ProxiedRequest>> live_;
  bool draining_ = false;
  std::function<void()> idle_;
};

}  // namespace kvist::gateway
