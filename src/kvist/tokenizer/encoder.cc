#include "kvist/tokenizer/encoder.h"

#include <simdjson.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "kvist/base/utf8.h"
#include "kvist/tokenizer/unicode.h"
#include "kvist/tokenizer/utf8_repair.h"

namespace kvist::tokenizer {
namespace {

// The most words, or symbols of a word, for which a thread keeps memory from one text to the next: a few MiB.
constexpr std::size_t kMostKept = std::size_t{1} << 16U;

std::atomic<std::uint64_t> last_serial = 0;

// The longest run of white space behind which places are given, in bytes. A search that takes too many steps (Regex)
// makes one word of the whole rest, so places behind it would change words. In the expressions that allow places, only
// white space takes many steps, about one per byte.
constexpr std::size_t kLongestRun = std::size_t{1} << 16U;

bool is_ascii_letter(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

bool is_utf8(std::string_view text) {
  return simdjson::validate_utf8(text.data(), text.size());
}

MarkedText repaired(const MarkedText& text) {
  Rewriter out(text);
  for (std::size_t at = 0; at < text.text.size();) {
    const std::string_view rest = std::string_view(text.text).substr(at);
    if (const std::size_t length = utf8_sequence_length(rest); length > 0) {
      at += length;
    } else {
      out.copy_until(at);
      at += broken_utf8_prefix(rest);
      out.replace_until(at, kReplacementCharacter);
    }
  }
  return out.finish();
}

}  // namespace

/// Each thread has one, for the encoder that it used last.
struct Encoder::Memory {
  std::uint64_t serial = 0;
  RegexMemory regex;
  BpeMemory bpe;
  Words words;

  /// Frees what only long texts need.
  void trim() {
    if (words.words.capacity() > kMostKept) words = Words();
    if (bpe.ids.capacity() <= kMostKept) return;
    bpe.ids = {};
    bpe.merges = {};
    bpe.symbols = {};
    bpe.heap = {};
  }
};

Encoder::Encoder(Normalizer normalizer, PreTokenizer pre_tokenizer, BpeModel model,
                 const std::vector<AddedToken>& added)
    : serial_(++last_serial),
      normalizer_(std::move(normalizer)),
      pre_tokenizer_(std::move(pre_tokenizer)),
      model_(std::move(model)) {
  RegexMemory regex;
  for (const AddedToken& token : added) {
    if (!token.normalized) {
      raw_tokens_.add(token, token.content);
      continue;
    }
    MarkedText pattern{token.content, {}};
    normalizer_.apply(pattern, regex);
    normalized_tokens_.add(token, pattern.text);
  }
  // An added token must not depend on text that a cut removes, as a single_word token does on its neighbours and a
  // normalized one on the normalized text around it.
  may_cut_between_words_ = pre_tokenizer_.may_be_cut_behind_letters() && normalizer_.may_be_cut_before_ascii() &&
                           normalized_tokens_.empty() && std::ranges::none_of(added, &AddedToken::single_word);
}

Encoder::Memory& Encoder::memory() const {
  thread_local Memory memory;
  if (memory.serial != serial_) {
    memory.serial = serial_;
    memory.bpe.cache.clear();
  }
  return memory;
}

void Encoder::encode_normalized(std::string_view text, bool begins_document, Memory& memory,
                                std::vector<TokenId>& out) const {
  Words& words = memory.words;
  words.text = text;
  words.begins_document = begins_document;
  pre_tokenizer_.apply(words, memory.regex);
  for (const Words::Word& word : words.words) {
    model_.encode(words.text.substr(word.begin, word.end - word.begin), out, memory.bpe);
  }
  memory.trim();
}

void Encoder::encode_plain(std::string_view text, std::vector<TokenId>& out) const {
  Memory& memory = this->memory();
  if (normalizer_.empty() && is_utf8(text)) return encode_normalized(text, true, memory, out);
  MarkedText normalized{std::string(text), {}};
  if (!is_utf8(text)) normalized = repaired(normalized);
  const bool begins_document = normalizer_.apply(normalized, memory.regex);
  encode_normalized(normalized.text, begins_document, memory, out);
}

void Encoder::encode_marked(std::string_view text, const std::vector<Range>& marks, std::vector<TokenId>& out) const {
  Memory& memory = this->memory();
  MarkedText whole{std::string(text), marks};
  if (!is_utf8(text)) whole = repaired(whole);
  std::vector<AddedTokenFinder::Part> parts;
  std::vector<AddedTokenFinder::Part> normalized_parts;
  raw_tokens_.cut(whole, parts);
  for (const AddedTokenFinder::Part& part : parts) {
    if (part.token) {
      out.push_back(*part.token);
      continue;
    }
    MarkedText section{whole.text.substr(part.begin, part.end - part.begin), {}};
    if (!normalized_tokens_.empty()) section.marks = marks_within(whole.marks, part.begin, part.end);
    const bool begins_document = normalizer_.apply(section, memory.regex) && part.begin == 0;
    normalized_tokens_.cut(section, normalized_parts);
    for (const AddedTokenFinder::Part& inner : normalized_parts) {
      if (inner.token) {
        out.push_back(*inner.token);
      } else {
        encode_normalized(std::string_view(section.text).substr(inner.begin, inner.end - inner.begin),
                          begins_document && inner.begin == 0, memory, out);
      }
    }
  }
}

void Encoder::cut_places(std::string_view text, const std::vector<Range>& marks, std::vector<std::size_t>& out) const {
  if (!is_utf8(text)) return;
  std::vector<AddedTokenFinder::Part> parts;
  raw_tokens_.cut({std::string(text), marks}, parts);
  std::size_t last = 0;
  for (const AddedTokenFinder::Part& part : parts) {
    if (part.token) {
      last = part.begin;
      if (last > 0) out.push_back(last);
    } else if (may_cut_between_words_) {
      cut_between_words(text, part.begin, part.end, last, out);
    }
  }
}

bool Encoder::marks_matter(std::string_view text, const std::vector<Range>& marks) const {
  if (marks.empty()) return false;
  return !normalized_tokens_.empty() || !is_utf8(text) || raw_tokens_.is_kept_from_one(text, marks);
}

// Adds places within a part of the text without added tokens. `last` is the last place before it.
void Encoder::cut_between_words(std::string_view text, std::size_t begin, std::size_t end, std::size_t last,
                                std::vector<std::size_t>& out) {
  std::size_t run = 0;  // bytes of white space so far
  char before = ' ';
  for (std::size_t at = begin; at < end;) {
    const CodePoint c = code_point_at(text, at);
    const bool is_space = is_white_space(c.value);
    if (is_space && c.bytes == 1 && at >= last + kBetweenCuts && is_ascii_letter(before)) {
      out.push_back(at);
      last = at;
    }
    run = is_space ? run + c.bytes : 0;
    if (run > kLongestRun) return;
    before = c.bytes == 1 ? text[at] : '\0';
    at += c.bytes;
  }
}

}  // namespace kvist::tokenizer
