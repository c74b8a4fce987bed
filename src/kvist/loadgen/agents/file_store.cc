#include "kvist/loadgen/agents/file_store.h"

#include <fmt/format.h>

#include <fstream>
#include <system_error>
#include <vector>

namespace kvist::loadgen {
namespace {

std::filesystem::path file_path(const std::filesystem::path& folder, const net::Sha256& digest, bool complete) {
  return folder / (net::to_hex(digest) + (complete ? "" : ".part"));
}

Result<net::Sha256> digest_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  net::Sha256Stream hash;
  std::vector<char> buffer(std::size_t{1} << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0) {
    hash.add({buffer.data(), static_cast<std::size_t>(file.gcount())});
  }
  if (file.bad()) return fail(ErrorCode::kInternal, "a file that was sent cannot be read again");
  return hash.finish();
}

}  // namespace

FileState FileStore::state(const net::Sha256& digest) const {
  const auto found = files_.find(digest);
  if (found == files_.end()) return {};
  return {.bytes = found->second.bytes, .complete = found->second.complete};
}

Result<FileState> FileStore::add(const net::Sha256& digest, std::uint64_t offset, std::uint64_t size,
                                 std::string_view part) {
  const FileState have = state(digest);
  if (have.complete) return have;
  if (offset != have.bytes || part.size() > size || offset > size - part.size()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("offset: {} bytes of {} at {}; there are {}", part.size(), size, offset, have.bytes));
  }
  if (!files_.contains(digest)) {
    if (files_.size() >= kMostFiles || size > most_bytes_ || promised_bytes() > most_bytes_ - size) {
      return fail(ErrorCode::kResourceExhausted,
                  fmt::format("no room for a file of {} bytes; want at most {} bytes in {} files", size, most_bytes_,
                              kMostFiles));
    }
    files_[digest] = {.size = size, .bytes = 0, .complete = false};
  }
  Part& file = files_[digest];
  if (file.size != size)
    return fail(ErrorCode::kInvalidArgument, fmt::format("bytes: {}; the file has {}", size, file.size));
  std::ofstream out(file_path(folder_, digest, false),
                    std::ios::binary | (offset == 0 ? std::ios::trunc : std::ios::app));
  out.write(part.data(), static_cast<std::streamsize>(part.size()));
  out.close();
  if (!out) {
    files_.erase(digest);
    return fail(ErrorCode::kResourceExhausted, "a file cannot be written here");
  }
  file.bytes += part.size();
  if (file.bytes == size) KVIST_TRY_VOID(finish(digest, file));
  return state(digest);
}

Result<void> FileStore::finish(const net::Sha256& digest, Part& part) {
  const std::filesystem::path written = file_path(folder_, digest, false);
  KVIST_TRY(const net::Sha256 found, digest_of_file(written));
  std::error_code failed;
  if (found != digest) {
    files_.erase(digest);
    std::filesystem::remove(written, failed);
    return fail(ErrorCode::kInvalidArgument, "sha256: the file that was sent has another digest");
  }
  std::filesystem::rename(written, file_path(folder_, digest, true), failed);
  if (failed) return fail(ErrorCode::kInternal, "a file that was sent cannot be kept: " + failed.message());
  part.complete = true;
  return {};
}

void FileStore::clear() {
  for (const auto& [digest, part] : files_) {
    std::error_code ignored;
    std::filesystem::remove(file_path(folder_, digest, part.complete), ignored);
  }
  files_.clear();
}

Result<std::string> FileStore::path(const std::filesystem::path& folder, const net::Sha256& digest) {
  const std::filesystem::path path = file_path(folder, digest, true);
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return path.string();
  return fail(ErrorCode::kNotFound, fmt::format("no file with the digest {} was sent", net::to_hex(digest)));
}

std::uint64_t FileStore::promised_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [digest, part] : files_) sum += part.size;
  return sum;
}

}  // namespace kvist::loadgen
