// What a gateway's mode kv is told beside what it learns.
#pragma once

#include <cstdint>

#include "kvist/base/time.h"

namespace kvist::spec {

/// What a cached block counts for that a worker holds outside of device memory: the share of its computation that
/// loading it saves, 0 to 1. In device memory it is 1.
struct TierWeightsSpec {
  double cpu = 0.8;
  double disk = 0.25;
  double remote = 0.25;

  bool operator==(const TierWeightsSpec&) const = default;
};

/// What mode kv minimises: the sum of everybody's waits, of which those for first tokens may count more or less.
struct ObjectiveSpec {
  double ttft = 1;  ///< times as much as by default, beside the delay of later tokens

  bool operator==(const ObjectiveSpec&) const = default;
};

/// How a new or restarted worker is given its first requests (dispatch/warm_up.h).
struct WarmUpSpec {
  std::uint32_t requests = 2;        ///< that wait for their first token there at once, at first; 0: no bound
  std::uint32_t until_answers = 16;  ///< after so many first tokens there is none

  bool operator==(const WarmUpSpec&) const = default;
};

/// Whether the requests of a session stay at one worker, whatever is cached where (routing/session_table.h).
struct SessionAffinitySpec {
  enum class Form : std::uint8_t {
    kOff,
    kSoft,  ///< a request leaves if another worker's cost is lower by more than `worth`
    kHard,  ///< it leaves only if its worker cannot be given requests
  };
  Form form = Form::kOff;
  Duration ttl = std::chrono::minutes(10);          ///< without a request, after which a session is forgotten
  Duration worth = std::chrono::milliseconds(500);  ///< of kSoft
  std::uint32_t max_sessions = 100'000;             ///< beyond it the one that was idle longest is forgotten

  bool operator==(const SessionAffinitySpec&) const = default;
};

}  // namespace kvist::spec
