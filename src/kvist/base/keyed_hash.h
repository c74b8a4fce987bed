// Names that tell nothing to who does not have the key.
#pragma once

#include <cstdint>

namespace kvist {

/// SipHash-2-4 (Aumasson and Bernstein, 2012) of one 64-bit number, taken as its eight bytes from the lowest on: equal
/// numbers have equal hashes under one key, and without the key a hash tells nothing of its number, nor of the hash of
/// any other number.
class KeyedHash {
 public:
  KeyedHash(std::uint64_t key_low, std::uint64_t key_high) : key_low_(key_low), key_high_(key_high) {}

  [[nodiscard]] std::uint64_t operator()(std::uint64_t number) const;
  /// The upper 53 bits of it: a whole number that every JSON reader keeps.
  [[nodiscard]] std::uint64_t json_number(std::uint64_t number) const { return (*this)(number) >> 11; }

 private:
  std::uint64_t key_low_;
  std::uint64_t key_high_;
};

}  // namespace kvist
