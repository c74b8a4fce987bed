#include "kvist/net/run_queue.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <utility>

namespace kvist::net {
namespace {

/// What passes between a packet's stamp and the system's first note of a thread that it wakes: an interrupt to a
/// processor that sleeps, deeply at worst.
constexpr Duration kWakeup = std::chrono::microseconds(200);

}  // namespace

std::optional<RunQueueTime> parse_run_queue(std::string_view schedstat) {
  // Nanoseconds on a processor, nanoseconds of waiting for one, how many times it was given one.
  std::array<std::uint64_t, 3> numbers{};
  for (std::uint64_t& number : numbers) {
    schedstat.remove_prefix(std::min(schedstat.find_first_not_of(' '), schedstat.size()));
    const auto [end, error] = std::from_chars(schedstat.data(), schedstat.data() + schedstat.size(), number);
    if (error != std::errc()) return std::nullopt;
    schedstat.remove_prefix(static_cast<std::size_t>(end - schedstat.data()));
  }
  constexpr std::uint64_t kLongestNs = std::uint64_t{1} << 62;
  if (numbers[1] > kLongestNs) return std::nullopt;
  return RunQueueTime{.waited = std::chrono::nanoseconds(static_cast<std::int64_t>(numbers[1])), .begun = numbers[2]};
}

std::optional<TimePoint> woken_at(const std::optional<RunQueueTime>& before, const std::optional<RunQueueTime>& after,
                                  TimePoint now) {
  if (!before || !after || after->waited < before->waited) return std::nullopt;
  // A stop (SIGSTOP) and a preemption end with being given a processor once more, and how long a stop took nobody
  // counts.
  if (after->begun < before->begun || after->begun - before->begun > 1) return std::nullopt;
  return now - (after->waited - before->waited) - kWakeup;
}

std::optional<RunQueueTime> RunQueue::read() {
  if (!std::exchange(opened_, true)) file_ = UniqueFd(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  if (!file_.valid()) return std::nullopt;
  std::array<char, 128> text;  // three numbers of at most 20 digits
  const ssize_t bytes = ::pread(file_.get(), text.data(), text.size(), 0);
  if (bytes <= 0) return std::nullopt;
  return parse_run_queue({text.data(), static_cast<std::size_t>(bytes)});
}

}  // namespace kvist::net
