#include "kvist/gateway/key_ring.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <utility>

namespace kvist::gateway {
namespace {

std::uint64_t first_bytes(const net::Sha256& hash) {
  std::uint64_t value = 0;
  std::memcpy(&value, hash.data(), sizeof(value));
  return value;
}

}  // namespace

KeyTable::KeyTable(const std::vector<KeyRecord>& records, const KeyTable* before, TimePoint now)
    : size_(records.size()), places_(std::bit_ceil(2 * records.size() + 2)) {
  for (const KeyRecord& record : records) {
    std::shared_ptr<KeyAccount> account = before != nullptr ? before->find(record.hash) : nullptr;
    if (account) {
      if (account->name() != record.name || account->key_class() != record.key_class)
        account = std::make_shared<KeyAccount>(record.name, record.key_class, *account);
      account->set_limits(record.limits, now);
      account->set_standing(record.standing);
    } else {
      account = std::make_shared<KeyAccount>(record.name, record.key_class, record.limits, now, record.standing);
    }
    std::size_t place = first_bytes(record.hash) & (places_.size() - 1);
    while (places_[place].account) place = (place + 1) & (places_.size() - 1);
    places_[place] = {record.hash, std::move(account)};
  }
}

std::shared_ptr<KeyAccount> KeyTable::find(const net::Sha256& hash) const {
  for (std::size_t place = first_bytes(hash) & (places_.size() - 1); places_[place].account;
       place = (place + 1) & (places_.size() - 1)) {
    if (net::equal_in_constant_time(places_[place].hash, hash)) return places_[place].account;
  }
  return nullptr;
}

std::vector<std::shared_ptr<KeyAccount>> KeyTable::accounts() const {
  std::vector<std::shared_ptr<KeyAccount>> all;
  all.reserve(size_);
  for (const Key& key : places_) {
    if (key.account) all.push_back(key.account);
  }
  return all;
}

Result<std::shared_ptr<KeyRing>> KeyRing::open(const std::string& file, TimePoint now) {
  std::shared_ptr<KeyRing> ring(new KeyRing(file));
  KVIST_TRY_VOID(ring->reload(now));
  return ring;
}

Result<void> KeyRing::reload(TimePoint now) {
  auto records = load_key_file(file_);
  if (!records) {
    ++failed_loads_;
    return std::unexpected(std::move(records).error());
  }
  const std::shared_ptr<const KeyTable> present = table();
  if (records->empty() && present && present->size() > 0) {
    ++failed_loads_;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: has no key any more, as a file that is about to be written; to take all {} keys away, "
                            "restart the gateway",
                            file_, present->size()));
  }
  table_.store(std::make_shared<const KeyTable>(*records, present.get(), now));
  ++loads_;
  return {};
}

}  // namespace kvist::gateway
