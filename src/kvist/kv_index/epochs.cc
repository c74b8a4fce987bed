#include "kvist/kv_index/epochs.h"

#include <algorithm>

namespace kvist::kv_index {

std::shared_ptr<Epochs::Announcement> Epochs::add_reader() {
  readers_.push_back(std::make_shared<Announcement>());
  safe_ = std::min(safe_, current());
  return readers_.back();
}

void Epochs::advance() {
  const std::uint64_t now = epoch_.fetch_add(1, std::memory_order_seq_cst) + 1;
  std::uint64_t oldest = now;
  std::erase_if(readers_, [&](const std::shared_ptr<Announcement>& reader) {
    const std::uint64_t announced = reader->epoch.load(std::memory_order_seq_cst);
    if (announced == Announcement::kGone) return true;
    oldest = std::min(oldest, announced);
    return false;
  });
  safe_ = readers_.empty() ? std::numeric_limits<std::uint64_t>::max() : oldest;
}

}  // namespace kvist::kv_index
