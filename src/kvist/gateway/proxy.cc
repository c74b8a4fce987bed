#include "kvist/gateway/proxy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/gateway/error_answer.h"
#include "kvist/gateway/proxy_headers.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/errors.h"
#include "kvist/routing/session_key.h"

namespace kvist::gateway {

Proxy::Proxy(Options options, net::HttpClient& client, dispatch::Dispatcher& dispatcher,
             const std::vector<spec::UpstreamSpec>& workers)
    : reader_(std::move(options.model), options.block_size),
      parts_{.client = &client,
             .dispatcher = &dispatcher,
             .workers = &workers,
             .counters = &counters_,
             .upstream_timeout = options.upstream_timeout},
      request_id_seed_(options.request_id_seed) {}

void Proxy::handle(Api api, net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
  const std::string request_id = request_id_for(request.headers);
  const auto admitted = admit(api, request, exchange, request_id);
  if (admitted) return;
  ++refused_[openai::http_status(admitted.error().code)];
  exchange->respond(error_answer(admitted.error(), request_id));
}

Result<void> Proxy::admit(Api api, net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange,
                          const std::string& request_id) {
  const TimePoint arrived = net::now();
  if (draining_) return fail(ErrorCode::kUnavailable, "the gateway is shutting down");
  dispatch::Dispatcher& dispatcher = *parts_.dispatcher;
  if (!dispatcher.has_room()) {  // before the work of reading the prompt; start() counts and words the refusal
    KVIST_TRY_VOID(dispatcher.start({}, arrived));
  }
  KVIST_TRY(ReadRequest read, reader_.read(api, request.body));
  if (const auto session = request.headers.find(kSessionHeader); session && !session->empty()) {
    read.profile.session = routing::session_key(*session);
  }
  read.profile.name = request_id;
  read.profile.streams = read.options.stream;
  // The gateway wants to know how many tokens were cached, whether or not the client does.
  if (read.options.stream && !read.options.include_usage) {
    KVIST_TRY(request.body, openai::with_usage_requested(request.body));
  }
  KVIST_TRY(const dispatch::Ticket ticket, dispatcher.start(read.profile, arrived));

  request.headers = headers_for_worker(request.headers, request_id);
  auto proxied = std::make_shared<ProxiedRequest>(
      parts_,
      ProxyJob{.request = std::move(request),
               .exchange = exchange,
               .request_id = request_id,
               .usage_wanted = read.options.include_usage,
               .prediction_is_whole = read.prompts == 1,
               .arrived = arrived},
      ticket.id, [this](RequestId id, dispatch::Outcome outcome) { on_over(id, outcome); });
  live_.emplace(ticket.id, proxied);
  proxied->start(ticket);
  return {};
}

std::string Proxy::request_id_for(const net::Headers& headers) {
  if (const auto given = headers.find(kRequestIdHeader); given && is_usable_request_id(*given)) {
    return std::string(*given);
  }
  const std::uint64_t number = ++generated_ids_;
  return fmt::format("req-{:016x}{:08x}", mix_seed({request_id_seed_, number}), number & 0xFFFF'FFFFU);
}

void Proxy::on_over(RequestId id, dispatch::Outcome outcome) {
  parts_.dispatcher->finish(id, outcome, net::now());
  live_.erase(id);
  start_ready();
  if (live_.empty() && idle_) std::exchange(idle_, nullptr)();
}

void Proxy::start_ready() {
  if (parts_.dispatcher->waiting() == 0) return;
  for (const dispatch::Ready& ready : parts_.dispatcher->take_ready(net::now())) {
    const std::shared_ptr<ProxiedRequest> request = live_.at(ready.id);
    request->on_ready(ready.decision);
  }
}

void Proxy::drain(std::function<void()> idle) {
  draining_ = true;
  idle_ = std::move(idle);
  if (live_.empty() && idle_) std::exchange(idle_, nullptr)();
}

std::vector<std::shared_ptr<ProxiedRequest>> Proxy::live() const {
  std::vector<std::shared_ptr<ProxiedRequest>> all;
  all.reserve(live_.size());
  for (const auto& [id, request] : live_) all.push_back(request);
  return all;
}

void Proxy::break_off_all() {
  for (const auto& request : live()) request->break_off({ErrorCode::kUnavailable, "the gateway is shutting down"});
}

void Proxy::on_worker_stalled(WorkerId worker) {
  for (const auto& request : live()) request->on_worker_stalled(worker);
}

void Proxy::on_worker_lost(WorkerId worker) {
  for (const auto& request : live()) request->on_worker_lost(worker);
}

}  // namespace kvist::gateway
