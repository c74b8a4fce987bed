// Which request of a trace waited for which.
#pragma once

#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/workload/recorded_traffic.h"
#include "kvist/workload/trace.h"
#include "kvist/workload/trace_line.h"

namespace kvist::workload {

/// The trace that lines of a trace make: by rows that follow rows, by sessions (Dynamo's and AIPerf's dialect of
/// Mooncake) or by chats (Bailian). Requires at least one line; `parser` words the errors. Lists of ids that are
/// too long or too short for what an id stands for are errors.
[[nodiscard]] Result<Trace> linked_trace(std::vector<TraceLine> lines, const TraceLineParser& parser,
                                         const TraceReading& reading);

/// The trace that lines of a record make, in the order of arrival. A record has the end of each answer, so a request is
/// taken to have waited for an earlier one that had been answered and with whose prompt its own begins; the pause is
/// the time between. If several fit, it is the one that ended last: among those of its session if the client named one,
/// because one name may stand for many conversations; otherwise among those that no request continues yet, and only if
/// the prompt has room for the answer. `rounding` is by how much an instant may be too early because it was rounded
/// down: an answer that ended by so much later than the request came still counts as one it waited for, with no pause.
/// Whether that answer is in the prompt is told by the cached tokens: a worker that computed it, and still has the
/// prompt before it, has it too. Where they tell nothing, it is as with most of the others.
[[nodiscard]] RecordedTraffic linked_record(RecordHead head, std::vector<TraceLine> lines, Duration rounding = {});

}  // namespace kvist::workload
