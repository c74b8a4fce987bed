#include "kvist/tokenizer/token_decoder.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/tokenizer/byte_alphabet.h"
#include "kvist/tokenizer/steps.h"
#include "kvist/tokenizer/unicode.h"

namespace kvist::tokenizer {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// The byte that a token like "<0x0A>" stands for.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned value = 0;
  const char* end = token.data() + 5;
  if (std::from_chars(token.data() + 3, end, value, 16).ptr != end) return std::nullopt;
  return static_cast<char>(value);
}

}  // namespace

Result<TokenDecoder> TokenDecoder::read(const JsonValue& value) {
  TokenDecoder decoder;
  decoder.joins_with_spaces_ = false;
  Growth growth;
  const auto read_one = [&](std::string_view type, JsonObject& step, const JsonValue& at) -> Result<void> {
    KVIST_TRY_VOID(decoder.read_step(type, step, at));
    if (type != "Replace") return {};
    const auto& replace = std::get<Replace>(decoder.steps_.back());
    return growth.add(replace.from.size(), replace.to.size(), at);
  };
  KVIST_TRY_VOID(for_each_step(value, "decoders", read_one));
  return decoder;
}

Result<void> TokenDecoder::read_step(std::string_view type, JsonObject& step, const JsonValue& at) {
  if (type == "Fuse") {
    fused_ = true;
    return {};
  }
  if (type == "Strip") return read_strip(step, at);
  if (fused_) return at.unsupported(fmt::format("{} after Fuse or ByteLevel", in_quotes(type)));
  if (type == "ByteLevel") {
    step.ignore({"add_prefix_space", "trim_offsets", "use_regex"});
    steps_.emplace_back(ByteLevel{});
    fused_ = true;
  } else if (type == "ByteFallback") {
    steps_.emplace_back(ByteFallback{});
  } else if (type == "Replace") {
    KVIST_TRY(const JsonValue pattern_at, step.require("pattern"));
    KVIST_TRY(auto pattern, read_pattern(pattern_at));
    if (!std::holds_alternative<std::string>(pattern)) return pattern_at.unsupported("only String is supported");
    KVIST_TRY(const std::string_view content, step.require_string("content"));
    steps_.emplace_back(Replace{std::get<std::string>(std::move(pattern)), std::string(content)});
  } else if (type == "Metaspace") {
    step.ignore({"str_rep", "split"});
    KVIST_TRY(const std::string_view replacement, step.require_string("replacement"));
    if (replacement.empty()) return step.wrong("replacement", "an empty string, not a character");
    KVIST_TRY(bool drops_first, step.bool_or("add_prefix_space", true));
    KVIST_TRY(const auto scheme_at, step.find("prepend_scheme"));
    if (scheme_at) {
      KVIST_TRY(const std::string_view scheme, scheme_at->as_string());
      drops_first = scheme != "never";
    }
    steps_.emplace_back(Metaspace{std::string(replacement), drops_first});
  } else {
    return at.unsupported(fmt::format("decoders of type {} are not supported", in_quotes(type)));
  }
  return {};
}

Result<void> TokenDecoder::read_strip(JsonObject& step, const JsonValue& at) {
  constexpr std::uint64_t kMost = 16;
  KVIST_TRY(const JsonValue content_at, step.require("content"));
  KVIST_TRY(const std::string_view content, content_at.as_string());
  KVIST_TRY(const std::uint64_t start, step.require_unsigned("start", 0, kMost));
  KVIST_TRY(const std::uint64_t stop, step.require_unsigned("stop", 0, kMost));
  if (content.empty() || code_point_at(content, 0).bytes != content.size()) {
    return content_at.wrong(fmt::format("{} is not one character", in_quotes(content)));
  }
  // A stream sends the text of its first token before it knows the second, so it cannot strip the end.
  if (fused_ && (content.size() != 1 || start > 1 || stop > 0)) {
    return at.unsupported("after Fuse or ByteLevel, Strip takes one ASCII character off the beginning and no more");
  }
  steps_.emplace_back(
      Strip{std::string(content), static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(stop), fused_});
  return {};
}

void TokenDecoder::apply(const Step& step, bool first, std::string& text) {
  if (const auto* replace = std::get_if<Replace>(&step)) {
    replace_all(text, replace->from, replace->to);
  } else if (const auto* strip = std::get_if<Strip>(&step)) {
    if (strip->whole_text && !first) return;
    for (std::uint32_t i = 0; i < strip->left && text.starts_with(strip->content); ++i) {
      text.erase(0, strip->content.size());
    }
    for (std::uint32_t i = 0; i < strip->right && text.ends_with(strip->content); ++i) {
      text.resize(text.size() - strip->content.size());
    }
  } else if (const auto* metaspace = std::get_if<Metaspace>(&step)) {
    replace_all(text, metaspace->replacement, first && metaspace->drops_first ? "" : " ");
  } else if (std::holds_alternative<ByteFallback>(step)) {
    if (const auto byte = byte_of(text)) text.assign(1, *byte);
  } else if (std::holds_alternative<ByteLevel>(step)) {
    // A token with characters outside of the alphabet stands for itself.
    if (auto bytes = bytes_of_token(text)) text = *std::move(bytes);
  }
}

std::string TokenDecoder::bytes(std::string_view token, bool first) const {
  std::string text(token);
  if (joins_with_spaces_ && !first) text.insert(0, 1, ' ');
  for (const Step& step : steps_) apply(step, first, text);
  return text;
}

}  // namespace kvist::tokenizer
