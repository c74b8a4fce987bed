#include "kvist/gateway/model_door.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kvist/gateway/error_answer.h"
#include "kvist/gateway/shared_parts.h"
#include "kvist/net/media_type.h"
#include "kvist/openai/body_edit.h"
#include "kvist/openai/errors.h"

namespace kvist::gateway {
namespace {

/// Larger bodies are not read again to say what is wrong with them.
constexpr std::size_t kMostExplainedBytes = 1U << 20;

bool can_be_explained(const net::HttpRequest& request) {
  const std::string_view type = net::media_type(request.headers.find("Content-Type").value_or(""));
  constexpr std::string_view kForm = "multipart/";
  return !net::equals_no_case(type.substr(0, kForm.size()), kForm) && !request.body.empty() &&
         request.body.size() <= kMostExplainedBytes;
}

}  // namespace

ModelDoor::ModelDoor(RequestReporter* reporter) : reporter_(reporter), ids_(random_seed()) {}

void ModelDoor::open(ModelId model, Proxy& proxy) {
  if (proxies_.size() <= model.value()) proxies_.resize(model.value() + 1, nullptr);
  proxies_[model.value()] = &proxy;
}

void ModelDoor::close(ModelId model) {
  if (model.value() < proxies_.size()) proxies_[model.value()] = nullptr;
}

void ModelDoor::handle(Api api, net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange,
                       KeyLease lease, std::shared_ptr<Carrier> carrier) {
  Proxy* const proxy = pick(request, *exchange, lease);
  if (proxy == nullptr) return lease.used(0);
  proxy->handle(api, std::move(request), exchange, std::move(lease), std::move(carrier));
}

void ModelDoor::pass_on(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease,
                        std::shared_ptr<Carrier> carrier) {
  Proxy* const proxy = pick(request, *exchange, lease);
  if (proxy == nullptr) return lease.used(0);
  proxy->pass_on(std::move(request), exchange, std::move(lease), std::move(carrier));
}

Result<ModelId> ModelDoor::model_of(const net::HttpRequest& request) const {
  if (const auto only = names_->only()) return *only;
  std::optional<std::string> name = openai::model_of(request.body);
  if (!name) {
    if (const auto field = request.headers.find(kModelHeader); field && !field->empty()) name = std::string(*field);
  }
  if (!name && can_be_explained(request)) {
    if (const auto problem = openai::model_problem(request.body)) return std::unexpected(*problem);
  }
  return names_->find(name);
}

Proxy* ModelDoor::pick(const net::HttpRequest& request, net::HttpExchange& exchange, const KeyLease& lease) {
  const Result<ModelId> model = model_of(request);
  if (!model) {
    refuse(request, exchange, lease, model.error());
    return nullptr;
  }
  Proxy* const proxy = model->value() < proxies_.size() ? proxies_[model->value()] : nullptr;
  // The names come and go with the proxies, in this order; so this is a model that is just leaving.
  if (proxy == nullptr) refuse(request, exchange, lease, {ErrorCode::kUnavailable, "the model is being removed"});
  return proxy;
}

void ModelDoor::refuse(const net::HttpRequest& request, net::HttpExchange& exchange, const KeyLease& lease,
                       const Error& error) {
  const std::string id = ids_.of(request.headers);
  net::HttpResponse answer = error_answer(error, id);
  if (error.code == ErrorCode::kNotFound) answer.body = openai::model_not_found_body(error.message);
  ++refused_[answer.status];
  if (reporter_ != nullptr) reporter_->refused(request, id, answer.status, lease.key_name(), net::now());
  exchange.respond(std::move(answer));
}

void ModelDoor::turn_away(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease,
                          const Error& error) {
  for (Proxy* const proxy : proxies_)
    if (proxy != nullptr) return proxy->turn_away(std::move(request), exchange, std::move(lease), error);
  lease.used(0);
  refuse(request, *exchange, lease, error);
}

}  // namespace kvist::gateway
