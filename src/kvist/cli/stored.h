// Stored results on the command line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kvist/base/error.h"
#include "kvist/results/store.h"

namespace kvist::cli {

/// Opens a results database that exists: a mistyped path must not make one.
[[nodiscard]] Result<std::unique_ptr<results::Store>> open_existing(const std::string& path);

/// The run that was asked for, or else the last one. Errors: no such run, with those there are.
[[nodiscard]] Result<std::int64_t> chosen_run(const results::Store& store, const std::string& path,
                                              std::optional<std::int64_t> wanted);

/// Makes a folder, with those above it.
[[nodiscard]] Result<void> make_folder(const std::string& path);

/// Writes a file whole.
[[nodiscard]] Result<void> write_file(const std::string& path, const std::string& text);

}  // namespace kvist::cli
