// From the thread of the KV events to routing: what happened to the index, added up.
#pragma once

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/gateway/kv_event_feed.h"

namespace kvist::gateway {

/// Holds the news of each worker until routing takes it. News is added up, so the board needs room for one entry per
/// worker and is never full, however far behind routing is. Threads: any.
class KvNewsBoard {
 public:
  explicit KvNewsBoard(std::size_t workers) : entries_(workers) {}

  void add(WorkerId worker, const KvFeedNews& news) {
    const std::scoped_lock lock(mutex_);
    Entry& entry = entries_.at(worker.value());
    if (!std::exchange(entry.listed, true)) listed_.push_back(worker);
    entry.news.index.add(news.index);
    entry.news.exact = news.exact;
    entry.news.lost = news.lost;
  }
  using News = std::vector<std::pair<WorkerId, KvFeedNews>>;
  /// What was added since the last call. Ensures: each piece of news is taken once.
  [[nodiscard]] News take() {
    const std::scoped_lock lock(mutex_);
    News news;
    news.reserve(listed_.size());
    for (const WorkerId worker : listed_) news.emplace_back(worker, std::exchange(entries_[worker.value()], {}).news);
    listed_.clear();
    return news;
  }

 private:
  struct Entry {
    KvFeedNews news;
    bool listed = false;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;    // by WorkerId
  std::vector<WorkerId> listed_;  // those with news
};

}  // namespace kvist::gateway
