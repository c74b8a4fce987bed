// Bounds the connections of one IP address.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace kvist::net {

/// What counts as one address: an IPv4 address, or the first 64 bits of an IPv6 address, because a host has as many of
/// the other 64 as it likes.
using AddressKey = std::uint64_t;

/// Counts the connections of each address. Servers that share it have one bound together. Threads: any.
class ConnectionsByAddress {
 public:
  explicit ConnectionsByAddress(std::uint32_t most) : most_(most) {}

  /// Counts one more, unless the address has as many as it may.
  [[nodiscard]] bool enter(AddressKey address);
  /// Requires: a call of enter() returned true for it.
  void leave(AddressKey address);
  /// How many were refused.
  [[nodiscard]] std::uint64_t refused() const;

 private:
  const std::uint32_t most_;
  mutable std::mutex mutex_;
  std::unordered_map<AddressKey, std::uint32_t> counts_;  // none is 0, so there are no more than connections
  std::uint64_t refused_ = 0;
};

}  // namespace kvist::net
