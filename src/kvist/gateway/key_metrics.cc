#include "kvist/gateway/key_metrics.h"

#include <string>

namespace kvist::gateway {
namespace {

using telemetry::Labels;
using telemetry::MetricsPage;

constexpr std::size_t kMostNames = 1'000;

double number(std::uint64_t count) {
  return static_cast<double>(count);
}

bool is_used(const KeyCounters& counters) {
  return counters.requests + counters.refused[0] + counters.refused[1] + counters.refused[2] > 0;
}

void add(KeyCounters& sum, const KeyCounters& counters) {
  sum.requests += counters.requests;
  sum.tokens += counters.tokens;
  sum.in_flight += counters.in_flight;
  for (std::size_t i = 0; i < kKeyLimits; ++i) sum.refused[i] += counters.refused[i];
}

void write(const KeyCounters& counters, const std::string& name, const std::string& key_class, MetricsPage& page) {
  const Labels labels = {{"key", name}, {"class", key_class}};
  page.counter("kvist_gateway_key_requests_total", "Requests with this API key that were admitted",
               number(counters.requests), labels);
  page.counter("kvist_gateway_key_tokens_total", "Tokens of its prompts and answers that have ended",
               number(counters.tokens), labels);
  page.gauge("kvist_gateway_key_in_flight", "Its requests under way", counters.in_flight, labels);
  for (std::size_t i = 0; i < kKeyLimits; ++i) {
    if (counters.refused[i] == 0) continue;
    page.counter("kvist_gateway_key_refused_total", "Requests refused, by the limit that it had reached",
                 number(counters.refused[i]),
                 {{"key", name}, {"class", key_class}, {"limit", to_string(static_cast<KeyLimit>(i))}});
  }
}

}  // namespace

void write_key_metrics(const KeyGate& gate, MetricsPage& page) {
  page.counter("kvist_gateway_unauthenticated_requests_total", "Requests without a known API key",
               number(gate.unauthenticated()));
  page.counter("kvist_gateway_key_file_loads_total", "Times the file of API keys was read",
               number(gate.ring().loads()));
  page.counter("kvist_gateway_key_file_errors_total", "Times it was not good, and the keys stayed as they were",
               number(gate.ring().failed_loads()));
  const auto table = gate.ring().table();
  page.gauge("kvist_gateway_keys", "API keys in the file", number(table->size()));
  KeyCounters others;
  std::size_t named = 0;
  for (const auto& account : table->accounts()) {
    const KeyCounters counters = account->counters();
    if (!is_used(counters)) continue;
    if (named++ < kMostNames) {
      write(counters, account->name(), account->key_class(), page);
    } else {
      add(others, counters);
    }
  }
  if (is_used(others)) write(others, "(others)", "", page);
}

}  // namespace kvist::gateway
