#include "kvist/routing/decode_runs.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "kvist/base/check.h"
#include "kvist/routing/output_lengths.h"

namespace kvist::routing {

void DecodeRuns::join(RoutedRequest& request) {
  KVIST_CHECK(!request.in_run && request.decoding, "a request joins a run once, after its first token");
  Run& run = runs_[request.worker.value()];
  request.in_run = true;
  request.run_steps = run.steps;
  run.due.push_back(next_bin(run, request));
  run.ids.push_back(request.id);
  run.requests.push_back(&request);
}

void DecodeRuns::leave(RoutedRequest& request) {
  if (!request.in_run) return;
  Run& run = runs_[request.worker.value()];
  update(run, request);
  request.in_run = false;
  const auto place = std::ranges::find(run.ids, request.id) - run.ids.begin();
  run.due.erase(run.due.begin() + place);
  run.ids.erase(run.ids.begin() + place);
  run.requests.erase(run.requests.begin() + place);
}

void DecodeRuns::update(const Run& run, RoutedRequest& request) {
  request.output_tokens += run.steps - request.run_steps;
  request.run_steps = run.steps;
}

std::uint64_t DecodeRuns::next_bin(const Run& run, const RoutedRequest& request) {
  const std::size_t bin = bin_of(request.output_tokens);
  if (bin + 1 == kBins) return std::numeric_limits<std::uint64_t>::max();
  return run.steps + bin_begin(bin + 1) - request.output_tokens;
}

}  // namespace kvist::routing
