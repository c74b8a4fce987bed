#include "kvist/base/unpacked_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <utility>

namespace kvist {
namespace {

gzFile handle(void* file) {
  return static_cast<gzFile>(file);
}

}  // namespace

void UnpackedFile::Close::operator()(void* file) const {
  gzclose_r(handle(file));
}

Result<UnpackedFile> UnpackedFile::open(const std::filesystem::path& path) {
  gzFile const file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return fail(ErrorCode::kNotFound, path.string() + ": cannot be opened");
  return UnpackedFile(path.string(), file);
}

Result<std::size_t> UnpackedFile::read(std::span<char> bytes) {
  const auto most = static_cast<unsigned>(std::min<std::size_t>(bytes.size(), 1U << 30U));
  const int count = gzread(handle(file_.get()), bytes.data(), most);
  int status = Z_OK;
  const char* const words = gzerror(handle(file_.get()), &status);
  // zlib takes a packed file that was cut for one that ends there, and says so beside the last bytes only.
  if (status == Z_BUF_ERROR) return fail(ErrorCode::kCorrupt, name_ + ": packed by gzip, and cut off");
  if (status == Z_DATA_ERROR)
    return fail(ErrorCode::kCorrupt, fmt::format("{}: packed by gzip, and damaged: {}", name_, words));
  if (count < 0) return fail(ErrorCode::kUnavailable, name_ + ": cannot be read");
  return static_cast<std::size_t>(count);
}

Result<std::string> read_unpacked(const std::filesystem::path& path, std::size_t most_bytes) {
  constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
  KVIST_TRY(UnpackedFile file, UnpackedFile::open(path));
  std::string bytes;
  for (std::size_t count = kPieceBytes; count == kPieceBytes;) {
    const std::size_t before = bytes.size();
    bytes.resize(before + kPieceBytes);
    KVIST_TRY(count, file.read(std::span(bytes).subspan(before)));
    bytes.resize(before + count);
    if (bytes.size() > most_bytes) {
      return fail(ErrorCode::kTooLarge, fmt::format("{}: more than {} bytes", path.string(), most_bytes));
    }
  }
  return bytes;
}

}  // namespace kvist
