// What the parts of a load say of themselves, as of the whole.
#pragma once

#include <vector>

#include "kvist/base/time.h"
#include "kvist/loadgen/load.h"
#include "kvist/workload/load_feed.h"
#include "kvist/workload/recorder.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::loadgen {

/// Rates and counts are sums, percentiles the means of the parts'.
[[nodiscard]] Progress merge_progress(const std::vector<Progress>& parts, TimePoint now);

/// Adds a part: the worst of each figure, of processor time too; stalls are sums, and `loops` has each loop.
void add_client_load(const ClientLoad& part, ClientLoad& all);

void add_totals(const workload::RecorderTotals& part, workload::RecorderTotals& all);

/// What happened in all parts, each list in the order of time.
[[nodiscard]] workload::LoadBatch merge_batches(std::vector<workload::LoadBatch> parts);

/// Takes from a batch what happened until then, and all gaps, which have no instants. Requires: lists in the order of
/// time.
[[nodiscard]] workload::LoadBatch take_until(workload::LoadBatch& batch, TimePoint until);

/// The samples of a part come behind those of others; sort_samples() puts them into the order of their ends.
void add_samples(std::vector<workload::TurnSample> part, std::vector<workload::TurnSample>& all);
void sort_samples(std::vector<workload::TurnSample>& all);

}  // namespace kvist::loadgen
