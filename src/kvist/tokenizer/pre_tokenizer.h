// Cuts a text into words, which merges never cross.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/tokenizer/regex.h"

namespace kvist {
class JsonObject;
class JsonValue;
}  // namespace kvist

namespace kvist::tokenizer {

/// A section of text, cut into words. `words` are sorted, disjoint and non-empty, and cover what is kept of the text.
struct Words {
  struct Word {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  std::string_view text;
  std::vector<Word> words;
  std::string storage;           // of `text`, if a step changed it
  std::vector<Word> before;      // kept to reuse its memory
  bool begins_document = false;  // `text` begins with the beginning of the encoded text, of which nothing was removed
};

/// What happens to the matches of a splitting pattern.
enum class SplitBehavior : std::uint8_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct SplitStep {
  std::variant<std::string, Regex> pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;
};
enum class Prepend : std::uint8_t { kNever, kFirst, kAlways };
/// Puts `text` in front of words that do not begin with it.
struct PrefixStep {
  std::string text;
  Prepend where = Prepend::kAlways;
};
/// Writes `to` for every space.
struct SpaceStep {
  std::string to;
};
using PreTokenizerStep = std::variant<SplitStep, PrefixStep, SpaceStep>;

/// The pre-tokenizer of a tokenizer.json. Immutable.
class PreTokenizer {
 public:
  PreTokenizer() = default;
  /// Reads the "pre_tokenizer" member.
  [[nodiscard]] static Result<PreTokenizer> read(const JsonValue& value);

  /// Whether words are encoded as bytes (the last step is ByteLevel).
  [[nodiscard]] bool byte_level() const { return byte_level_; }
  /// Whether the words stay the same if a text is cut between an ASCII letter and ASCII white space
  /// (read_pre_tokenizer.cc has the reason). This holds if no run of white space is so long that a search stops at its
  /// bound.
  [[nodiscard]] bool may_be_cut_behind_letters() const { return known_splits_ == 1 && steps_.size() == 1; }
  /// Cuts words.text; words.begins_document is an input too. It never fails: if a search exceeds its bound of steps
  /// (Regex::Outcome::kLimit), the rest of that piece stays one word.
  void apply(Words& words, RegexMemory& memory) const;

 private:
  [[nodiscard]] Result<void> read_step(std::string_view type, JsonObject& step, const JsonValue& at);
  [[nodiscard]] Result<void> add_split(std::string_view pattern, SplitBehavior behavior, bool invert = false);
  [[nodiscard]] Result<void> read_split(JsonObject& step, const JsonValue& at);
  [[nodiscard]] Result<void> read_byte_level(JsonObject& step);
  [[nodiscard]] Result<void> read_metaspace(JsonObject& step, const JsonValue& at);

  std::vector<PreTokenizerStep> steps_;
  std::size_t known_splits_ = 0;  // number of splits with an expression for which words_end_behind_letters()
  bool byte_level_ = false;
};

}  // namespace kvist::tokenizer
