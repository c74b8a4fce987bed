// bench: net
// The cost of one piece of a streamed answer from a server's loop to a client's, each on its own thread.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"
#include "kvist/net/sse.h"

namespace kvist::net {
namespace {

// The size of one chunk of a streamed chat completion.
const std::string kEvent = "data: " + std::string(192, 'x') + "\n\n";

/// Streams that stay open: each step writes one event to each of them, as an engine does, and waits for all to arrive.
class OpenStreams {
 public:
  OpenStreams(std::size_t count, bool stamped) : count_(count), client_(client_loop_, {.stamp_reads = stamped}) {
    auto server = HttpServer::listen(server_loop_, {}, [this](const HttpRequest&, auto exchange) {
      exchange->begin_stream(200, {});
      exchanges_.push_back(std::move(exchange));
      arrive(opened_);
    });
    KVIST_CHECK(server.has_value(), server.error().message);
    server_ = std::move(*server);
    server_thread_ = std::thread([this] { server_loop_.run(); });
    client_loop_.post([this, stamped] { open(stamped); });
    client_thread_ = std::thread([this] { client_loop_.run(); });
    await(opened_, count_);
  }
  ~OpenStreams() {
    client_loop_.stop();
    client_thread_.join();
    calls_.clear();
    server_loop_.stop();
    server_thread_.join();
    exchanges_.clear();
  }

  void step() {
    expected_ += count_ * kEvent.size();
    server_loop_.post([this] {
      for (const auto& exchange : exchanges_) exchange->write(kEvent);
    });
    await(received_, expected_);
  }

 private:
  void open(bool stamped) {
    const std::string url = "http://127.0.0.1:" + std::to_string(server_->port());
    for (std::size_t i = 0; i < count_; ++i) {
      CallHandlers handlers;
      handlers.on_body = [this, i, stamped](std::string_view data, TimePoint) {
        if (stamped) benchmark::DoNotOptimize(calls_[i]->piece_age(HttpCall::Bytes::kLast));
        arrive(received_, data.size());
      };
      HttpRequest request{.method = "GET", .target = "/", .headers = {}, .body = {}};
      calls_.push_back(client_.start(url, std::move(request), std::chrono::hours(1), std::move(handlers)));
    }
  }
  static void arrive(std::atomic<std::uint64_t>& counter, std::uint64_t amount = 1) {
    counter += amount;
    counter.notify_one();
  }
  static void await(const std::atomic<std::uint64_t>& counter, std::uint64_t wanted) {
    for (std::uint64_t seen = counter; seen < wanted; seen = counter) counter.wait(seen);
  }

  std::size_t count_;
  EventLoop server_loop_;
  EventLoop client_loop_;
  std::unique_ptr<HttpServer> server_;
  HttpClient client_;
  std::vector<std::shared_ptr<HttpExchange>> exchanges_;
  std::vector<std::unique_ptr<HttpCall>> calls_;
  std::atomic<std::uint64_t> opened_ = 0;
  std::atomic<std::uint64_t> received_ = 0;
  std::uint64_t expected_ = 0;
  std::thread server_thread_;
  std::thread client_thread_;
};

void run_steps(benchmark::State& state, bool stamped) {
  OpenStreams streams(static_cast<std::size_t>(state.range(0)), stamped);
  for ([[maybe_unused]] auto _ : state) streams.step();
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void streamed_events(benchmark::State& state) {
  run_steps(state, false);
}
BENCHMARK(streamed_events)->Name("net/streamed_events")->Arg(1)->Arg(128)->UseRealTime();

/// The same to a client that asks for the age of each event, as a load generator does.
void stamped_events(benchmark::State& state) {
  run_steps(state, true);
}
BENCHMARK(stamped_events)->Name("net/stamped_events")->Arg(1)->Arg(128)->UseRealTime();

void split_events(benchmark::State& state) {
  std::string burst;
  for (int i = 0; i < 64; ++i) burst += kEvent;
  SseParser parser;
  SseParser::Event event;
  for ([[maybe_unused]] auto _ : state) {
    KVIST_CHECK(parser.feed(burst).has_value(), "");
    while (parser.next(event)) benchmark::DoNotOptimize(event.data.data());
  }
  state.SetItemsProcessed(state.iterations() * 64);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(burst.size()));
}
BENCHMARK(split_events)->Name("net/split_events");

}  // namespace
}  // namespace kvist::net
