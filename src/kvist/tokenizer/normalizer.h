// Normalizes text before tokens are searched for.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/tokenizer/marked_text.h"
#include "kvist/tokenizer/regex.h"

namespace kvist {
class JsonValue;
}

namespace kvist::tokenizer {

/// Unicode normal forms (Unicode standard annex 15).
enum class NormalForm : std::uint8_t { kNfc, kNfd, kNfkc, kNfkd };

struct PrependStep {
  std::string text;
};
struct ReplaceStep {
  std::variant<std::string, Regex> pattern;
  std::string content;
};
struct NormalFormStep {
  NormalForm form = NormalForm::kNfc;
};
struct LowercaseStep {};
struct StripStep {
  bool left = false;
  bool right = false;
};
using NormalizerStep = std::variant<PrependStep, ReplaceStep, NormalFormStep, LowercaseStep, StripStep>;

/// The normalizer of a tokenizer.json: a sequence of steps, each of which is applied to the whole section. Immutable.
class Normalizer {
 public:
  Normalizer() = default;
  /// Reads the "normalizer" member.
  [[nodiscard]] static Result<Normalizer> read(const JsonValue& value);

  [[nodiscard]] bool empty() const { return steps_.empty(); }
  /// Whether normalizing the parts of a text that is cut before an ASCII character gives the same as normalizing the
  /// whole. It does if there are no steps, or only NFC, in which no ASCII character composes with the one before it.
  [[nodiscard]] bool may_be_cut_before_ascii() const;
  /// Normalizes the text. Returns whether it still begins with its beginning: false if a step removed some of that.
  /// Requires: valid UTF-8.
  bool apply(MarkedText& text, RegexMemory& memory) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace kvist::tokenizer
