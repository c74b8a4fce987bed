// One loop's way from a request to the model that it is for.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/gateway/carrier.h"
#include "kvist/gateway/model_names.h"
#include "kvist/gateway/proxy.h"
#include "kvist/gateway/request_ids.h"

namespace kvist::gateway {

/// Names the model of a request whose body does not (Gateway API Inference Extension).
inline constexpr std::string_view kModelHeader = "X-Gateway-Model-Name";

/// Gives each request to the proxy of its model, by the `model` of its body. Looks into bodies only if the gateway
/// serves several models, and up to that field only; from there on a request knows its proxy, and nothing is looked up
/// for its answer. Threads: the loop's.
class ModelDoor {
 public:
  /// `reporter` is told of requests for unknown models; null: no one is.
  explicit ModelDoor(RequestReporter* reporter);

  void set_names(std::shared_ptr<const ModelNames> names) { names_ = std::move(names); }
  /// Requires: the proxy stays until close().
  void open(ModelId model, Proxy& proxy);
  /// From now on no request comes to the model's proxy.
  void close(ModelId model);

  /// See Proxy::handle() and Proxy::pass_on(). `lease` is of the client's key.
  void handle(Api api, net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange,
              KeyLease lease = {}, std::shared_ptr<Carrier> carrier = {});
  void pass_on(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease = {},
               std::shared_ptr<Carrier> carrier = {});
  /// Answers a request that cannot be handled, whatever its model: see Proxy::turn_away().
  void turn_away(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease,
                 const Error& error);

  /// By status: requests that reached no proxy.
  [[nodiscard]] const std::map<int, std::uint64_t>& refused() const { return refused_; }

 private:
  /// The proxy of the request's model; null if the request was answered, because there is none.
  [[nodiscard]] Proxy* pick(const net::HttpRequest& request, net::HttpExchange& exchange, const KeyLease& lease);
  [[nodiscard]] Result<ModelId> model_of(const net::HttpRequest& request) const;
  void refuse(const net::HttpRequest& request, net::HttpExchange& exchange, const KeyLease& lease, const Error& error);

  RequestReporter* reporter_;
  RequestIds ids_;  // of requests that reach no proxy
  std::shared_ptr<const ModelNames> names_ = std::make_shared<const ModelNames>();
  std::vector<Proxy*> proxies_;  // by ModelId; null: closed
  std::map<int, std::uint64_t> refused_;
};

}  // namespace kvist::gateway
