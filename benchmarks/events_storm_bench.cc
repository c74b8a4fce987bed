// bench: base kv gateway net spec telemetry
// How long a routing decision waits while the workers publish a storm of KV events: work is posted to the routing loop,
// as a request's decision is, and the time until it runs is measured.
#include <benchmark/benchmark.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../tests/net/loop_thread.h"
#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/gateway/service.h"
#include "kvist/kv/kv_event_codec.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"
#include "kvist/net/zmq_publisher.h"
#include "kvist/telemetry/exposition.h"
#include "kvist/telemetry/log.h"

namespace {

using namespace kvist;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kWorkers = 64;
constexpr std::uint32_t kBlockSize = 16;
constexpr std::size_t kBlocksPerBatch = 40;
constexpr std::size_t kPrompts = 50;

/// The batches that one worker publishes over and over: each stores the blocks of a prompt and removes those of an
/// older one.
std::vector<std::string> make_payloads() {
  RandomStream random(1);
  std::vector<kv::BlockStored> prompts(kPrompts);
  for (kv::BlockStored& prompt : prompts) {
    prompt.block_size = kBlockSize;
    for (std::size_t i = 0; i < kBlocksPerBatch; ++i) prompt.hashes.emplace_back(random.next());
    for (std::size_t i = 0; i < kBlocksPerBatch * kBlockSize; ++i)
      prompt.tokens.emplace_back(static_cast<std::uint32_t>(random.next() % 128'000));
  }
  std::vector<std::string> payloads;
  for (std::size_t i = 0; i < kPrompts; ++i) {
    kv::BlockRemoved removed{.hashes = prompts[(i + kPrompts / 2) % kPrompts].hashes};
    std::ranges::reverse(removed.hashes);
    payloads.push_back(
        kv::encode_kv_events({.timestamp_s = 1754000000.25, .events = {prompts[i], removed}, .data_parallel_rank = 0}));
  }
  return payloads;
}

using Ports = std::array<std::uint16_t, 2 * kWorkers>;

/// Publishes for all workers, `blocks_per_second` blocks each at even intervals, until the process is killed.
[[noreturn]] void publish_storm(std::int64_t blocks_per_second, int ports_to) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::vector<std::string> payloads = make_payloads();
  std::vector<std::unique_ptr<net::ZmqPublisher>> publishers;
  Ports ports{};
  for (std::size_t i = 0; i < kWorkers; ++i) {
    net::ZmqPublisherOptions options;
    options.endpoint = options.replay_endpoint = "tcp://127.0.0.1:0";
    options.buffer_messages = 100;
    auto made = net::ZmqPublisher::bind(std::move(options));
    KVIST_CHECK(made, made.error().message);
    publishers.push_back(std::move(*made));
    ports[2 * i] = publishers[i]->port();
    ports[2 * i + 1] = publishers[i]->replay_port();
  }
  KVIST_CHECK(::write(ports_to, ports.data(), sizeof ports) == sizeof ports, "write");
  if (blocks_per_second == 0) {
    while (true) ::pause();
  }
  const std::chrono::duration<double> pause(static_cast<double>(kBlocksPerBatch) /
                                            static_cast<double>(blocks_per_second * kWorkers));
  const auto begin = Clock::now();
  for (std::uint64_t number = 0;; ++number) {
    std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(pause * number));
    publishers[number % kWorkers]->publish(payloads[number / kWorkers % kPrompts]);
  }
}

/// A gateway in front of workers that consist of a publisher in another process and a server that says they are well.
class Fleet {
 public:
  Fleet(std::uint32_t threads, std::int64_t blocks_per_second) {
    std::array<int, 2> pipe{};
    KVIST_CHECK(::pipe(pipe.data()) == 0, "pipe");
    child_ = ::fork();
    KVIST_CHECK(child_ >= 0, "fork");
    if (child_ == 0) publish_storm(blocks_per_second, pipe[1]);
    Ports ports{};
    KVIST_CHECK(::read(pipe[0], ports.data(), sizeof ports) == sizeof ports, "the publishers have ports");
    ::close(pipe[0]);
    ::close(pipe[1]);
    telemetry::start_logging(telemetry::LogLevel::kError, "bench");
    worker_loop_.emplace();
    gateway_loop_.emplace();
    worker_loop_->run([&] {
      auto server = net::HttpServer::listen(worker_loop_->loop(), {}, [](const net::HttpRequest&, auto exchange) {
        exchange->respond({.status = 200, .headers = {}, .body = ""});
      });
      KVIST_CHECK(server.has_value(), "listen");
      worker_ = std::move(*server);
    });
    make_gateway(threads, ports);
  }
  ~Fleet() {
    gateway_loop_->run([&] { gateway_.reset(); });
    worker_loop_->run([&] { worker_.reset(); });
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  [[nodiscard]] net::EventLoop& routing_loop() { return gateway_loop_->loop(); }
  /// The sum of a metric over all workers.
  [[nodiscard]] double metric(std::string_view name) const {
    const auto page =
        net::fetch_blocking("GET", "http://127.0.0.1:" + std::to_string(gateway_->admin_port()) + "/metrics", "",
                            std::chrono::seconds(100));
    KVIST_CHECK(page, page.error().message);
    const auto samples = telemetry::MetricSamples::parse(page->body);
    KVIST_CHECK(samples, samples.error().message);
    double sum = 0;
    for (const telemetry::MetricSample& sample : samples->samples()) sum += sample.name == name ? sample.value : 0;
    return sum;
  }

 private:
  void make_gateway(std::uint32_t threads, const Ports& ports) {
    spec::GatewaySpec spec;
    spec.http.port = 0;
    spec.model = "m";
    spec.mode = spec::RoutingMode::kKv;
    spec.block_size = kBlockSize;
    spec.threads = threads;
    spec.health_interval = std::chrono::hours(1);
    const auto at = [](std::uint16_t port) { return "127.0.0.1:" + std::to_string(port); };
    for (std::size_t i = 0; i < kWorkers; ++i) {
      spec.workers.push_back({.name = "w" + std::to_string(i),
                              .url = "http://" + at(worker_->port()),
                              .kv_events = "tcp://" + at(ports[2 * i]),
                              .kv_replay = "tcp://" + at(ports[2 * i + 1])});
    }
    gateway_loop_->run([&] {
      auto service = gateway::Service::create(gateway_loop_->loop(), spec);
      KVIST_CHECK(service, service.error().message);
      gateway_ = std::move(*service);
    });
  }

  pid_t child_ = 0;
  // Made after the fork, so that the child has only its own thread.
  std::optional<net::LoopThread> worker_loop_;
  std::optional<net::LoopThread> gateway_loop_;
  std::unique_ptr<net::HttpServer> worker_;
  std::unique_ptr<gateway::Service> gateway_;
};

double process_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double percentile(std::vector<double>& values, double part) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

/// range(0) threads of the gateway, range(1) blocks a second and worker. The time is the mean wait.
void decision_in_a_storm(benchmark::State& state) {
  Fleet fleet(static_cast<std::uint32_t>(state.range(0)), state.range(1));
  constexpr auto kWarmUp = std::chrono::seconds(2);
  constexpr auto kMeasured = std::chrono::seconds(6);
  std::this_thread::sleep_for(kWarmUp);
  for ([[maybe_unused]] auto _ : state) {
    const double blocks_before = fleet.metric("kvist_gateway_kv_blocks_stored_total");
    const double processor_before = process_seconds();
    std::vector<double> waits;
    const auto begin = Clock::now();
    while (Clock::now() - begin < kMeasured) {
      std::promise<void> called;
      const auto asked = Clock::now();
      Clock::time_point at;
      fleet.routing_loop().post([&] {
        at = Clock::now();
        called.set_value();
      });
      called.get_future().wait();
      waits.push_back(std::chrono::duration<double>(at - asked).count());
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const double blocks = fleet.metric("kvist_gateway_kv_blocks_stored_total") - blocks_before;
    double sum = 0;
    for (const double wait : waits) sum += wait;
    state.SetIterationTime(sum / static_cast<double>(waits.size()));
    state.counters["p50_ns"] = percentile(waits, 0.5) * 1e9;
    state.counters["p99_ns"] = percentile(waits, 0.99) * 1e9;
    state.counters["most_ns"] = percentile(waits, 1) * 1e9;
    state.counters["stored_per_s"] = blocks / seconds;
    state.counters["cores"] = (process_seconds() - processor_before) / seconds;
  }
}
BENCHMARK(decision_in_a_storm)
    ->Name("events/decision_in_a_storm")
    ->ArgNames({"threads", "blocks_per_s"})
    ->ArgsProduct({{1, 2}, {0, 2'000, 8'000}})
    ->Iterations(1)
    ->UseManualTime();

}  // namespace
