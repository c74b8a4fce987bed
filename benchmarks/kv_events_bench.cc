// bench: base kv kv_index net
// KV events in the gateway: what decoding a block takes alone and with hashing and the index, and what a thousand
// subscriptions take of the process. Payloads are in the form that vLLM publishes (docs/formats/kv-events.md).
#include <benchmark/benchmark.h>
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/kv/kv_event_codec.h"
#include "kvist/kv/kv_event_decoder.h"
#include "kvist/kv_index/kv_index.h"
#include "kvist/net/zmq_publisher.h"
#include "kvist/net/zmq_receiver.h"

namespace {

using namespace kvist;

constexpr std::uint32_t kBlockSize = 16;
constexpr std::size_t kBatches = 256;
constexpr std::size_t kBlocksPerBatch = 64;

/// Processor time of this thread: another process on the core is no cost of ours.
double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Prompts of 64 blocks each, one batch each: as one event, which is what a prefill publishes, or as an event per
/// block, which is what 64 decoding sequences publish in a step. Token ids are uniform, so the length of each in
/// msgpack cannot be foreseen.
std::vector<std::string> make_payloads(std::size_t blocks_per_event) {
  RandomStream random(1);
  std::vector<std::string> payloads;
  for (std::size_t batch = 0; batch < kBatches; ++batch) {
    kv::KvEventBatch made{.timestamp_s = 1754000000.25, .events = {}, .data_parallel_rank = 0};
    std::optional<kv::ExternalHash> parent;
    for (std::size_t done = 0; done < kBlocksPerBatch; done += blocks_per_event) {
      kv::BlockStored event;
      event.block_size = kBlockSize;
      event.parent = parent;
      for (std::size_t i = 0; i < blocks_per_event; ++i) event.hashes.emplace_back(random.next());
      for (std::size_t i = 0; i < blocks_per_event * kBlockSize; ++i)
        event.tokens.emplace_back(static_cast<std::uint32_t>(random.next() % 128'000));
      parent = event.hashes.back();
      made.events.emplace_back(std::move(event));
    }
    payloads.push_back(kv::encode_kv_events(made));
  }
  return payloads;
}

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// Decoded, hashed and in the index; without an index: decoded.
void take(const std::string& payload, kv::KvEventDecoder& decoder, kv_index::KvIndex* index) {
  if (index != nullptr) index->prefetch(WorkerId(0));
  const auto decoded = decoder.decode(bytes_of(payload));
  KVIST_CHECK(decoded && decoded->skipped_events == 0, "the payload was made by the codec");
  if (index == nullptr) return;
  KVIST_CHECK(index->apply(WorkerId(0), decoded->events) == 0, "the index takes all of it");
}

/// The time is that of one block.
void take_events(benchmark::State& state, bool with_index) {
  const std::vector<std::string> payloads = make_payloads(static_cast<std::size_t>(state.range(0)));
  kv_index::KvIndex index({.model = "model", .block_size = kBlockSize});
  kv::KvEventDecoder decoder;
  double seconds = 0;
  for ([[maybe_unused]] auto _ : state) {
    index.clear(WorkerId(0));
    const double begin = thread_seconds();
    for (const std::string& payload : payloads) take(payload, decoder, with_index ? &index : nullptr);
    const double taken = (thread_seconds() - begin) / static_cast<double>(kBatches * kBlocksPerBatch);
    seconds = seconds == 0 ? taken : std::min(seconds, taken);
    state.SetIterationTime(taken);
  }
  state.counters["fastest_ns"] = seconds * 1e9;  // a neighbour only ever slows it down
}
BENCHMARK_CAPTURE(take_events, decode, false)
    ->Name("events/decode")
    ->ArgName("blocks_per_event")
    ->Arg(kBlocksPerBatch)
    ->Arg(1)
    ->Iterations(400)
    ->UseManualTime();
BENCHMARK_CAPTURE(take_events, decode_hash_index, true)
    ->Name("events/decode_hash_index")
    ->ArgName("blocks_per_event")
    ->Arg(kBlocksPerBatch)
    ->Arg(1)
    ->Iterations(400)
    ->UseManualTime();

/// A publisher in a process of its own, so that this one has only what subscribing takes. It publishes a small message
/// ten times a second until it is told to stop.
class PublisherProcess {
 public:
  PublisherProcess() {
    std::array<int, 2> ports{};
    KVIST_CHECK(::pipe(ports.data()) == 0, "pipe");
    child_ = ::fork();
    KVIST_CHECK(child_ >= 0, "fork");
    if (child_ == 0) serve(ports[1]);
    KVIST_CHECK(::read(ports[0], ports_.data(), sizeof ports_) == sizeof ports_, "the publisher has ports");
    ::close(ports[0]);
    ::close(ports[1]);
  }
  ~PublisherProcess() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  PublisherProcess(const PublisherProcess&) = delete;
  PublisherProcess& operator=(const PublisherProcess&) = delete;

  [[nodiscard]] std::string live() const { return "tcp://127.0.0.1:" + std::to_string(ports_[0]); }
  [[nodiscard]] std::string replay() const { return "tcp://127.0.0.1:" + std::to_string(ports_[1]); }

 private:
  [[noreturn]] static void serve(int ports) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    net::ZmqPublisherOptions options;
    options.endpoint = options.replay_endpoint = "tcp://127.0.0.1:0";
    options.buffer_messages = 10;
    const auto publisher = net::ZmqPublisher::bind(std::move(options));
    KVIST_CHECK(publisher, publisher.error().message);
    const std::array<std::uint16_t, 2> own{(*publisher)->port(), (*publisher)->replay_port()};
    KVIST_CHECK(::write(ports, own.data(), sizeof own) == sizeof own, "write");
    while (true) {
      (*publisher)->publish("an event");
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }

  pid_t child_ = 0;
  std::array<std::uint16_t, 2> ports_{};
};

/// What /proc/self says of this process.
struct Footprint {
  double threads = 0;
  double mib = 0;
  double descriptors = 0;
};

Footprint footprint() {
  Footprint now;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "Threads:") status >> now.threads;
    if (word == "VmRSS:") {
      status >> now.mib;
      now.mib /= 1024;
    }
  }
  DIR* const folder = ::opendir("/proc/self/fd");
  KVIST_CHECK(folder != nullptr, "/proc/self/fd");
  while (::readdir(folder) != nullptr) ++now.descriptors;
  ::closedir(folder);
  return now;
}

/// So many subscriptions to one publisher, with replay. The time is that from the first to the moment when a message
/// has come through each of them; threads, memory and descriptors are what they added.
void subscriptions(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const PublisherProcess publisher;
  for ([[maybe_unused]] auto _ : state) {
    const Footprint before = footprint();
    std::vector<std::atomic<bool>> heard(count);
    std::atomic<std::size_t> silent = count;
    std::vector<std::unique_ptr<net::ZmqSubscriber>> subscribers;
    const auto begin = std::chrono::steady_clock::now();
    auto receiver = net::ZmqReceiver::create();
    for (std::size_t i = 0; i < count; ++i) {
      net::ZmqSubscriberHandlers handlers;
      handlers.on_live = [&heard, &silent, i](std::uint64_t, const std::string&) {
        if (!heard[i].exchange(true)) --silent;
      };
      auto made = receiver->subscribe(
          {.endpoint = publisher.live(), .replay_endpoint = publisher.replay(), .topic = ""}, std::move(handlers));
      KVIST_CHECK(made, made.error().message);
      subscribers.push_back(std::move(*made));
    }
    while (silent > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    state.SetIterationTime(taken.count());
    const Footprint after = footprint();
    state.counters["threads"] = after.threads - before.threads;
    state.counters["mib"] = after.mib - before.mib;
    state.counters["descriptors"] = after.descriptors - before.descriptors;
  }
}
BENCHMARK(subscriptions)->Name("events/subscriptions")->Arg(1)->Arg(1'000)->Iterations(1)->UseManualTime();

}  // namespace
