// Private to kubernetes: small files that others write.
#pragma once

#include <cstddef>
#include <fstream>
#include <string>

#include "kvist/base/error.h"

namespace kvist::kubernetes {

/// The file's text. Errors: it cannot be opened, or has more than `most_bytes`.
[[nodiscard]] inline Result<std::string> read_text_file(const std::string& path, std::size_t most_bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kNotFound, path + ": cannot be opened");
  std::string text(most_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > most_bytes)
    return fail(ErrorCode::kTooLarge, path + ": expected at most " + std::to_string(most_bytes) + " bytes");
  return text;
}

}  // namespace kvist::kubernetes
