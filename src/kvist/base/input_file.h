// Files that are read whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>

#include "kvist/base/error.h"

namespace kvist {

/// The file's bytes. It may be a pipe or a device: no more than `most_bytes` are kept of it. Errors, which name the
/// path: kNotFound, it cannot be opened; kTooLarge, it has more than `most_bytes`; kUnavailable, it cannot be read, as
/// a folder.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t most_bytes);
/// The same of what an open stream still has. `name`: for errors.
[[nodiscard]] Result<std::string> read_stream(std::istream& stream, const std::string& name, std::uint64_t most_bytes);

}  // namespace kvist
