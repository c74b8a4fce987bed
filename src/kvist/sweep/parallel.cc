#include "kvist/sweep/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace kvist::sweep {

unsigned available_threads() {
  return std::max(1U, std::thread::hardware_concurrency());
}

void for_each_index(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& work) {
  if (threads == 0) threads = available_threads();
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> others;
  const std::size_t wanted = std::min<std::size_t>(threads, count);
  for (std::size_t t = 1; t < wanted; ++t) others.emplace_back(take);
  take();
}

}  // namespace kvist::sweep
