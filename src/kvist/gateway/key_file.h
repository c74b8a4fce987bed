// The file of API keys: one line per key, with its hash and never with the key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/gateway/key_account.h"
#include "kvist/net/sha256.h"

namespace kvist::gateway {

/// One line: `name=alice sha256=4f2a... class=gold requests_per_minute=60 tokens_per_minute=100000 concurrency=4
/// weight=2 priority=-1`.
/// Only name and sha256 are required. Empty lines and those that begin with # are skipped.
struct KeyRecord {
  std::string name;
  net::Sha256 hash{};
  std::string key_class = {};  ///< a label in the metrics
  KeyLimits limits = {};
  KeyStanding standing = {};

  bool operator==(const KeyRecord&) const = default;
};

/// Errors name `file` and the line. Names and hashes that occur twice, unknown words, lines above 1 KiB and more than a
/// million keys are refused.
[[nodiscard]] Result<std::vector<KeyRecord>> parse_key_file(std::string_view text, const std::string& file);
/// Reads the file, at most 256 MiB.
[[nodiscard]] Result<std::vector<KeyRecord>> load_key_file(const std::string& file);
/// What is wrong with the name or class of a key ("has to be letters, ..."); empty if nothing is.
[[nodiscard]] std::string_view key_name_problem(std::string_view name);
/// The line of a key. Requires: nothing is wrong with its name, nor with its class if it has one.
[[nodiscard]] std::string to_line(const KeyRecord& record);

/// A new key: 256 random bits, so that nobody can try them all. That is why a fast hash is enough: bcrypt and the like
/// make trying slow where people choose passwords, and would cost the gateway milliseconds for every request.
[[nodiscard]] std::string make_key();

}  // namespace kvist::gateway
