// bench: gateway
// What an API key costs a request: hashing it, finding it among many, and asking its limits.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "kvist/gateway/key_gate.h"
#include "kvist/net/event_loop.h"

namespace {

using namespace kvist;

std::string key_of(std::size_t number) {
  std::string key = "sk-kvist-" + std::to_string(number);
  key.resize(52, 'x');
  return key;
}

gateway::KeyTable table_of(std::size_t keys) {
  std::vector<gateway::KeyRecord> records;
  for (std::size_t i = 0; i < keys; ++i) {
    records.push_back({.name = "k" + std::to_string(i),
                       .hash = net::sha256(key_of(i)),
                       .limits = {.requests_per_minute = 4'000'000'000, .tokens_per_minute = 4'000'000'000}});
  }
  return {records, nullptr, TimePoint{}};
}

void hash_a_key(benchmark::State& state) {
  const std::string key = key_of(1);
  for (auto _ : state) benchmark::DoNotOptimize(net::sha256(key));
}
BENCHMARK(hash_a_key)->Name("gateway/hash_a_key");

/// Every time another key, so that the table is not in the cache.
void find_a_key(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const gateway::KeyTable table = table_of(count);
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back(key_of(i * 7'919 % count));
  std::size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(table.find(keys[at]));
    at = at + 1 == count ? 0 : at + 1;
  }
}
BENCHMARK(find_a_key)->Name("gateway/find_a_key")->Arg(100)->Arg(100'000);

void admit_and_finish(benchmark::State& state) {
  gateway::KeyAccount account("k", "", {4'000'000'000, 4'000'000'000, 100}, net::now());
  for (auto _ : state) {
    const TimePoint now = net::now();
    benchmark::DoNotOptimize(account.admit(100, now));
    account.finish(100, 150, now);
  }
}
BENCHMARK(admit_and_finish)->Name("gateway/admit_and_finish");

}  // namespace
