#include "kvist/openai/chunk_frame.h"

#include <algorithm>

namespace kvist::openai {
namespace {

/// A stream keeps one, so that thousands of streams must not keep much.
constexpr std::size_t kMaxFrameBytes = 2'048;

/// Whether a JSON string may have this byte as it is, and no more than the byte has to be looked at. Text beyond ASCII
/// is left to the parser, which checks its encoding.
bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

/// The position of the first byte of the only field "content", which is a string; npos if there is none, or several.
std::size_t find_content(std::string_view json) {
  constexpr std::string_view kName = R"("content")";
  const std::size_t name = json.find(kName);
  if (name == std::string_view::npos || json.find(kName, name + 1) != std::string_view::npos)
    return std::string_view::npos;
  std::size_t at = json.find_first_not_of(' ', name + kName.size());
  if (!json.substr(std::min(at, json.size())).starts_with(':')) return std::string_view::npos;
  at = json.find_first_not_of(' ', at + 1);
  return json.substr(std::min(at, json.size())).starts_with('"') ? at + 1 : std::string_view::npos;
}

}  // namespace

// Without a backslash anywhere, quotes begin and end strings and no name is written in two ways. So the one "content"
// is what the parser read the content from, unless that was a "text".
void ChunkFrame::learn(std::string_view json, const ChunkView& view) {
  const bool content_alone = !view.content.empty() && !view.finish_reason && !view.usage && !view.error;
  if (!content_alone || json.size() > kMaxFrameBytes || json.contains('\\') || json.contains(R"("text")")) return;
  const std::size_t begin = find_content(json);
  if (begin == std::string_view::npos || !json.substr(begin).starts_with(view.content)) return;
  const std::string_view behind = json.substr(begin + view.content.size());
  if (!behind.starts_with('"')) return;
  before_ = json.substr(0, begin);
  behind_ = behind;
}

std::optional<std::string_view> ChunkFrame::content_of(std::string_view json) const {
  if (before_.empty() || json.size() <= before_.size() + behind_.size()) return std::nullopt;
  if (!json.starts_with(before_) || !json.ends_with(behind_)) return std::nullopt;
  const std::string_view content = json.substr(before_.size(), json.size() - before_.size() - behind_.size());
  if (!std::ranges::all_of(content, is_plain)) return std::nullopt;
  return content;
}

}  // namespace kvist::openai
