#include "kvist/tokenizer/normalizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/base/json.h"
#include "kvist/tokenizer/steps.h"
#include "kvist/tokenizer/unicode.h"

namespace kvist::tokenizer {
namespace {

// A character below U+0300 never composes with the one before it and is in normal form C already. So a text is
// normalized in parts that begin with such a character, and most parts need no work.
constexpr std::uint32_t kFirstCombining = 0x300;

bool begins_part(std::string_view text, std::size_t at) {
  return code_point_at(text, at).value < kFirstCombining;
}

// Puts each run of combining marks into the order of their classes; those of one class stay as they are (Unicode's
// canonical ordering algorithm).
void sort_marks(std::vector<utf8proc_int32_t>& characters) {
  constexpr std::uint64_t kCharacterBits = 21;
  constexpr std::uint64_t kIndexBits = 32;
  const auto combining_class = [](utf8proc_int32_t c) {
    return static_cast<std::uint64_t>(utf8proc_get_property(c)->combining_class);
  };
  std::vector<std::uint64_t> marks;  // class, place, character
  for (std::size_t begin = 0; begin < characters.size(); ++begin) {
    marks.clear();
    for (std::size_t i = begin; i < characters.size() && combining_class(characters[i]) != 0; ++i) {
      marks.push_back(combining_class(characters[i]) << (kIndexBits + kCharacterBits) | (i - begin) << kCharacterBits |
                      static_cast<std::uint64_t>(characters[i]));
    }
    std::ranges::sort(marks);
    for (std::size_t i = 0; i < marks.size(); ++i) {
      characters[begin + i] = static_cast<utf8proc_int32_t>(marks[i] & ((1U << kCharacterBits) - 1));
    }
    begin += marks.size();
  }
}

// The same as utf8proc_map(), except for the sorting of combining marks: utf8proc takes up to n^2 steps for a run of n
// of them, and a user may send a megabyte of them.
std::string normal_form(std::string_view part, NormalForm form) {
  constexpr std::size_t kLongestDecomposition = 32;  // 18 in Unicode 15
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const bool composes = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0) |
                                                      (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE));
  std::vector<utf8proc_int32_t> characters;
  for (std::size_t at = 0; at < part.size();) {
    const CodePoint c = code_point_at(part, at);
    at += c.bytes;
    std::array<utf8proc_int32_t, kLongestDecomposition> decomposed{};
    int last_class = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.value), decomposed.data(),
                                                           decomposed.size(), options, &last_class);
    KVIST_CHECK(count >= 0 && count <= std::ssize(decomposed), fmt::format("utf8proc: {}", count));
    characters.insert(characters.end(), decomposed.begin(), decomposed.begin() + count);
  }
  sort_marks(characters);
  const utf8proc_ssize_t length = utf8proc_normalize_utf32(characters.data(), std::ssize(characters), options);
  KVIST_CHECK(length >= 0, fmt::format("utf8proc: {}", utf8proc_errmsg(length)));
  std::string text;
  for (const utf8proc_int32_t c : std::span(characters).first(static_cast<std::size_t>(length))) {
    append_code_point(static_cast<std::uint32_t>(c), text);
  }
  return text;
}

class NormalizerApplier {
 public:
  NormalizerApplier(MarkedText& text, RegexMemory& memory) : text_(text), memory_(memory) {}

  [[nodiscard]] bool keeps_beginning() const { return keeps_beginning_; }

  void operator()(const PrependStep& step) {
    if (text_.text.empty()) return;
    Rewriter out(text_);
    out.replace_until(0, step.text);
    text_ = out.finish();
  }

  void operator()(const ReplaceStep& step) {
    Rewriter out(text_);
    std::size_t from = 0;
    for (Regex::Match match; from <= text_.text.size() && find(step, from, match);) {
      if (match.end > match.begin) {
        if (match.begin == 0 && step.content.empty()) keeps_beginning_ = false;
        out.copy_until(match.begin);
        out.replace_until(match.end, step.content);
      }
      from = std::max(match.end, match.begin + 1);
    }
    text_ = out.finish();
  }

  void operator()(const NormalFormStep& step) {
    const std::string& text = text_.text;
    // In normal forms C and D, and KC and KD, ASCII is unchanged; above it only form C leaves Latin alone.
    const std::uint32_t first_changed = step.form == NormalForm::kNfc ? kFirstCombining : 0x80;
    Rewriter out(text_);
    for (std::size_t begin = 0; begin < text.size();) {
      bool unchanged = code_point_at(text, begin).value < first_changed;
      std::size_t end = begin + code_point_at(text, begin).bytes;
      for (; end < text.size() && !begins_part(text, end); end += code_point_at(text, end).bytes) unchanged = false;
      if (!unchanged) {
        const std::string_view part = std::string_view(text).substr(begin, end - begin);
        if (const std::string mapped = normal_form(part, step.form); mapped != part) {
          out.copy_until(begin);
          out.replace_until(end, mapped);
        }
      }
      begin = end;
    }
    text_ = out.finish();
  }

