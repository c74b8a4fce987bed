// A trace of requests, as plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/base/time.h"

namespace kvist::workload {

/// Prompt tokens that one id stands for, where neither the file nor the user says otherwise: Mooncake's.
inline constexpr std::uint32_t kTokensPerHash = 512;
inline constexpr std::uint32_t kMaxTokensPerHash = 65'536;

/// A request that was sent only after an earlier one had been answered.
struct FollowUp {
  std::uint32_t request = 0;  ///< the place of the earlier one in the trace, before this one's
  /// How long after the end of that answer it was sent; nothing: at its own instant, or at the end of that answer if it
  /// comes later.
  std::optional<Duration> pause = {};
  /// Whether the prompt has that answer in it, token by token. Clients leave out what a model thought, and a text that
  /// came as some tokens may be read as others.
  bool has_answer = true;

  bool operator==(const FollowUp&) const = default;
};

/// One request of a trace. Its text is not recorded, only which of its prefixes it shares with others: prompt tokens
/// [i x n, (i + 1) x n) are those that hash_ids[i] stands for (n: tokens per hash), so that two requests whose lists
/// begin alike have prompts that begin alike. The last id may cover less: what is left.
struct TraceRequest {
  Duration at{};                    ///< time since the beginning of the trace
  std::uint32_t input_tokens = 0;   ///< of the whole prompt, chat template included
  std::uint32_t output_tokens = 0;  ///< of the answer
  std::vector<std::uint64_t> hash_ids;
  std::optional<FollowUp> after = {};

  bool operator==(const TraceRequest&) const = default;
};

/// The requests that follow no other are in the order of their instants. Immutable once loaded. Threads: any may read
/// it.
struct Trace {
  std::vector<TraceRequest> requests;
  std::optional<std::uint32_t> tokens_per_hash = {};  ///< where the file says so itself
  bool has_instants = true;                           ///< otherwise `at` is 0 everywhere, and only their order is known
  /// The line of the first request without an instant of its own, whose `at` is that of the one which it follows; 0:
  /// each has one.
  std::size_t line_without_instant = 0;

  bool operator==(const Trace&) const = default;
};

}  // namespace kvist::workload
