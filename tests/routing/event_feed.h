// Events for a CacheKnowledge whose index the test owns too.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kvist/kv/kv_event_view.h"
#include "kvist/routing/cache_knowledge.h"

namespace kvist::routing {

/// Applies events and returns how many were refused.
inline std::size_t feed(CacheKnowledge& caches, WorkerId worker, std::span<const kv::KvEvent> events) {
  std::vector<kv::KvEventView> views;
  for (const kv::KvEvent& event : events) views.push_back(kv::view_of(event));
  const EventIndex::Applied applied = caches.event_index().apply(worker, views);
  caches.on_event_news(worker, applied.news);
  return applied.refused;
}

/// The worker's event stream starts afresh.
inline void reset_events(CacheKnowledge& caches, WorkerId worker) {
  caches.on_event_news(worker, caches.event_index().reset(worker));
}

}  // namespace kvist::routing
