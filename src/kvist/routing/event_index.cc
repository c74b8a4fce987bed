#include "kvist/routing/event_index.h"

#include <utility>

namespace kvist::routing {

EventIndex::EventIndex(Options options, PromptsUnderWay& prompts)
    : prompts_(&prompts),
      index_({.model = std::move(options.model), .block_size = options.block_size, .workers = options.workers}),
      adopted_(index_, options.workers),
      workers_(options.workers) {}

EventIndex::Applied EventIndex::apply(WorkerId id, std::span<const kv::KvEventView> events) {
  Worker& worker = workers_.at(id.value());
  constexpr auto kUnknownParent = static_cast<std::size_t>(kv_index::Refusal::kUnknownParent);
  const std::uint64_t orphans_before = index_.counters(id).refused[kUnknownParent];
  const std::uint64_t clears_before = index_.counters(id).clears;
  const bool with_care = worker.orphans || adopted_.prefixes(id) > 0;
  const std::size_t refused = with_care ? apply_one_by_one(id, events) : index_.apply(id, events);
  const kv_index::KvIndexCounters& after = index_.counters(id);
  if (after.refused[kUnknownParent] != orphans_before) worker.orphans = true;
  const bool cleared = after.clears != clears_before;
  if (cleared) worker.orphans = false;  // every event from here on has a known parent
  return {.refused = refused,
          .news = {.batches = 1, .begun_anew = cleared, .cache_emptied = cleared, .keeps_uncomputed = cleared}};
}

std::size_t EventIndex::apply_one_by_one(WorkerId id, std::span<const kv::KvEventView> events) {
  std::size_t refused = 0;
  for (const kv::KvEventView& event : events) {
    place(id, event);
    adopted_.before(id, event);
    if (event.kind == kv::KvEventView::Kind::kCleared) adopted_.forget(id);
    refused += index_.apply(id, event) ? 1 : 0;
  }
  count_adopted(id);
  return refused;
}

// An engine stores the blocks that it computes, so blocks behind an unknown parent may belong to a prompt that is under
// way.
void EventIndex::place(WorkerId id, const kv::KvEventView& event) {
  if (!adopted_.is_orphan(id, event)) return;
  const std::vector<PromptsUnderWay::Prompt> under_way = prompts_->unplaced(id);
  std::vector<AdoptedPrefixes::Prompt> prompts;
  prompts.reserve(under_way.size());
  for (const PromptsUnderWay::Prompt& prompt : under_way) prompts.push_back({prompt.request, view(prompt.keys)});
  const auto found = adopted_.adopt(id, event, prompts);
  if (found && prompts_->on_placed(id, found->request, *event.parent, found->blocks))
    adopted_.revoke(id, *event.parent);
}

void EventIndex::revoke(WorkerId id, kv::ExternalHash parent) {
  adopted_.revoke(id, parent);
  count_adopted(id);
}

EventNews EventIndex::reset(WorkerId id) {
  index_.clear(id);
  adopted_.forget(id);
  count_adopted(id);
  workers_.at(id.value()).orphans = true;
  return {.begun_anew = true};
}

EventNews EventIndex::on_imported(WorkerId id) {
  workers_.at(id.value()).orphans = false;
  return {.batches = 1};
}

void EventIndex::forget(WorkerId id) {
  index_.forget(id);
  adopted_.forget(id);
  count_adopted(id);
  workers_.at(id.value()).orphans = false;
}

void EventIndex::count_adopted(WorkerId id) {
  workers_.at(id.value()).adopted.store(adopted_.prefixes(id), std::memory_order_relaxed);
}

}  // namespace kvist::routing
