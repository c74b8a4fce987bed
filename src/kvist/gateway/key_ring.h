// All API keys of a file, which may change while requests run.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/gateway/key_account.h"
#include "kvist/gateway/key_file.h"

namespace kvist::gateway {

/// The keys of one reading of the file. Immutable. A look-up is by the SHA-256 of what the client sent. What it finds,
/// and how long that takes, depends on the hash alone, which tells nothing about the key. Threads: any.
class KeyTable {
 public:
  /// A key that was in `before` too keeps what it has used, under its new limits, name and class.
  KeyTable(const std::vector<KeyRecord>& records, const KeyTable* before, TimePoint now);

  [[nodiscard]] std::shared_ptr<KeyAccount> find(std::string_view key) const { return find(net::sha256(key)); }
  [[nodiscard]] std::shared_ptr<KeyAccount> find(const net::Sha256& hash) const;
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::vector<std::shared_ptr<KeyAccount>> accounts() const;

 private:
  struct Key {
    net::Sha256 hash{};
    std::shared_ptr<KeyAccount> account;
  };
  std::size_t size_ = 0;
  // By the hash's first bytes; a place without an account is free. Their number is a power of two, and at most half are
  // taken. The keys themselves lie here, so that a look-up waits for memory once.
  std::vector<Key> places_;
};

/// The newest good reading of a file. Threads: any, reload() one at a time.
class KeyRing {
 public:
  /// An error if the file is not good. Then there is no ring.
  [[nodiscard]] static Result<std::shared_ptr<KeyRing>> open(const std::string& file, TimePoint now);

  [[nodiscard]] std::shared_ptr<const KeyTable> table() const { return table_.load(); }
  [[nodiscard]] std::shared_ptr<KeyAccount> find(std::string_view key) const { return table()->find(key); }
  /// Reads the file again. After an error the keys stay as they are. A file without keys is an error too if there were
  /// some, because a file that is being rewritten is empty for a moment.
  [[nodiscard]] Result<void> reload(TimePoint now);
  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] std::uint64_t loads() const { return loads_; }
  [[nodiscard]] std::uint64_t failed_loads() const { return failed_loads_; }

 private:
  explicit KeyRing(std::string file) : file_(std::move(file)) {}

  const std::string file_;
  std::atomic<std::shared_ptr<const KeyTable>> table_;
  std::atomic<std::uint64_t> loads_ = 0;
  std::atomic<std::uint64_t> failed_loads_ = 0;
};

}  // namespace kvist::gateway
