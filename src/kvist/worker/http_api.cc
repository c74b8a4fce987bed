#include "kvist/worker/http_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <random>
#include <utility>

#include "kvist/base/json_writer.h"
#include "kvist/base/version.h"
#include "kvist/net/time_of_day.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/errors.h"
#include "kvist/openai/resumption.h"
#include "kvist/telemetry/metrics.h"
#include "kvist/worker/http_reply.h"
#include "kvist/worker/metrics_page.h"

namespace kvist::worker {
namespace {

constexpr std::size_t kMaxRequestIdBytes = 128;

// Large bodies that wait to be read.
constexpr std::size_t kMostWaiting = 256;
constexpr std::size_t kMostWaitingBytes = 256UL << 20;

// Request ids only have to differ between processes, so they are seeded with true randomness.
std::uint64_t random_seed() {
  std::random_device device;
  return mix_seed({device(), device(), static_cast<std::uint64_t>(net::unix_seconds() * 1e6)});
}

bool is_usable_id(std::string_view id) {
  return !id.empty() && id.size() <= kMaxRequestIdBytes &&
         std::ranges::all_of(id, [](char c) { return c > ' ' && c <= '~'; });
}

Error shutting_down() {
  return {ErrorCode::kUnavailable, "the worker is shutting down"};
}

}  // namespace

/// One HTTP request on its way through a handler.
struct HttpApi::Call {
  net::HttpRequest request;
  std::shared_ptr<net::HttpExchange> exchange;
  std::string id;

