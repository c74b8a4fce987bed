// Counts what an answer that is passed on as bytes costs the key that pays for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/gateway/answer_relay.h"
#include "kvist/net/http_types.h"
#include "kvist/openai/types.h"

namespace kvist::gateway {

/// Reads an answer of another endpoint, as a stream of events or as JSON, for as much as it has in common with chats
/// and completions. Any other answer (vectors, counts, files) has no tokens, whatever its length. Threads: one.
class AnswerMeter {
 public:
  /// The most bytes of JSON that are kept and read, and what an event that is too large counts at least.
  static constexpr std::size_t kMostReadBytes = 1U << 20;

  explicit AnswerMeter(const net::Headers& headers);

  void feed(std::string_view data);
  /// What the answer says itself, if it has come so far.
  [[nodiscard]] std::optional<openai::Usage> usage() const;
  /// Without that, the tokens of the answer: events that carry any, and the bytes that could not be read.
  [[nodiscard]] std::uint64_t tokens() const;

 private:
  enum class Form : std::uint8_t { kEvents, kJson, kOther };

  Form form_;
  AnswerRelay events_{true};
  std::string forwarded_;     // by events_, which is of no use here
  bool failed_ = false;       // events_ met an event that is too large
  std::string json_;          // what came of it, while that is not too much
  bool too_long_ = false;     // json_ is not kept any more
  bool has_choices_ = false;  // it had them when it became too long
  std::uint64_t unread_ = 0;  // bytes
};

}  // namespace kvist::gateway
