// Reading a file without changing it or its folder.
#include <fmt/format.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "kvist/results/sqlite.h"

namespace kvist::results {
namespace {

namespace fs = std::filesystem;

/// The path as the URI that SQLite takes, with nothing in it that means anything there.
std::string uri_of(const std::string& path, std::string_view parameters) {
  std::string uri = "file:";
  for (const char c : path) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
                          c == '-' || c == '_' || c == '.';
    uri += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri.append(parameters);
}

bool is_empty_or_missing(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  return error || size == 0;
}

/// Whether the file says that its changes are in a log beside it. kvist writes none such, but other programs turn files
/// into them. Even to read one, SQLite creates that log, or fails where it cannot.
bool has_write_ahead_log(const std::string& path) {
  constexpr std::size_t kReadVersion = 19;  // of the header, https://sqlite.org/fileformat.html
  std::array<char, kReadVersion + 1> header{};
  std::ifstream file(path, std::ios::binary);
  return file.read(header.data(), header.size()) && header[kReadVersion] == 2;
}

/// A new folder, removed with this object.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> create() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "kvist-results-XXXXXX").string();
    if (error || ::mkdtemp(name.data()) == nullptr) {
      return fail(ErrorCode::kInternal, fmt::format("no temporary folder {}", name));
    }
    return TemporaryFolder(std::move(name));
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace

Result<Connection> Connection::open_to_read(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return fail(ErrorCode::kNotFound, path + ": no such file");
  if (!fs::is_regular_file(path, error) || is_empty_or_missing(path)) {
    return fail(ErrorCode::kInvalidArgument, path + ": no results database; want one that kvist has written");
  }
  // Nobody writes to a file whose log is empty, so there is nobody to keep out, which is what the log would be for.
  const bool is_settled = has_write_ahead_log(path) && is_empty_or_missing(path + "-wal");
  KVIST_TRY(Connection connection,
            open_as(uri_of(path, is_settled ? "?immutable=1" : ""), path, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI));
  const int code =
      sqlite3_exec(connection.handle_.get(), "SELECT count(*) FROM sqlite_schema", nullptr, nullptr, nullptr);
  if (code == SQLITE_READONLY_ROLLBACK) return open_recovered(path);
  if (code != SQLITE_OK) return std::unexpected(connection.error(code));
  return connection;
}

Result<Connection> Connection::open_recovered(const std::string& path) {
  KVIST_TRY(const TemporaryFolder folder, TemporaryFolder::create());
  const std::string copy = folder.path() + "/results.sqlite";
  std::error_code error;
  // Nobody writes meanwhile: while a writer holds its lock, SQLite does not take its journal for one that was left
  // behind.
  fs::copy_file(path + "-journal", copy + "-journal", error);
  if (!error) fs::copy_file(path, copy, error);
  if (error) {
    return fail(ErrorCode::kInternal,
                fmt::format("{}: was cut off while it was written, and cannot be copied to {}: {}", path, folder.path(),
                            error.message()));
  }
  KVIST_TRY(const Connection recovered, open_as(copy, path, SQLITE_OPEN_READWRITE));
  return recovered.open_copy();
}

Result<Connection> Connection::open_copy() const {
  KVIST_TRY(Connection copy, open_as("", path_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  sqlite3_backup* const backup = sqlite3_backup_init(copy.handle_.get(), "main", handle_.get(), "main");
  if (backup == nullptr) return std::unexpected(copy.error(sqlite3_errcode(copy.handle_.get())));
  const int stepped = sqlite3_backup_step(backup, -1);
  const int finished = sqlite3_backup_finish(backup);
  if (stepped == SQLITE_DONE && finished == SQLITE_OK) return copy;
  return std::unexpected(copy.error(finished != SQLITE_OK ? finished : stepped));
}

}  // namespace kvist::results