  void operator()(const LowercaseStep& /*step*/) {
    constexpr std::uint32_t kCapitalIWithDot = 0x130;  // the only character whose lower case is two
    const std::string& text = text_.text;
    Rewriter out(text_);
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint c = code_point_at(text, at);
      const auto lower = static_cast<std::uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c.value)));
      if (lower != c.value || c.value == kCapitalIWithDot) {
        std::string mapped;
        if (c.value == kCapitalIWithDot) {
          mapped = "i\xCC\x87";
        } else {
          append_code_point(lower, mapped);
        }
        out.copy_until(at);
        out.replace_until(at + c.bytes, mapped);
      }
      at += c.bytes;
    }
    text_ = out.finish();
  }

  void operator()(const StripStep& step) {
    const std::string& text = text_.text;
    std::size_t begin = 0;
    while (step.left && begin < text.size() && is_white_space(code_point_at(text, begin).value)) {
      begin += code_point_at(text, begin).bytes;
    }
    std::size_t end = text.size();
    while (step.right && end > begin) {
      const std::size_t last = character_before(text, end);
      if (!is_white_space(code_point_at(text, last).value)) break;
      end = last;
    }
    if (begin > 0) keeps_beginning_ = false;
    Rewriter out(text_);
    out.replace_until(begin, "");
    out.copy_until(end);
    out.replace_until(text.size(), "");
    text_ = out.finish();
  }

 private:
  bool find(const ReplaceStep& step, std::size_t from, Regex::Match& match) {
    if (const auto* regex = std::get_if<Regex>(&step.pattern)) {
      return regex->find(text_.text, from, memory_, match) == Regex::Outcome::kFound;
    }
    const std::string& literal = std::get<std::string>(step.pattern);
    match.begin = text_.text.find(literal, from);
    match.end = match.begin + literal.size();
    return match.begin != std::string::npos;
  }

  MarkedText& text_;
  RegexMemory& memory_;
  bool keeps_beginning_ = true;
};

Result<NormalizerStep> read_step(std::string_view type, JsonObject& step, const JsonValue& at) {
  if (type == "NFC") return NormalFormStep{NormalForm::kNfc};
  if (type == "NFD") return NormalFormStep{NormalForm::kNfd};
  if (type == "NFKC") return NormalFormStep{NormalForm::kNfkc};
  if (type == "NFKD") return NormalFormStep{NormalForm::kNfkd};
  if (type == "Lowercase") return LowercaseStep{};
  if (type == "Prepend") {
    KVIST_TRY(const std::string_view prepend, step.require_string("prepend"));
    return PrependStep{std::string(prepend)};
  }
  if (type == "Replace") {
    KVIST_TRY(const JsonValue pattern_at, step.require("pattern"));
    KVIST_TRY(auto pattern, read_pattern(pattern_at));
    KVIST_TRY(const std::string_view content, step.require_string("content"));
    return ReplaceStep{std::move(pattern), std::string(content)};
  }
  if (type == "Strip") {
    KVIST_TRY(const bool left, step.bool_or("strip_left", true));
    KVIST_TRY(const bool right, step.bool_or("strip_right", true));
    return StripStep{left, right};
  }
  return at.unsupported(fmt::format("normalizers of type {} are not supported", in_quotes(type)));
}

/// The worst case of a step: up to `to` bytes for `from`. Those of normal forms and lower case are from Unicode
/// standard annex 15 and Unicode 15's data.
struct WorstCase {
  std::size_t from = 1;
  std::size_t to = 1;
};

WorstCase worst_case(const NormalizerStep& step) {
  if (const auto* replace = std::get_if<ReplaceStep>(&step)) {
    const auto* literal = std::get_if<std::string>(&replace->pattern);
    return {literal ? literal->size() : 1, replace->content.size()};
  }
  // The worst case is a text of one byte.
  if (const auto* prepend = std::get_if<PrependStep>(&step)) return {1, 1 + prepend->text.size()};
  if (const auto* form = std::get_if<NormalFormStep>(&step)) {
    const bool compatible = form->form == NormalForm::kNfkc || form->form == NormalForm::kNfkd;
    return {1, compatible ? std::size_t{11} : std::size_t{4}};
  }
  if (std::holds_alternative<LowercaseStep>(step)) return {2, 3};
  return {};
}

}  // namespace

Result<Normalizer> Normalizer::read(const JsonValue& value) {
  Normalizer normalizer;
  Growth growth;
  const auto read_one = [&](std::string_view type, JsonObject& step, const JsonValue& at) -> Result<void> {
    KVIST_TRY(auto read, read_step(type, step, at));
    const WorstCase worst = worst_case(read);
    KVIST_TRY_VOID(growth.add(worst.from, worst.to, at));
    normalizer.steps_.push_back(std::move(read));
    return {};
  };
  KVIST_TRY_VOID(for_each_step(value, "normalizers", read_one));
  return normalizer;
}

bool Normalizer::may_be_cut_before_ascii() const {
  return std::ranges::all_of(steps_, [](const NormalizerStep& step) {
    const auto* form = std::get_if<NormalFormStep>(&step);
    return form != nullptr && form->form == NormalForm::kNfc;
  });
}

bool Normalizer::apply(MarkedText& text, RegexMemory& memory) const {
  NormalizerApplier applier(text, memory);
  for (const NormalizerStep& step : steps_) std::visit(applier, step);
  return applier.keeps_beginning();
}

}  // namespace kvist::tokenizer
