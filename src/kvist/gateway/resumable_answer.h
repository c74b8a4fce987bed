// Whether and how another worker goes on with a begun stream whose worker failed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kvist/gateway/token_log.h"
#include "kvist/net/http_types.h"
#include "kvist/spec/resilience_spec.h"

namespace kvist::gateway {

/// Why a begun answer whose worker failed did not go on at another one.
enum class MigrationRefusal : std::uint8_t {
  kOff,             ///< the settings forbid it
  kEngine,          ///< the worker did not say which tokens it sent
  kSeveralChoices,  ///< an answer of several choices or prompts
  kToolCalls,       ///< an answer that may call tools
  kTooLong,         ///< more tokens than are kept
  kLargeRequest,    ///< a body larger than what is kept
  kTooOften,        ///< it has moved as often as an answer may
  kNoWorker,        ///< there was no other worker, or no retry left
};
inline constexpr std::size_t kMigrationRefusals = 8;
[[nodiscard]] std::string_view to_string(MigrationRefusal refusal);

/// What is known of one answer, over all workers that give parts of it. The worker decides whether the answer can be
/// resumed exactly (worker/generations.h), because it alone knows its engine; the gateway decides whether it remembers
/// enough. A pure class of events. Threads: one.
class ResumableAnswer {
 public:
  /// `asks`: the request is a stream that the gateway has read, so that it may be resumed at all.
  ResumableAnswer(const spec::MigrationSpec& spec, bool asks, std::size_t request_bytes);

  /// Whether the worker is to be asked for a resumable stream (openai::kResumableHeader).
  [[nodiscard]] bool asks() const { return asks_; }
  /// The head of an answer arrived, with the field openai::kResumableHeader or without. Returns whether the answer is a
  /// resumable stream, which has notes of tokens.
  bool on_head(std::optional<std::string_view> promise);
  /// The answer goes on at another worker.
  void on_moved() { ++moves_; }

  /// Why the answer could not be resumed if its worker failed now; nothing: it can be.
  [[nodiscard]] std::optional<MigrationRefusal> refusal() const;
  /// The request for the rest of the answer. Requires: no refusal(), and `request` is the one that the answer began
  /// with.
  [[nodiscard]] net::HttpRequest continuation(const net::HttpRequest& request) const;

  [[nodiscard]] TokenLog& log() { return log_; }
  [[nodiscard]] std::uint32_t tokens() const { return static_cast<std::uint32_t>(log_.tokens().size()); }
  [[nodiscard]] std::uint32_t moves() const { return moves_; }
  /// Whether the request has to be kept until the answer's end.
  [[nodiscard]] bool keeps_request() const { return created_ && !is_large_; }

 private:
  const spec::MigrationSpec* spec_;
  bool asks_;
  bool is_large_;
  std::uint32_t moves_ = 0;
  std::optional<std::int64_t> created_;  // of the answer, if its worker promised that it can be resumed
  MigrationRefusal why_not_ = MigrationRefusal::kEngine;  // if it did not
  TokenLog log_;
};

}  // namespace kvist::gateway
