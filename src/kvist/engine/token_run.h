// A few tokens in place: the result of one step for one request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <span>

#include "kvist/base/check.h"
#include "kvist/base/id.h"

namespace kvist::engine {

/// Up to kCapacity tokens without an allocation: one for plain decoding, up to a whole accepted draft and the token
/// after it. Only the tokens that exist are copied, so a run of one is as cheap as one token. Trivially destructible.
class TokenRun {
 public:
  static constexpr std::uint32_t kCapacity = 16;

  // The storage is left uninitialised on purpose: nearly always only its first token is used.
  TokenRun() {}                                                                                 // NOLINT
  TokenRun(std::initializer_list<TokenId> tokens) { assign({tokens.begin(), tokens.size()}); }  // NOLINT
  TokenRun(const TokenRun& other) { assign(other); }                                            // NOLINT
  TokenRun& operator=(const TokenRun& other) {
    if (this != &other) assign(other);
    return *this;
  }

  void push_back(TokenId token) {
    KVIST_CHECK(size_ < kCapacity, "a run holds at most 16 tokens");
    new (storage_ + sizeof(TokenId) * size_++) TokenId(token);
  }
  void clear() { size_ = 0; }
  void assign(std::span<const TokenId> tokens) {
    size_ = 0;
    for (const TokenId token : tokens) push_back(token);
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] TokenId operator[](std::size_t i) const { return begin()[i]; }
  [[nodiscard]] TokenId front() const { return begin()[0]; }
  [[nodiscard]] TokenId back() const { return begin()[size_ - 1]; }
  [[nodiscard]] const TokenId* begin() const { return data(); }
  [[nodiscard]] const TokenId* end() const { return data() + size_; }
  [[nodiscard]] const TokenId* data() const { return std::launder(reinterpret_cast<const TokenId*>(storage_)); }

 private:
  std::uint32_t size_ = 0;
  alignas(TokenId) std::byte storage_[kCapacity * sizeof(TokenId)];
};

}  // namespace kvist::engine
