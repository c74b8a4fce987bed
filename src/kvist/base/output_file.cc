#include "kvist/base/output_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace kvist {
namespace {

Error write_error(const std::filesystem::path& path, const std::string& reason) {
  return {ErrorCode::kInternal, fmt::format("{}: cannot be written: {}", path.string(), reason)};
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)), partial_(path_) {
  std::error_code error;
  const bool moves = !std::filesystem::exists(path_, error) || std::filesystem::is_regular_file(path_, error);
  if (moves) partial_ += ".partial";
  errno = 0;
  file_.open(partial_, std::ios::binary | std::ios::trunc);
}

Result<std::string> OutputFile::finish() {
  file_.close();
  if (!file_) return std::unexpected(write_error(path_, std::generic_category().message(errno == 0 ? EIO : errno)));
  if (partial_ == path_) return path_.string();
  std::error_code error;
  std::filesystem::rename(partial_, path_, error);
  if (error) return std::unexpected(write_error(path_, error.message()));
  return path_.string();
}

Result<void> check_writable(const std::filesystem::path& path) {
  if (path.empty()) return {};
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return std::unexpected(write_error(path, "it is a folder"));
  // A pipe or a device is opened when there is something to write.
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) return {};
  std::filesystem::path partial = path;
  partial += ".partial";
  const bool is_new = !std::filesystem::exists(partial, error);
  errno = 0;
  if (!std::ofstream(partial, std::ios::binary | std::ios::app)) {
    return std::unexpected(write_error(path, std::generic_category().message(errno == 0 ? EIO : errno)));
  }
  if (is_new) std::filesystem::remove(partial, error);
  return {};
}

Result<std::string> write_file(const std::filesystem::path& path, const std::string& text) {
  OutputFile file(path);
  file.append(text);
  return file.finish();
}

}  // namespace kvist
