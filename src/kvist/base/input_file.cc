#include "kvist/base/input_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace kvist {

Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t most_bytes) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc's is thread-safe
  if (!file) return fail(ErrorCode::kNotFound, fmt::format("{}: {}", path.string(), std::strerror(errno)));
  return read_stream(file, path.string(), most_bytes);
}

Result<std::string> read_stream(std::istream& stream, const std::string& name, std::uint64_t most_bytes) {
  std::string text;
  std::array<char, 65'536> piece{};
  while (text.size() <= most_bytes) {
    errno = 0;
    const std::uint64_t wanted = std::min<std::uint64_t>(piece.size(), most_bytes + 1 - text.size());
    stream.read(piece.data(), static_cast<std::streamsize>(wanted));
    if (stream.bad() || errno == EISDIR) return fail(ErrorCode::kUnavailable, name + ": cannot be read");
    if (stream.gcount() == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(stream.gcount()));
  }
  return fail(ErrorCode::kTooLarge, fmt::format("{}: more than {} bytes", name, most_bytes));
}

}  // namespace kvist
