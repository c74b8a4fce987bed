#include "kvist/loadgen/reference_server.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/loadgen/json_answers.h"
#include "kvist/loadgen/reference_record.h"
#include "kvist/net/http_server.h"
#include "kvist/net/path_table.h"
#include "kvist/openai/codec.h"

namespace kvist::loadgen {
namespace {

constexpr std::uint32_t kDefaultTokens = 16;
constexpr std::uint32_t kMostTokens = 100'000;
constexpr std::uint64_t kMostRecordedTokens = 16'000'000;
/// As many as one address has ports for, and more.
constexpr std::uint32_t kMostStreams = 100'000;
constexpr std::string_view kModel = "reference";

std::string event(const std::string& json) {
  return "data: " + json + "\n\n";
}

/// One answer under way.
struct Stream {
  std::shared_ptr<net::HttpExchange> exchange;
  std::uint32_t tokens = 0;
  TimePoint slot;       // of the next one, without jitter
  TimePoint due;        // of the next one
  RandomStream jitter;  // of its tokens
  ReferenceStream record;
};

/// One timer serves all streams.
class ReferenceServerImpl final : public ReferenceServer {
 public:
  ReferenceServerImpl(net::EventLoop& loop, const ReferenceServerOptions& options)
      : options_(options), loop_(loop), timer_(loop), paths_(refused_answer) {
    const openai::AnswerHead head{.id = "chatcmpl-1", .model = std::string(kModel), .created = 1, .chat = true};
    role_ = event(openai::role_chunk(head, 0));
    token_ = event(openai::text_chunk(head, 0, " word"));
    end_ = event(openai::finish_chunk(head, 0, "length"));
    head_ = head;
    paths_.on("POST", "/v1/chat/completions",
              [this](const net::HttpRequest& request, const auto& exchange) { answer(request, exchange); });
    paths_.answer("GET", "/v1/models", [](const net::HttpRequest&) {
      return json_answer(openai::model_list({std::string(kModel)}, 1, kMostTokens));
    });
    paths_.answer("GET", "/record",
                  [this](const net::HttpRequest&) { return json_answer(reference_record_json(records_, dropped_)); });
    paths_.answer("POST", "/record/reset", [this](const net::HttpRequest&) {
      records_.clear();
      recorded_tokens_ = dropped_ = 0;
      return json_answer("{}");
    });
  }

  Result<void> listen() {
    net::HttpServerOptions http;
    http.host = options_.http.host;
    http.port = options_.http.port;
    http.max_connections = kMostStreams;
    http.stamp_reads = true;
    KVIST_TRY(server_, net::HttpServer::listen(
                           loop_, http, [this](net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& e) {
                             paths_.handle(std::move(request), e);
                           }));
    return {};
  }

  [[nodiscard]] std::uint16_t port() const override { return server_->port(); }

 private:
  using Due = std::pair<TimePoint, std::shared_ptr<Stream>>;
  using Queue = std::priority_queue<Due, std::vector<Due>, std::greater<>>;

  void answer(const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange) {
    const TimePoint arrived = exchange->request_arrived().value_or(net::now());
    const auto chat = openai::parse_chat_request(request.body, openai::ReadFor::kAnswer);
    if (!chat) return exchange->respond(error_answer(chat.error()));
    if (!chat->options.stream) {
      return exchange->respond(
          error_answer({ErrorCode::kUnsupported, "stream: the reference server answers in streams only"}));
    }
    auto stream = std::make_shared<Stream>(
        Stream{.exchange = exchange,
               .tokens = std::clamp(chat->options.max_tokens.value_or(kDefaultTokens), 1U, kMostTokens),
               .slot = arrived + options_.first,
               .due = {},
               .jitter = RandomStream(mix_seed({seed_part("jitter"), streams_++})),
               .record = {}});
    stream->record.request = request.headers.find("X-Request-Id").value_or("");
    stream->record.arrived = arrived;
    set_due(*stream);
    net::Headers headers;
    headers.add("Content-Type", "text/event-stream");
    exchange->begin_stream(200, std::move(headers));
    exchange->write(role_);
    queue_.emplace(stream->due, std::move(stream));
    arm();
  }

  void set_due(Stream& stream) const {
    stream.due = stream.slot + Duration(stream.jitter.uniform_int(0, options_.jitter.count()));
  }

  void arm() {
    if (!queue_.empty()) timer_.arm(queue_.top().first, [this] { send_due(); });
  }

  void send_due() {
    const TimePoint now = net::now();
    while (!queue_.empty() && queue_.top().first <= now) {
      // What a handler writes is sent when the handler is done. So each token has a handler of its own, and leaves when
      // its record says so instead of after the tokens of all other streams that are due at the same instant.
      loop_.post([this, stream = queue_.top().second] {
        if (!stream->exchange->client_gone()) send(stream);
      });
      queue_.pop();
    }
    arm();
  }

  void send(const std::shared_ptr<Stream>& stream) {
    ReferenceStream& record = stream->record;
    const TimePoint now = net::now();
    record.latest_by = std::max(record.latest_by, now - stream->due);
    record.sent.push_back(now);
    stream->exchange->write(token_);
    if (record.sent.size() < stream->tokens) {
      stream->slot += options_.gap;
      set_due(*stream);
      queue_.emplace(stream->due, stream);
      return arm();
    }
    const openai::Usage usage{.prompt_tokens = 1, .completion_tokens = stream->tokens, .cached_tokens = 0};
    stream->exchange->write(end_ + event(openai::usage_chunk(head_, usage)) + "data: [DONE]\n\n");
    stream->exchange->end_stream();
    keep(std::move(record));
  }

  void keep(ReferenceStream record) {
    if (recorded_tokens_ + record.sent.size() > kMostRecordedTokens) {
      ++dropped_;
      return;
    }
    recorded_tokens_ += record.sent.size();
    records_.push_back(std::move(record));
  }

  const ReferenceServerOptions options_;
  net::EventLoop& loop_;
  net::Timer timer_;
  net::PathTable paths_;
  openai::AnswerHead head_;
  std::string role_, token_, end_;  // events
  Queue queue_;
  std::vector<ReferenceStream> records_;
  std::uint64_t streams_ = 0;
  std::uint64_t recorded_tokens_ = 0;
  std::uint64_t dropped_ = 0;
  std::unique_ptr<net::HttpServer> server_;  // last, so that it is destroyed first
};

}  // namespace

Result<std::unique_ptr<ReferenceServer>> ReferenceServer::create(net::EventLoop& loop,
                                                                 const ReferenceServerOptions& options) {
  if (options.first < Duration::zero() || options.gap <= Duration::zero()) {
    return fail(ErrorCode::kInvalidArgument,
                "the reference server's first token must not be due before its request, "
                "and the gap between tokens must be above 0");
  }
  if (options.jitter < Duration::zero() || options.jitter >= options.gap) {
    return fail(ErrorCode::kInvalidArgument, "the reference server's jitter must be below the gap between tokens");
  }
  auto server = std::make_unique<ReferenceServerImpl>(loop, options);
  KVIST_TRY_VOID(server->listen());
  return server;
}

}  // namespace kvist::loadgen
