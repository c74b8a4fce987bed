// Why an attempt at a worker failed, and what an HTTP status says about that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kvist::dispatch {

/// Why an attempt at a worker failed.
enum class AttemptFailure : std::uint8_t {
  kTransport,     ///< no connection, a broken one, or not HTTP: counts against the worker's health
  kTimedOut,      ///< the request's deadline passed: counts against the worker's health, and leaves no time for another
                  ///< attempt
  kBackPressure,  ///< the worker answered 429, 503 or 529: it is healthy, but another worker may have free capacity
  kServerError,   ///< another 5xx, or a stream that began with an error: puts its health in doubt
  kStalled,       ///< the worker generates nothing, though it answers health checks
  kSilent,        ///< the worker showed no sign of life for longer than the request was predicted to take
  kGarbage,       ///< a redirection, or an answer that is none of this API
  kUnauthorized,  ///< 401 or 403: the fault of the client, unless another worker takes the same request
  kWrongModel,    ///< 404 for the gateway's own model: likewise
  kNotResumable,  ///< it was to go on with an answer that another worker had begun, and is of a kind that cannot
  kNoAdapter,     ///< 404 for an adapter (LoRA) that it had when it was last asked: it may be unloaded by now
  kRemoved,       ///< its operator took it out of the fleet
  kTooLarge,  ///< its answer, or one event of it, exceeds the gateway's bound: what was asked for is the reason, unless
              ///< another worker's answer to the same request does not
};
inline constexpr std::size_t kAttemptFailures = 13;
[[nodiscard]] std::string_view to_string(AttemptFailure failure);

/// Whether the failure may be the client's fault. Another worker's answer decides that.
[[nodiscard]] constexpr bool is_disputed(AttemptFailure failure) {
  return failure == AttemptFailure::kUnauthorized || failure == AttemptFailure::kWrongModel ||
         failure == AttemptFailure::kTooLarge;
}

/// What a request asks for, as far as it matters for a refusal.
enum class RequestScope : std::uint8_t {
  kOwnModel,    ///< an answer of the gateway's model
  kAdapter,     ///< an answer of an adapter of it
  kGeneration,  ///< an answer of a model that the gateway does not know, or it could not read which
  kComputed,    ///< what another endpoint computes (embeddings, ranks): a worker may be without it
  kOther,       ///< any other endpoint: statuses below 500 are its own business
};

/// The failure that a status stands for; nothing if the status is about the request and not about the worker.
[[nodiscard]] std::optional<AttemptFailure> failure_of_status(int status, RequestScope scope = RequestScope::kOwnModel);

}  // namespace kvist::dispatch
