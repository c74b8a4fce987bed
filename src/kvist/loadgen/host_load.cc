#include "kvist/loadgen/host_load.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace kvist::loadgen {
namespace {

/// The files have their numbers in the first line, which is far shorter.
std::string beginning_of(const char* path) {
  const auto close = [](std::FILE* file) { (void)std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path, "re"), close);
  std::string text(1'024, '\0');
  text.resize(file ? std::fread(text.data(), 1, text.size(), file.get()) : 0);
  return text;
}

/// Takes a number and the spaces before it from `text`.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

}  // namespace

std::optional<Duration> parse_run_queue_time(std::string_view schedstat) {
  // Nanoseconds on a processor, nanoseconds of waiting for one, time slices.
  if (!take_number(schedstat)) return std::nullopt;
  const std::optional<std::uint64_t> waited = take_number(schedstat);
  constexpr std::uint64_t kLongestNs = std::uint64_t{1} << 62;
  if (!waited || *waited > kLongestNs || !take_number(schedstat)) return std::nullopt;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(*waited));
}

std::optional<CpuTicks> parse_cpu_ticks(std::string_view stat) {
  // user, nice, system, idle, iowait, irq, softirq, steal; a guest's time, which follows, is within the first two.
  constexpr int kColumns = 8;
  if (!stat.starts_with("cpu ")) return std::nullopt;
  stat.remove_prefix(4);
  CpuTicks ticks;
  for (int column = 0; column < kColumns; ++column) {
    const std::optional<std::uint64_t> value = take_number(stat);
    if (!value) return std::nullopt;
    ticks.all += static_cast<double>(*value);
    ticks.stolen = static_cast<double>(*value);  // the last one is that
  }
  return ticks;
}

Duration clock_tick() {
  const long per_second = sysconf(_SC_CLK_TCK);
  return std::chrono::nanoseconds(1'000'000'000 / (per_second > 0 ? per_second : 100));
}

std::optional<Duration> stolen_time() {
  const std::optional<CpuTicks> ticks = parse_cpu_ticks(beginning_of("/proc/stat"));
  if (!ticks) return std::nullopt;
  return from_seconds(std::min(ticks->stolen, 1e9) * to_seconds(clock_tick()));
}

void HostLoad::start() {
  run_queue_before_ = parse_run_queue_time(beginning_of("/proc/thread-self/schedstat"));
  ticks_before_ = parse_cpu_ticks(beginning_of("/proc/stat"));
}

std::optional<double> HostLoad::run_queue_seconds() const {
  const std::optional<Duration> now = parse_run_queue_time(beginning_of("/proc/thread-self/schedstat"));
  if (!now || !run_queue_before_ || *now < *run_queue_before_) return std::nullopt;
  return to_seconds(*now - *run_queue_before_);
}

std::optional<double> HostLoad::steal_share() const {
  const std::optional<CpuTicks> now = parse_cpu_ticks(beginning_of("/proc/stat"));
  if (!now || !ticks_before_ || now->all <= ticks_before_->all || now->stolen < ticks_before_->stolen) {
    return std::nullopt;
  }
  return (now->stolen - ticks_before_->stolen) / (now->all - ticks_before_->all);
}

}  // namespace kvist::loadgen
