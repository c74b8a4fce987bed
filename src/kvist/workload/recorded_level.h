// The part of a recorded level that is needed to drive it again.
#pragma once

#include <cstdint>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/spec/workload.h"

namespace kvist::workload {

struct RecordedTurn {
  ConversationId conversation;
  std::uint32_t turn = 0;  ///< from 0
  Duration sent{};         ///< since the start of the level
};

/// The text of every turn is a function of workload, seed, conversation and the live replies.
struct RecordedLevel {
  spec::WorkloadSpec workload;
  std::uint64_t seed = 0;
  std::vector<RecordedTurn> turns;  ///< in any order
};

}  // namespace kvist::workload
