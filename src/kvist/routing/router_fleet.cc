// What becomes of workers and of their caches.
#include "kvist/base/check.h"
#include "kvist/routing/router.h"

namespace kvist::routing {

std::size_t Router::on_kv_events(WorkerId worker, std::span<const kv::KvEventView> events) {
  const EventIndex::Applied applied = caches_.event_index().apply(worker, events);
  on_event_news(worker, applied.news);
  return applied.refused;
}

std::size_t Router::on_kv_events(WorkerId worker, std::span<const kv::KvEvent> events) {
  views_.clear();
  for (const kv::KvEvent& event : events) views_.push_back(kv::view_of(event));
  return on_kv_events(worker, views_);
}

// What it held before can neither be displaced nor gone on with.
void Router::clear_cache(WorkerId worker) {
  reused_.clear(worker);
  ghosts_.clear(worker);
  if (working_set_) working_set_->clear(worker);
}

void Router::on_event_news(WorkerId worker, const EventNews& news) {
  caches_.on_event_news(worker, news);
  if (news.cache_emptied) {
    clear_cache(worker);
  } else if (news.begun_anew) {
    ghosts_.clear(worker);  // blocks that it had all along may be missing in the index, and were not evicted
  }
}

void Router::on_worker_restarted(WorkerId worker) {
  caches_.on_restarted(worker);
  clear_cache(worker);
}

void Router::forget(WorkerId worker) {
  remove_peer_requests(worker);
  KVIST_CHECK(loads_.load(worker) == WorkerLoad{}, "a worker is forgotten when no request is left there");
  caches_.forget(worker);
  clear_cache(worker);
  forecaster_.forget(worker);
  sessions_.forget(worker);
  if (shortlist_) shortlist_->set_slots(worker, 0);
  on_worker_changed(worker);
}

}  // namespace kvist::routing
