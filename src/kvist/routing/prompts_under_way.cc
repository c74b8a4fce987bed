#include "kvist/routing/prompts_under_way.h"

#include <algorithm>
#include <utility>

namespace kvist::routing {

/// A worker's prompts, while nobody else looks at them.
class PromptsUnderWay::Inside {
 public:
  explicit Inside(Worker& worker) : entries(worker.entries), gate_(worker.gate.get()) {
    if (gate_ != nullptr) gate_->enter();
  }
  ~Inside() {
    if (gate_ != nullptr) gate_->leave();
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  SlotTable<Entry>& entries;

 private:
  Gate* gate_;
};

PromptsUnderWay::PromptsUnderWay(std::size_t workers, const MakeGate& make_gate) : workers_(workers) {
  if (!make_gate) return;
  for (Worker& worker : workers_) worker.gate = make_gate();
}

PromptsUnderWay::Handle PromptsUnderWay::add(WorkerId worker, Prompt prompt) {
  const Inside at(workers_.at(worker.value()));
  return at.entries.insert({.prompt = std::move(prompt)});
}

std::optional<kv::ExternalHash> PromptsUnderWay::on_usage(WorkerId worker, Handle prompt, std::uint64_t cached_blocks) {
  const Inside at(workers_.at(worker.value()));
  Entry* const entry = at.entries.find(prompt);
  if (entry == nullptr) return std::nullopt;
  entry->cached_blocks = cached_blocks;
  return entry->contradicted() ? entry->placed : std::nullopt;
}

void PromptsUnderWay::remove(WorkerId worker, Handle prompt) {
  const Inside at(workers_.at(worker.value()));
  at.entries.erase(prompt);
}

std::vector<PromptsUnderWay::Prompt> PromptsUnderWay::unplaced(WorkerId worker) {
  std::vector<Prompt> prompts;
  {
    const Inside at(workers_.at(worker.value()));
    prompts.reserve(at.entries.size());
    at.entries.for_each([&](const Entry& entry) {
      if (!entry.placed) prompts.push_back(entry.prompt);
    });
  }
  std::ranges::sort(prompts, {}, &Prompt::request);
  return prompts;
}

bool PromptsUnderWay::on_placed(WorkerId worker, RequestId request, kv::ExternalHash parent, std::uint32_t blocks) {
  const Inside at(workers_.at(worker.value()));
  bool contradicted = false;
  at.entries.for_each([&](Entry& entry) {
    if (entry.prompt.request != request) return;
    entry.placed = parent;
    entry.placed_blocks = blocks;
    contradicted = entry.contradicted();
  });
  return contradicted;
}

}  // namespace kvist::routing
