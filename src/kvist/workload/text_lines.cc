#include "kvist/workload/text_lines.h"

#include <utility>

#include "kvist/base/unpacked_file.h"

namespace kvist::workload {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Programs of Windows begin a file of UTF-8 with a mark that is no part of the text.
std::string_view without_mark(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

}  // namespace

Result<void> for_each_line(std::string_view text, const OnLine& on_line) {
  text = without_mark(text);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const bool ended = end != std::string_view::npos;
    KVIST_TRY_VOID(on_line(text.substr(0, end), ended));
    text.remove_prefix(ended ? end + 1 : text.size());
  }
  return {};
}

Result<void> for_each_line_of_file(const std::string& path, std::size_t line_bytes, const OnLine& on_line) {
  KVIST_TRY(UnpackedFile file, UnpackedFile::open(path));
  std::string pending;  // a line whose end has not come yet
  std::string piece(kPieceBytes, '\0');
  bool is_first = true;
  for (bool more = true; more;) {
    KVIST_TRY(const std::size_t count, file.read(piece));
    more = count == piece.size();
    pending.append(piece, 0, count);
    std::string_view rest = std::exchange(is_first, false) ? without_mark(pending) : pending;
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      KVIST_TRY_VOID(on_line(rest.substr(0, end), true));
      rest.remove_prefix(end + 1);
    }
    // A line that never ends must not fill our memory.
    if ((!more && !rest.empty()) || rest.size() > line_bytes) {
      KVIST_TRY_VOID(on_line(rest, false));
      rest = {};
    }
    pending.erase(0, pending.size() - rest.size());
  }
  return {};
}

std::string first_line_of_file(const std::string& path, std::size_t most_bytes) {
  Result<UnpackedFile> file = UnpackedFile::open(path);
  if (!file) return {};
  std::string text(most_bytes, '\0');
  text.resize(file->read(text).value_or(0));
  return std::string(without_mark(text).substr(0, without_mark(text).find('\n')));
}

}  // namespace kvist::workload
