// An OpenAI-compatible server of known times: every stream has a clock of its own, its first token so long after the
// request has been read, each later one so long after the one before. Its record has what it really did, for comparison
// with a client's figures. It computes nothing, because clients and proxies that are measured with it need the cores.
//
// A gateway that asks for streams that can be resumed gets notes of tokens, as from a worker of kvist's
// (docs/design/migration.md), because they are a part of what such a stream costs it.
//
//   paced_server FIRST_MS GAP_MS     prints "ready http=PORT"; GET /record, POST /record/reset
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/json_writer.h"
#include "kvist/base/time.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_server.h"

namespace {

using namespace kvist;

constexpr std::string_view kResumableHeader = "x-kvist-resumable";

struct Pace {
  Duration first{};
  Duration gap{};
};

/// What one stream did: instants of the steady clock, in seconds; the lateness is that of its latest token.
struct StreamRecord {
  double arrived = 0;
  double first = 0;
  double last = 0;
  double latest_by = 0;
  std::uint64_t tokens = 0;
};

/// What a request asks for, as far as it changes the answer's form.
struct Asked {
  bool chat = true;
  bool streams = false;
  bool final_usage = false;
  bool running_usage = false;
  bool resumable = false;
  std::uint64_t tokens = 16;
  std::uint64_t prompt_tokens = 0;
};

double seconds_of(TimePoint at) {
  return to_seconds(at.time_since_epoch());
}

/// Four characters are a token, roughly: clients are not measured by it.
std::uint64_t prompt_tokens_of(std::string_view body) {
  return std::max<std::uint64_t>(1, body.size() / 4);
}

Asked read_request(const net::HttpRequest& request) {
  Asked asked{.chat = request.path() == "/v1/chat/completions",
              .resumable = request.headers.find(kResumableHeader).has_value(),
              .prompt_tokens = prompt_tokens_of(request.body)};
  simdjson::dom::parser parser;
  simdjson::dom::element body;
  if (parser.parse(simdjson::padded_string(request.body)).get(body) != simdjson::SUCCESS) return asked;
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    std::uint64_t tokens = 0;
    if (body[name].get(tokens) == simdjson::SUCCESS) asked.tokens = std::clamp<std::uint64_t>(tokens, 1, 100'000);
  }
  const auto flag = [&](const simdjson::simdjson_result<simdjson::dom::element>& value) {
    bool set = false;
    return value.get(set) == simdjson::SUCCESS && set;
  };
  asked.streams = flag(body["stream"]);
  asked.final_usage = flag(body["stream_options"]["include_usage"]);
  asked.running_usage = flag(body["stream_options"]["continuous_usage_stats"]);
  return asked;
}

std::string usage_json(const Asked& asked, std::uint64_t tokens) {
  return R"({"prompt_tokens":)" + std::to_string(asked.prompt_tokens) + R"(,"completion_tokens":)" +
         std::to_string(tokens) + R"(,"total_tokens":)" + std::to_string(asked.prompt_tokens + tokens) +
         R"(,"prompt_tokens_details":{"cached_tokens":0}})";
}

/// Frames of an answer; one token is one word.
std::string frame(const Asked& asked, std::uint64_t index) {
  const bool last = index + 1 == asked.tokens;
  std::string text;
  if (asked.resumable) {
    const int events = !last ? 1 : asked.final_usage || asked.running_usage ? 3 : 2;
    text = ":" + std::to_string(events) + "," + std::to_string(10'000 + index) + "\n";
  }
  text += asked.chat ? R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",)"
                     : R"(data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"m",)";
  text += R"("choices":[{"index":0,)";
  if (asked.chat) {
    text += index == 0 ? R"("delta":{"role":"assistant","content":" word"})" : R"("delta":{"content":" word"})";
  } else {
    text += R"("text":" word")";
  }
  text += R"(,"logprobs":null,"finish_reason":)";
  text += last ? R"("length"}])" : "null}]";
  if (asked.running_usage) text += R"(,"usage":)" + usage_json(asked, index + 1);
  text += "}\n\n";
  if (!last) return text;
  if (asked.final_usage || asked.running_usage) {
    text +=
        asked.chat
            ? R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":)"
            : R"(data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[],"usage":)";
    text += usage_json(asked, asked.tokens) + "}\n\n";
  }
  return text + "data: [DONE]\n\n";
}

std::string whole_answer(const Asked& asked) {
  std::string words;
  for (std::uint64_t i = 0; i < asked.tokens; ++i) words += " word";
  const std::string choice =
      asked.chat ? R"("message":{"role":"assistant","content":")" + words + R"("})" : R"("text":")" + words + '"';
  return std::string(R"({"id":"cmpl-1","object":")") + (asked.chat ? "chat.completion" : "text_completion") +
         R"(","created":1,"model":"m","choices":[{"index":0,)" + choice +
         R"(,"logprobs":null,"finish_reason":"length"}],"usage":)" + usage_json(asked, asked.tokens) + "}";
}

/// One answer under way, and when its next token is due.
struct Stream {
  Asked asked;
  std::shared_ptr<net::HttpExchange> exchange;
  TimePoint due;
  std::uint64_t sent = 0;
  StreamRecord record;
};

/// Everything lives on one loop, and one timer serves all streams.
class PacedServer {
 public:
  PacedServer(net::EventLoop& loop, Pace pace) : pace_(pace), loop_(loop), timer_(loop) {
    net::HttpServerOptions options;
    options.port = 0;
    auto listening = net::HttpServer::listen(
        loop, options, [this](net::HttpRequest request, auto exchange) { handle(request, std::move(exchange)); });
    if (listening) server_ = std::move(*listening);
  }

  [[nodiscard]] std::uint16_t port() const { return server_ ? server_->port() : 0; }

 private:
  using Queue = std::priority_queue<std::pair<TimePoint, std::shared_ptr<Stream>>,
                                    std::vector<std::pair<TimePoint, std::shared_ptr<Stream>>>, std::greater<>>;

  void handle(const net::HttpRequest& request, std::shared_ptr<net::HttpExchange> exchange) {
    const std::string_view path = request.path();
    if (path == "/v1/chat/completions" || path == "/v1/completions") return answer(request, std::move(exchange));
    if (path == "/record") return respond(*exchange, record_json());
    if (path == "/record/reset") {
      records_.clear();
      return respond(*exchange, "{}");
    }
    if (path == "/v1/models") {
      return respond(*exchange, R"({"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"paced",)"
                                R"("max_model_len":131072}]})");
    }
    respond(*exchange, path == "/metrics" ? "" : "{}");
  }

  static void respond(net::HttpExchange& exchange, std::string body) {
    net::HttpResponse response{.status = 200, .headers = {}, .body = std::move(body)};
    response.headers.add("Content-Type", "application/json");
    exchange.respond(std::move(response));
  }

  void answer(const net::HttpRequest& request, std::shared_ptr<net::HttpExchange> exchange) {
    auto stream = std::make_shared<Stream>();
    const TimePoint now = net::now();
    stream->asked = read_request(request);
    stream->exchange = std::move(exchange);
    stream->record.arrived = seconds_of(now);
    stream->due = now + pace_.first;
    if (stream->asked.streams) {
      net::Headers headers;
      headers.add("Content-Type", "text/event-stream");
      if (stream->asked.resumable) headers.add(std::string(kResumableHeader), "1");
      stream->exchange->begin_stream(200, std::move(headers));
    } else {
      stream->due += pace_.gap * static_cast<Duration::rep>(stream->asked.tokens - 1);
    }
    queue_.emplace(stream->due, std::move(stream));
    arm();
  }

  void arm() {
    if (!queue_.empty()) timer_.arm(queue_.top().first, [this] { send_due(); });
  }

  void send_due() {
    const TimePoint now = net::now();
    while (!queue_.empty() && queue_.top().first <= now) {
      const std::shared_ptr<Stream> stream = queue_.top().second;
      queue_.pop();
      // What a handler writes leaves when the handler is done. With a handler of its own each token leaves when its
      // record says so, not after those of all other streams that are due at the same instant.
      loop_.post([this, stream] {
        if (!stream->exchange->client_gone()) send(stream);
      });
    }
    arm();
  }

  void send(const std::shared_ptr<Stream>& stream) {
    StreamRecord& record = stream->record;
    const TimePoint now = net::now();
    record.latest_by = std::max(record.latest_by, to_seconds(now - stream->due));
    record.last = seconds_of(now);
    if (stream->sent == 0) record.first = record.last;
    if (!stream->asked.streams) {
      respond(*stream->exchange, whole_answer(stream->asked));
      record.tokens = stream->asked.tokens;
      return records_.push_back(record);
    }
    stream->exchange->write(frame(stream->asked, stream->sent++));
    if (stream->sent < stream->asked.tokens) {
      stream->due += pace_.gap;
      queue_.emplace(stream->due, stream);
      return arm();
    }
    stream->exchange->end_stream();
    record.tokens = stream->sent;
    records_.push_back(record);
  }

  [[nodiscard]] std::string record_json() const {
    JsonWriter json;
    json.begin_object().key("streams").begin_array();
    for (const StreamRecord& record : records_) {
      json.begin_array().value(record.arrived).value(record.first).value(record.last).value(record.latest_by);
      json.value(record.tokens).end_array();
    }
    json.end_array().end_object();
    return json.take();
  }

  Pace pace_;
  net::EventLoop& loop_;
  net::Timer timer_;
  Queue queue_;
  std::vector<StreamRecord> records_;
  std::unique_ptr<net::HttpServer> server_;
};

bool read_milliseconds(const char* text, Duration& out) {
  double ms = 0;
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, ms);
  out = from_milliseconds(ms);
  return error == std::errc() && at == end && ms >= 0 && ms < 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  Pace pace;
  if (argc != 3 || !read_milliseconds(argv[1], pace.first) || !read_milliseconds(argv[2], pace.gap)) {
    std::fputs("usage: paced_server FIRST_MS GAP_MS\n", stderr);
    return 2;
  }
  net::EventLoop loop;
  PacedServer server(loop, pace);
  if (server.port() == 0) {
    std::fputs("paced_server: cannot listen\n", stderr);
    return 1;
  }
  std::printf("ready http=%d\n", server.port());
  std::fflush(stdout);
  loop.on_termination([&loop] { loop.stop(); });
  loop.run();
  return 0;
}
