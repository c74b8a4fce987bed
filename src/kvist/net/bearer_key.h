// Keys that a client sends as Authorization: Bearer, as files have them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/net/http_types.h"
#include "kvist/net/sha256.h"

namespace kvist::net {

/// Whether the text can stand in a header field as a key: 1 to 4,096 printable ASCII characters without spaces.
[[nodiscard]] bool is_bearer_key(std::string_view text);

/// The first line of a file, which is one key. Errors name the file, never what is in it: kNotFound if it cannot be
/// read, kInvalidArgument if the line is no key.
[[nodiscard]] Result<std::string> read_bearer_key(const std::string& file);

/// The first line of the file as the value of a header field: printable characters, which may have blanks between
/// them. Errors name the file, never what is in it.
[[nodiscard]] Result<std::string> read_header_value(const std::string& file);

/// The key that a request has: of `Authorization: Bearer KEY` or `X-API-Key: KEY`; empty if it has none.
[[nodiscard]] std::string_view sent_key(const Headers& headers);

/// The few keys that a server asks for. Keeps their hashes only. Threads: any, as a value.
class BearerKeys {
 public:
  static constexpr std::size_t kMost = 64;

  /// One key in each line of the file that is not empty; the first may be what read_bearer_key() reads of it. Errors
  /// are the same; that there is no key, or that there are more than kMost, is one too.
  [[nodiscard]] static Result<BearerKeys> read(const std::string& file);

  /// How long it takes does not depend on which one it is, nor on how much of one is right.
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] std::size_t size() const { return hashes_.size(); }

 private:
  std::vector<Sha256> hashes_;
};

}  // namespace kvist::net
