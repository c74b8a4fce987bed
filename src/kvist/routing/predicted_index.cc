#include "kvist/routing/predicted_index.h"

#include <algorithm>
#include <utility>

namespace kvist::routing {
namespace {

// What a prompt takes besides its block hashes: two nodes of the tree and its entries in both queues.
constexpr std::size_t kBytesPerPrompt = 512;

std::size_t bytes_of(const BlockKeys& prompt) {
  return view(prompt).size_bytes() + kBytesPerPrompt;
}

}  // namespace

PredictedIndex::PredictedIndex(Options options, std::size_t workers)
    : ttl_(options.ttl),
      max_bytes_per_worker_(options.max_bytes / std::max<std::size_t>(workers, 1)),
      workers_(workers) {}

std::uint64_t PredictedIndex::insert(WorkerId id, const BlockKeys& prompt, std::uint32_t max_blocks, TimePoint now) {
  const std::uint64_t number = ++last_number_;
  if (view(prompt).empty()) return number;
  Worker& worker = workers_.at(id.value());
  worker.blocks += prompts_.add(id, prompt);
  worker.bytes += bytes_of(prompt);
  worker.entries.push_back({.number = number, .prompt = prompt});
  due_.push_back({.at = now + ttl_, .number = number, .worker = id});
  const auto over = [&] {
    return worker.bytes > max_bytes_per_worker_ || (max_blocks > 0 && worker.blocks > max_blocks);
  };
  while (over() && !worker.entries.empty()) drop_oldest(id);
  return number;
}

void PredictedIndex::drop(WorkerId id, const std::deque<Entry>::iterator& entry) {
  Worker& worker = workers_[id.value()];
  const BlockKeys prompt = std::move(entry->prompt);
  worker.entries.erase(entry);
  worker.blocks -= prompts_.remove(id, prompt);
  worker.bytes -= bytes_of(prompt);
}

void PredictedIndex::drop_oldest(WorkerId id) {
  drop(id, workers_[id.value()].entries.begin());
}

void PredictedIndex::take_back(WorkerId id, std::uint64_t number) {
  std::deque<Entry>& entries = workers_.at(id.value()).entries;
  const auto found = std::ranges::lower_bound(entries, number, {}, &Entry::number);
  if (found != entries.end() && found->number == number) drop(id, found);
}

void PredictedIndex::expire(TimePoint now) {
  for (; !due_.empty() && due_.front().at <= now; due_.pop_front()) {
    const std::deque<Entry>& entries = workers_[due_.front().worker.value()].entries;
    if (!entries.empty() && entries.front().number == due_.front().number) drop_oldest(due_.front().worker);
  }
}

void PredictedIndex::clear(WorkerId worker) {
  while (!workers_.at(worker.value()).entries.empty()) drop_oldest(worker);
}

void PredictedIndex::drop_before(WorkerId worker, std::uint64_t number) {
  const std::deque<Entry>& entries = workers_.at(worker.value()).entries;
  while (!entries.empty() && entries.front().number < number) drop_oldest(worker);
}

}  // namespace kvist::routing
