#include "kvist/net/connections_by_address.h"

namespace kvist::net {

bool ConnectionsByAddress::enter(AddressKey address) {
  const std::scoped_lock lock(mutex_);
  std::uint32_t& count = counts_[address];
  if (count >= most_) {
    ++refused_;
    if (count == 0) counts_.erase(address);
    return false;
  }
  ++count;
  return true;
}

void ConnectionsByAddress::leave(AddressKey address) {
  const std::scoped_lock lock(mutex_);
  const auto found = counts_.find(address);
  if (--found->second == 0) counts_.erase(found);
}

std::uint64_t ConnectionsByAddress::refused() const {
  const std::scoped_lock lock(mutex_);
  return refused_;
}

}  // namespace kvist::net
