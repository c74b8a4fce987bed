// bench: base
// The machine's current performance: memory latency and bandwidth, and a round trip over loopback. Every figure of the
// table is compared with one of these, measured in the same run, because other processes on shared machines can halve
// all of them.
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/base/random.h"

namespace {

constexpr std::size_t kTableBytes = 256U << 20;  // far beyond the last-level cache

/// A single cycle through all slots in random order (Sattolo's algorithm): each access depends on the previous one.
std::vector<std::uint64_t> random_cycle(std::size_t slots) {
  std::vector<std::uint64_t> next(slots);
  std::iota(next.begin(), next.end(), 0U);
  kvist::RandomStream random(1);
  for (std::size_t i = slots - 1; i > 0; --i) {
    std::swap(next[i], next[static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(i) - 1))]);
  }
  return next;
}

void dependent_access(benchmark::State& state) {
  const auto next = random_cycle(kTableBytes / sizeof(std::uint64_t));
  std::uint64_t at = 0;
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(at = next[at]);
}
BENCHMARK(dependent_access)->Name("probe/dependent_access");

void independent_access(benchmark::State& state) {
  const std::vector<std::uint64_t> table(kTableBytes / sizeof(std::uint64_t), 1);
  std::uint64_t key = 1;
  std::uint64_t sum = 0;
  for ([[maybe_unused]] auto _ : state) {
    key = key * 6364136223846793005U + 1442695040888963407U;
    benchmark::DoNotOptimize(sum += table[(key >> 32) % table.size()]);
  }
}
BENCHMARK(independent_access)->Name("probe/independent_access");

void read_bandwidth(benchmark::State& state) {
  const std::vector<std::uint64_t> table(kTableBytes / sizeof(std::uint64_t), 1);
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(std::accumulate(table.begin(), table.end(), std::uint64_t{0}));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kTableBytes));
}
BENCHMARK(read_bandwidth)->Name("probe/read_bandwidth");

/// A connected pair of loopback TCP sockets without Nagle's algorithm.
std::array<int, 2> loopback_pair() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  KVIST_CHECK(::bind(listener, raw, length) == 0 && ::listen(listener, 1) == 0, "bind");
  ::getsockname(listener, raw, &length);
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  KVIST_CHECK(::connect(client, raw, length) == 0, "connect");
  const int server = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  const int on = 1;
  for (const int fd : {client, server}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return {client, server};
}

void loopback_round_trip(benchmark::State& state) {
  const auto [client, server] = loopback_pair();
  std::thread echo([fd = server] {
    std::array<char, 256> bytes{};
    for (ssize_t n = 0; (n = ::read(fd, bytes.data(), bytes.size())) > 0;) {
      if (::write(fd, bytes.data(), static_cast<std::size_t>(n)) != n) break;
    }
  });
  std::array<char, 200> message{};  // the size of one SSE chunk
  for ([[maybe_unused]] auto _ : state) {
    KVIST_CHECK(::write(client, message.data(), message.size()) == static_cast<ssize_t>(message.size()), "write");
    for (std::size_t got = 0; got < message.size();) {
      const ssize_t n = ::read(client, message.data() + got, message.size() - got);
      KVIST_CHECK(n > 0, "read");
      got += static_cast<std::size_t>(n);
    }
  }
  ::shutdown(client, SHUT_RDWR);
  echo.join();
  ::close(client);
  ::close(server);
}
BENCHMARK(loopback_round_trip)->Name("probe/loopback_round_trip")->UseRealTime();

}  // namespace
