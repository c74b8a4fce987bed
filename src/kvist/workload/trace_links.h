// Which request of a trace waited for which.
#pragma once

#include <vector>

#include "kvist/base/error.h"
#include "kvist/workload/recorded_traffic.h"
#include "kvist/workload/trace.h"
#include "kvist/workload/trace_line.h"

namespace kvist::workload {

/// The trace that lines of a trace make: by rows that follow rows, by sessions (Dynamo's and AIPerf's dialect of
/// Mooncake) or by chats (Bailian). Requires at least one line; `parser` words the errors.
[[nodiscard]] Result<Trace> linked_trace(std::vector<TraceLine> lines, const TraceLineParser& parser);

/// What the lines of a record make, in the order of arrival. There it is known when each answer ended: a request waited
/// for one that had been answered and whose prompt its own begins with, and the pause is what lay between. Of several
/// that is the one that ended last: of its session, where the client named one, since one name may stand for many
/// conversations; without a session of those that nothing went on from, and only where the prompt has room for the
/// answer.
[[nodiscard]] RecordedTraffic linked_record(RecordHead head, std::vector<TraceLine> lines);

}  // namespace kvist::workload
