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

Proxy::Proxy(net::EventLoop& loop, Options options, net::HttpClient& client, dispatch::Dispatcher& dispatcher,
             const std::vector<spec::UpstreamSpec>& workers)
    : reader_(std::move(options.model), options.block_size, std::move(options.text)),
      pool_(reader_.is_slow() ? std::make_unique<ReadingPool>(loop, ReadingPool::Options{}) : nullptr),
      parts_{.client = &client,
             .dispatcher = &dispatcher,
             .workers = &workers,
             .counters = &counters_,
             .upstream_timeout = options.upstream_timeout},
      request_id_seed_(options.request_id_seed) {}

void Proxy::handle(Api api, net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
  std::string request_id = request_id_for(request.headers);
  const auto arrival = std::make_shared<Arrival>(api, std::move(request), exchange, std::move(request_id), net::now());
  if (const auto room = check_room(arrival->arrived); !room) return refuse(*arrival, room.error());
  if (!pool_) return on_read(*arrival, reader_.read(api, arrival->request.body));
  if (const auto begun = read_on_pool(arrival); !begun) refuse(*arrival, begun.error());
}

Result<void> Proxy::check_room(TimePoint now) {
  if (draining_) return fail(ErrorCode::kUnavailable, "the gateway is shutting down");
  // Before the work of reading the prompt; start() counts and words the refusal.
  if (!parts_.dispatcher->has_room()) KVIST_TRY_VOID(parts_.dispatcher->start({}, now));
  return {};
}

Result<void> Proxy::read_on_pool(const std::shared_ptr<Arrival>& arrival) {
  arrival->exchange->on_client_gone([weak = std::weak_ptr<Arrival>(arrival)] {
    if (const auto left = weak.lock()) left->client_left = true;
  });
  ReadingPool::Work work = [this, held = arrival]() mutable -> std::function<void()> {
    Result<ReadRequest> read = fail(ErrorCode::kDeadlineExceeded, "the gateway had no time to read the prompt");
    if (net::now() < held->arrived + kMaxReadingWait && !held->client_left)
      read = reader_.read(held->api, held->request.body);
    return [this, back = std::move(held), result = std::move(read)] {
      --reading_;
      on_read(*back, result);
      look_whether_idle();
    };
  };
  if (!pool_->submit(std::move(work), arrival->request.body.size()))
    return fail(ErrorCode::kResourceExhausted, "too many prompts wait to be read; try again later");
  ++reading_;
  return {};
}

void Proxy::on_read(Arrival& arrival, Result<ReadRequest> read) {
  if (arrival.client_left) return;
  if (!read) return refuse(arrival, read.error());
  if (broken_off_) return refuse(arrival, {ErrorCode::kUnavailable, "the gateway is shutting down"});
  if (const auto admitted = admit(arrival, *std::move(read)); !admitted) refuse(arrival, admitted.error());
}

void Proxy::refuse(Arrival& arrival, const Error& error) {
  ++refused_[openai::http_status(error.code)];
  arrival.exchange->respond(error_answer(error, arrival.request_id));
}

Result<void> Proxy::admit(Arrival& arrival, ReadRequest read) {
  net::HttpRequest& request = arrival.request;
  if (const auto session = request.headers.find(kSessionHeader); session && !session->empty()) {
    read.profile.session = routing::session_key(*session);
  }
  read.profile.name = arrival.request_id;
  read.profile.streams = read.options.stream;
  // The gateway wants to know how many tokens were cached, whether or not the client does.
  if (read.options.stream && !read.options.include_usage) {
    KVIST_TRY(request.body, openai::with_usage_requested(request.body));
  }
  KVIST_TRY(const dispatch::Ticket ticket, parts_.dispatcher->start(read.profile, net::now()));

  request.headers = headers_for_worker(request.headers, arrival.request_id);
  auto proxied = std::make_shared<ProxiedRequest>(
      parts_,
      ProxyJob{.request = std::move(request),
               .exchange = arrival.exchange,
               .request_id = arrival.request_id,
               .usage_wanted = read.options.include_usage,
               .prediction_is_whole = read.prompts == 1,
               .arrived = arrival.arrived},
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
  look_whether_idle();
}

void Proxy::look_whether_idle() {
  if (live_.empty() && reading_ == 0 && idle_) std::exchange(idle_, nullptr)();
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
  look_whether_idle();
}

std::vector<std::shared_ptr<ProxiedRequest>> Proxy::live() const {
  std::vector<std::shared_ptr<ProxiedRequest>> all;
  all.reserve(live_.size());
  for (const auto& [id, request] : live_) all.push_back(request);
  return all;
}

void Proxy::break_off_all() {
  broken_off_ = true;
  for (const auto& request : live()) request->break_off({ErrorCode::kUnavailable, "the gateway is shutting down"});
}

void Proxy::on_worker_stalled(WorkerId worker) {
  for (const auto& request : live()) request->on_worker_stalled(worker);
}

void Proxy::on_worker_lost(WorkerId worker) {
  for (const auto& request : live()) request->on_worker_lost(worker);
}

}  // namespace kvist::gateway