  void reply(std::string body, int status = 200) { exchange->respond(json_reply(status, std::move(body), id)); }
  void refuse(const Error& error) { exchange->respond(error_reply(error, id)); }
};

HttpApi::HttpApi(net::EventLoop& loop, const spec::WorkerSpec& spec, const RequestReader& reader, EngineRunner& runner,
                 Generations& generations)
    : spec_(&spec),
      reader_(&reader),
      runner_(&runner),
      generations_(&generations),
      started_unix_s_(net::unix_seconds()),
      ids_(random_seed()),
      paths_([this](const auto& request, int status, const auto& why) { return refused(request, status, why); }),
      admin_paths_([this](const auto& request, int status, const auto& why) { return refused(request, status, why); }),
      pool_(loop, {.threads = 1, .max_waiting = kMostWaiting, .max_waiting_bytes = kMostWaitingBytes}) {
  on(paths_, "POST", "/v1/chat/completions", &HttpApi::chat);
  on(paths_, "POST", "/v1/completions", &HttpApi::completion);
  on(paths_, "GET", "/v1/models", &HttpApi::models);
  on(paths_, "GET", "/v1/models/" + spec.model, &HttpApi::model);
  on(paths_, "GET", "/health", &HttpApi::health);
  on(paths_, "GET", "/ping", &HttpApi::health);
  on(paths_, "GET", "/version", &HttpApi::version);
  on(paths_, "GET", "/metrics", &HttpApi::metrics);
  on(paths_, "POST", "/tokenize", &HttpApi::tokenize);
  on(paths_, "POST", "/detokenize", &HttpApi::detokenize);
  on(admin_paths_, "GET", "/health", &HttpApi::health);
  on(admin_paths_, "POST", "/reset_prefix_cache", &HttpApi::reset_prefix_cache);
  on(admin_paths_, "GET", "/debug/kv_blocks", &HttpApi::kv_blocks);
}

void HttpApi::on(net::PathTable& paths, const std::string& method, const std::string& path,
                 void (HttpApi::*handler)(Call& call)) {
  paths.on(method, path, [this, handler](net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
    std::string id = request_id(request.headers);
    Call call{.request = std::move(request), .exchange = exchange, .id = std::move(id)};
    (this->*handler)(call);
  });
}

net::HttpResponse HttpApi::refused(const net::HttpRequest& request, int status, const std::string& message) {
  constexpr int kMethodNotAllowed = 405;
  const ErrorCode code = status == 404 ? ErrorCode::kNotFound : ErrorCode::kInvalidArgument;
  const std::string body = status == kMethodNotAllowed
                               ? openai::error_body(message, "Method Not Allowed", "", status)  // as vLLM says it
                               : openai::error_body(Error{code, message});
  return json_reply(status, body, request_id(request.headers));
}

std::string HttpApi::request_id(const net::Headers& headers) {
  const std::optional<std::string_view> given = headers.find("X-Request-Id");
  if (given && is_usable_id(*given)) return std::string(*given);
  return fmt::format("{:016x}{:016x}", ids_.next(), ids_.next());
}

Caller HttpApi::caller_of(const Call& call) {
  const std::optional<std::string_view> resumable = call.request.headers.find(openai::kResumableHeader);
  return {.exchange = call.exchange,
          .request_id = call.id,
          .resumable = resumable ? openai::read_resumable(*resumable) : std::nullopt};
}

template <class Asked>
void HttpApi::read(Call& call, Reads<Asked> reads, Takes<Asked> takes) {
  if (call.request.body.size() > kReadOnLoopBytes) return read_beside_the_loop(call, reads, takes);
  Result<Asked> asked = (reader_->*reads)(call.request.body);
  if (!asked) return call.refuse(asked.error());
  (this->*takes)(call, *std::move(asked));
}

// What the pool drops at its end was the last to hold the call; otherwise the last reference is released on the loop.
template <class Asked>
void HttpApi::read_beside_the_loop(Call& call, Reads<Asked> reads, Takes<Asked> takes) {
  struct Held {
    explicit Held(Call held) : call(std::move(held)) {}
    Call call;
    std::atomic<bool> client_left = false;
    std::optional<Result<Asked>> asked;
  };
  const auto held = std::make_shared<Held>(std::move(call));
  held->call.exchange->on_client_gone([weak = std::weak_ptr(held)] {
    if (const auto still = weak.lock()) still->client_left = true;
  });
  net::WorkPool::Work work = [this, held, reads, takes]() -> std::function<void()> {
    if (!held->client_left) held->asked = (reader_->*reads)(held->call.request.body);
    return [this, held, takes] {
      if (held->client_left) return generations_->came();
      if (Result<Asked>& asked = *held->asked) {
        (this->*takes)(held->call, *std::move(asked));
      } else {
        held->call.refuse(asked.error());
      }
      generations_->came();
    };
  };
  generations_->expect();
  if (pool_.submit(std::move(work), held->call.request.body.size())) return;
  generations_->came();
  held->call.refuse({ErrorCode::kUnavailable, "too many large requests wait to be read"});
}

void HttpApi::start(Call& call, GenerationRequest request) {
  const Result<void> started = generations_->start(std::move(request), caller_of(call));
  if (!started) call.refuse(started.error());
}

void HttpApi::answer(Call& call, std::string body) {
  call.reply(std::move(body));
}

void HttpApi::chat(Call& call) {
  if (refusing_) return call.refuse(shutting_down());
  read(call, &RequestReader::chat, &HttpApi::start);
}

void HttpApi::completion(Call& call) {
  if (refusing_) return call.refuse(shutting_down());
  read(call, &RequestReader::completion, &HttpApi::start);
}

void HttpApi::tokenize(Call& call) {
  read(call, &RequestReader::tokenize, &HttpApi::answer);
}

void HttpApi::detokenize(Call& call) {
  read(call, &RequestReader::detokenize, &HttpApi::answer);
}

void HttpApi::models(Call& call) {
  call.reply(openai::model_list({spec_->model}, static_cast<std::int64_t>(started_unix_s_), spec_->max_model_len));
}

void HttpApi::model(Call& call) {
  const auto cards = openai::parse_model_list(
      openai::model_list({spec_->model}, static_cast<std::int64_t>(started_unix_s_), spec_->max_model_len));
  call.reply(cards->front().json);
}

void HttpApi::health(Call& call) {
  if (refusing_) return call.refuse(shutting_down());
  call.reply(R"({"status":"ok"})");
}

void HttpApi::version(Call& call) {
  call.reply(fmt::format(R"({{"version":"{}"}})", kVersion));
}

void HttpApi::metrics(Call& call) {
  const MetricSources sources{.runner = *runner_,
                              .generations = *generations_,
                              .reading = pool_.counters(),
                              .listener = listener_ != nullptr ? listener_->report() : net::HttpServerReport{},
                              .keys = keys_,
                              .tls = tls_,
                              .started_unix_s = started_unix_s_};
  std::string page = telemetry::expose([&](telemetry::MetricsPage& to) { write_metrics(to, *spec_, sources); });
  call.exchange->respond(
      {.status = 200, .headers = reply_headers(telemetry::kExpositionContentType, call.id), .body = std::move(page)});
}

void HttpApi::reset_prefix_cache(Call& call) {
  if (runner_->reset_prefix_cache()) return call.reply("{}");
  const Error error{ErrorCode::kUnavailable, fmt::format("{} requests are running; the prefix cache is reset only when "
                                                         "none is",
                                                         runner_->driver().stats().running)};
  call.reply(openai::error_body(error), 409);
}

/// The real content of the pool, with which a subscriber's view of the KV events can be compared. Hashes are strings,
/// because a JSON number may lose low bits of 64. They are sorted, so that equal contents give equal pages.
void HttpApi::kv_blocks(Call& call) {
  const engine::Core& core = runner_->driver().core();
  const auto findable = core.findable_blocks();
  std::vector<std::pair<kv::BlockHash, std::uint32_t>> blocks(findable.begin(), findable.end());
  std::ranges::sort(blocks);
  JsonWriter json;
  json.begin_object().field("block_size", spec_->block_size).field("evictions", core.stats().evictions);
  json.key("blocks").begin_array();
  for (const auto& [name, copies] : blocks) {
    json.begin_array().value(std::to_string(name.value())).value(copies).end_array();
  }
  json.end_array().end_object();
  call.reply(json.take());
}

std::optional<net::HttpResponse> HttpApi::refuse_stranger(const net::HttpRequest& head) {
  if (keys_ == nullptr || head.path() == "/health" || head.path() == "/ping") return std::nullopt;
  return keys_->refuse(head.headers, request_id(head.headers));
}

void HttpApi::handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
  if (auto refusal = refuse_stranger(request)) return exchange->respond(*std::move(refusal));
  paths_.handle(std::move(request), exchange);
}

}  // namespace kvist::worker
