// How a tokenizer cuts a text into the words that merges stay within.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/tokenizer/regex.h"

namespace kvist::tokenizer {

class JsonObject;
class JsonValue;

/// A section of text, cut into words: `words` are sorted, disjoint, not empty, and cover what is kept of it.
struct Words {
  struct Word {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  std::string_view text;
  std::vector<Word> words;
  std::string storage;           // of `text`, where a step changed it
  std::vector<Word> before;      // kept for its memory
  bool begins_document = false;  // the section stands at the very beginning of what is encoded
};

/// What becomes of the matches of a pattern that cuts.
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

  /// Whether its words are to be read as bytes (its last step is ByteLevel).
  [[nodiscard]] bool byte_level() const { return byte_level_; }
  /// Whether a text may be cut between an ASCII letter and ASCII white space: the words of the parts are those of the
  /// whole then, given no run of white space that a search gives up in (read_pre_tokenizer.cc has the reason).
  [[nodiscard]] bool may_be_cut_behind_letters() const { return known_splits_ == 1 && steps_.size() == 1; }
  /// Cuts words.text; words.begins_document is an input too. Never fails: where a search takes more steps than its
  /// bound (Regex::Outcome::kLimit), the rest of that piece stays one word.
  void apply(Words& words, RegexMemory& memory) const;

 private:
  [[nodiscard]] Result<void> read_step(std::string_view type, JsonObject& step, const JsonValue& at);
  [[nodiscard]] Result<void> add_split(std::string_view pattern, SplitBehavior behavior, bool invert = false);
  [[nodiscard]] Result<void> read_split(JsonObject& step, const JsonValue& at);
  [[nodiscard]] Result<void> read_byte_level(JsonObject& step);
  [[nodiscard]] Result<void> read_metaspace(JsonObject& step, const JsonValue& at);

  std::vector<PreTokenizerStep> steps_;
  std::size_t known_splits_ = 0;  // of those, by an expression that words end behind letters in
  bool byte_level_ = false;
};

}  // namespace kvist::tokenizer
