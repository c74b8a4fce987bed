#include "kvist/cli/loadgen_content.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <utility>

#include "kvist/net/sha256.h"
#include "kvist/spec/files.h"
#include "kvist/spec/workload.h"
#include "kvist/tokenizer/hugging_face_tokenizer.h"
#include "kvist/workload/chat_file.h"
#include "kvist/workload/text_lines.h"

namespace kvist::cli {
namespace {

std::unexpected<Error> wrong(const std::string& what) {
  return fail(ErrorCode::kInvalidArgument, "--mix: " + what);
}

/// "3:chat.yaml": a weight, and a file with a `workload:` mapping or with chats.
Result<workload::WorkloadPart> read_part(const std::string& text) {
  const std::size_t colon = text.find(':');
  workload::WorkloadPart part;
  const char* const end = text.data() + std::min(colon, text.size());
  const auto [read, error] = std::from_chars(text.data(), end, part.weight);
  if (colon == std::string::npos || error != std::errc() || read != end || !(part.weight > 0 && part.weight <= 1e9)) {
    return wrong(fmt::format("\"{}\"; want a weight above 0 and a file, like 3:chat.yaml", text));
  }
  const std::string file = text.substr(colon + 1);
  part.name = std::filesystem::path(file).filename().string();
  KVIST_TRY(part.sha256, digest_of(file));
  KVIST_TRY(const std::string beginning, workload::beginning_of(file));
  const std::size_t first = beginning.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (beginning[first] == '[' || beginning[first] == '{')) {
    KVIST_TRY(const workload::DatasetKind kind, workload::dataset_kind(beginning, file));
    if (kind == workload::DatasetKind::kTrace) return wrong(file + ": a trace is a load of its own");
    KVIST_TRY(auto scripts, workload::load_chats(file, {}));
    part.scripts = std::make_shared<const std::vector<workload::ChatScript>>(std::move(scripts));
    return part;
  }
  KVIST_TRY(part.spec, spec::load_workload(file));
  const spec::WorkloadSpec plain;
  if (!part.spec.trace.file.empty() || part.spec.arrivals != plain.arrivals ||
      part.spec.target_rps != plain.target_rps || part.spec.seed != plain.seed ||
      part.spec.request_timeout != plain.request_timeout) {
    return wrong(file +
                 ": seed, trace, arrivals, target_rps and request_timeout are the whole load's: say "
                 "them by options, or in the file of -f");
  }
  return part;
}

}  // namespace

Result<std::shared_ptr<const std::vector<workload::WorkloadPart>>> read_mix(const std::vector<std::string>& texts) {
  std::vector<workload::WorkloadPart> parts;
  for (const std::string& text : texts) {
    KVIST_TRY(workload::WorkloadPart part, read_part(text));
    parts.push_back(std::move(part));
  }
  return std::make_shared<const std::vector<workload::WorkloadPart>>(std::move(parts));
}

Result<std::vector<std::string>> read_follow_ups(const std::string& path) {
  std::vector<std::string> texts;
  Result<void> read =
      workload::for_each_line_of_file(path, spec::kMaxFollowUpBytes, [&](std::string_view line, bool) -> Result<void> {
        while (line.ends_with('\r') || line.ends_with('\n')) line.remove_suffix(1);
        if (line.empty()) return {};
        if (line.size() > spec::kMaxFollowUpBytes || texts.size() == spec::kMaxFollowUps) {
          return fail(ErrorCode::kTooLarge, fmt::format("{}: want at most {} lines of at most {} bytes", path,
                                                        spec::kMaxFollowUps, spec::kMaxFollowUpBytes));
        }
        texts.emplace_back(line);
        return {};
      });
  if (!read) return std::unexpected(std::move(read).error().in("--follow-ups"));
  if (!texts.empty()) return texts;
  return fail(ErrorCode::kInvalidArgument, fmt::format("--follow-ups: {} has no line with a message", path));
}

Result<TokenTexts> read_tokenizer(const std::string& path) {
  std::error_code ignored;
  const std::string file = std::filesystem::is_directory(path, ignored) ? path + "/tokenizer.json" : path;
  const auto made = [&]() -> Result<TokenTexts> {
    KVIST_TRY(std::shared_ptr<const tokenizer::Tokenizer> tokenizer, tokenizer::load_tokenizer(file));
    KVIST_TRY(text::TokenProse prose, text::TokenProse::create(std::move(tokenizer)));
    KVIST_TRY(std::string sha256, digest_of(file));
    return TokenTexts{.prose = std::make_shared<const text::TokenProse>(std::move(prose)), .sha256 = std::move(sha256)};
  }();
  if (!made) return std::unexpected(Error(made.error()).in("--tokenizer"));
  return made;
}

Result<std::string> digest_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kNotFound, path + ": cannot be opened");
  net::Sha256Stream hash;
  std::vector<char> buffer(std::size_t{1} << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0) {
    hash.add({buffer.data(), static_cast<std::size_t>(file.gcount())});
  }
  if (file.bad()) return fail(ErrorCode::kInternal, path + ": cannot be read");
  return net::to_hex(hash.finish());
}

}  // namespace kvist::cli
