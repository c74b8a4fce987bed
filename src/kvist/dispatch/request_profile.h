// What has to be known of a request to route it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/dispatch/wait_admission.h"
#include "kvist/routing/prompt_keys.h"

namespace kvist::dispatch {

/// What has to be known of a request to route it.
struct RequestProfile {
  std::uint32_t prompt_tokens = 0;
  routing::BlockKeys blocks;
  std::vector<routing::PromptKeys> otherwise = {};  ///< for workers that tokenize the prompt's text differently
  bool reads_cache = true;    ///< false: the engine computes all of the prompt, whatever is cached
  std::uint64_t session = 0;  ///< hash of the session that the client named; 0: none
  std::string adapter = {};   ///< of the model (LoRA), that it asks for; empty: none
  std::string name = {};      ///< the client's name for the request
  bool streams = false;       ///< its tokens arrive one by one, so that a stall can be noticed
  std::uint32_t choices = 1;  ///< answers that are generated for its prompt
  bool generates = true;      ///< the worker has to compute something for it
  bool repeatable = true;     ///< it may be tried on a worker that is in doubt, and then elsewhere
  /// A proxy that asked for a worker carries the request and tries others by itself, so the dispatcher never gives it
  /// to another one.
  bool carried = false;
  std::vector<WorkerId> excluded = {};  ///< workers that it must not go to
  std::size_t fallbacks = 0;            ///< how many further workers the decision is to name
  AdmissionProfile admission = {};
  /// When it has to have ended. Of a request that was started its RequestLife takes care.
  TimePoint deadline = TimePoint::max();
};

}  // namespace kvist::dispatch
