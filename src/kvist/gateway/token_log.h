// The tokens of an answer that its client has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/openai/resumption.h"

namespace kvist::gateway {

/// Collects the tokens that a worker notes in its stream, as their text is passed on. Memory: four bytes a token, at
/// most `most` tokens; beyond that, or if a note cannot be read, the log is given up. Threads: one.
class TokenLog {
 public:
  explicit TokenLog(std::size_t most) : most_(most) {}

  void add(const openai::TokenNote& note) {
    if (!is_whole()) return;
    openai::append_tokens_of(note, tokens_);
    if (tokens_.size() > most_) give_up(Loss::kTooLong);
  }
  void add(std::span<const TokenId> tokens) {
    if (!is_whole()) return;
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    if (tokens_.size() > most_) give_up(Loss::kTooLong);
  }
  /// The client got nothing of what was noted.
  void clear() {
    tokens_.clear();
    loss_ = Loss::kNone;
  }
  /// The stream has tokens that no note gives.
  void on_unreadable() { give_up(Loss::kUnreadable); }

  [[nodiscard]] std::span<const TokenId> tokens() const { return tokens_; }
  /// Whether the log has all tokens that the client has.
  [[nodiscard]] bool is_whole() const { return loss_ == Loss::kNone; }
  [[nodiscard]] bool is_too_long() const { return loss_ == Loss::kTooLong; }

 private:
  enum class Loss : std::uint8_t { kNone, kTooLong, kUnreadable };

  void give_up(Loss loss) {
    loss_ = loss;
    tokens_ = {};
  }

  std::size_t most_;
  std::vector<TokenId> tokens_;
  Loss loss_ = Loss::kNone;
};

}  // namespace kvist::gateway
