// Line by line through a text or a file, which may be packed by gzip, without the byte order mark that it may begin
// with.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::workload {

/// Called with each line, without its end, and with whether it has one, which the last may not. An error ends the
/// reading.
using OnLine = std::function<Result<void>(std::string_view line, bool ended)>;

[[nodiscard]] Result<void> for_each_line(std::string_view text, const OnLine& on_line);
/// Reads the file piece by piece. A line longer than `line_bytes` comes in parts, so that the caller refuses it by its
/// length.
[[nodiscard]] Result<void> for_each_line_of_file(const std::string& path, std::size_t line_bytes,
                                                 const OnLine& on_line);
/// As much of a first line shows what a file is.
inline constexpr std::size_t kHeadBytes = 512;
/// The first line of a file, as far as it is not longer than `most_bytes`; empty where there is no such file.
[[nodiscard]] std::string first_line_of_file(const std::string& path, std::size_t most_bytes);

}  // namespace kvist::workload
