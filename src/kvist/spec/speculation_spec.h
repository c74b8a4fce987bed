// Speculative decoding of a timed worker: who drafts, how many tokens, how many of them are accepted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvist::spec {

/// How the draft length of a step is chosen.
enum class DraftLength {
  kFixed,     ///< always draft_tokens, as the published engines do it
  kAdaptive,  ///< 0 to draft_tokens, whatever the step-time model says pays (engine/speculation.h)
};

struct SpeculationSpec {
  bool enabled = false;
  std::string drafter = "eagle3";  ///< "eagle3", or the name of a model profile ("llama-3.1-8b-fp8")
  DraftLength draft_length = DraftLength::kFixed;
  std::uint32_t draft_tokens = 3;  ///< drafted per sequence and step, at most 15
  /// acceptance[i]: probability that draft token i + 1 is accepted, given that those before it were. The last entry
  /// holds for all positions after it.
  std::vector<double> acceptance = {0.7};

  bool operator==(const SpeculationSpec&) const = default;
};

}  // namespace kvist::spec
