// The files that say what `kvist loadgen` sends: parts of a mix, follow-ups.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/text/token_prose.h"
#include "kvist/workload/mix.h"

namespace kvist::cli {

/// "3:chat.yaml", each of them: a weight, and a file with a `workload:` mapping or with chats.
[[nodiscard]] Result<std::shared_ptr<const std::vector<workload::WorkloadPart>>> read_mix(
    const std::vector<std::string>& texts);

/// The lines of a file that are not empty, each of which is a message. Errors: none, or too many or long ones.
[[nodiscard]] Result<std::vector<std::string>> read_follow_ups(const std::string& path);

/// What texts are made of by a tokenizer.json, or the one in a folder.
struct TokenTexts {
  std::shared_ptr<const text::TokenProse> prose;
  std::string sha256;  ///< of the file
};
[[nodiscard]] Result<TokenTexts> read_tokenizer(const std::string& path);

/// SHA-256 of a file, in hexadecimal digits: whether two loads sent the same, whatever the file is called.
[[nodiscard]] Result<std::string> digest_of(const std::string& path);

}  // namespace kvist::cli
