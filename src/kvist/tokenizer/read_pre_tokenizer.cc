// Reads the pre-tokenizers of tokenizer.json as steps.
#include <fmt/format.h>

#include <utility>

#include "kvist/tokenizer/pre_tokenizer.h"
#include "kvist/tokenizer/steps.h"

namespace kvist::tokenizer {
namespace {

// GPT-2's expression, with which ByteLevel splits if use_regex is set.
constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Llama 3's, and Qwen 2's, which takes digits one by one.
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kPunctuation = R"([\x{21}-\x{2F}\x{3A}-\x{40}\x{5B}-\x{60}\x{7B}-\x{7E}\p{P}])";

// If one of these three expressions finds all words, texts may be cut between a letter and white space, for these
// reasons:
//  - No alternative matches white space after a letter, and together the alternatives match everything. So a word ends
//    there, whatever comes before.
//  - The words before are the same without the text behind: a run of letters ends there in both cases. The only
//    look-ahead, (?!\S), follows white space, so it never reaches beyond the letter.
//  - The words behind are the same without the text before, because there is no look-behind.
bool words_end_behind_letters(std::string_view pattern) {
  return pattern == kGpt2 || pattern == kLlama3 || pattern == kQwen2;
}

Result<SplitBehavior> read_behavior(JsonObject& step) {
  KVIST_TRY(const JsonValue value, step.require("behavior"));
  KVIST_TRY(const std::string_view name, value.as_string());
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return value.unsupported(fmt::format("{} is no behavior of a split", in_quotes(name)));
}

}  // namespace

Result<PreTokenizer> PreTokenizer::read(const JsonValue& value) {
  PreTokenizer pre_tokenizer;
  Growth growth;
  const auto read_one = [&](std::string_view type, JsonObject& step, const JsonValue& at) -> Result<void> {
    const std::size_t known = pre_tokenizer.steps_.size();
    KVIST_TRY_VOID(pre_tokenizer.read_step(type, step, at));
    for (std::size_t i = known; i < pre_tokenizer.steps_.size(); ++i) {
      const PreTokenizerStep& added = pre_tokenizer.steps_[i];
      // The worst case is a word of one byte.
      if (const auto* prefix = std::get_if<PrefixStep>(&added)) {
        KVIST_TRY_VOID(growth.add(1, 1 + prefix->text.size(), at));
      } else if (const auto* space = std::get_if<SpaceStep>(&added)) {
        KVIST_TRY_VOID(growth.add(1, space->to.size(), at));
      }
    }
    return {};
  };
  KVIST_TRY_VOID(for_each_step(value, "pretokenizers", read_one));
  return pre_tokenizer;
}

Result<void> PreTokenizer::read_step(std::string_view type, JsonObject& step, const JsonValue& at) {
  if (byte_level_) return at.unsupported("ByteLevel must be the last step");
  if (type == "Split") return read_split(step, at);
  if (type == "ByteLevel") return read_byte_level(step);
  if (type == "Metaspace") return read_metaspace(step, at);
  if (type == "Whitespace") {
    // The \w+|[^\w\s]+ of Rust's regular expressions, to which the joiners belong.
    const std::string word = fmt::format(R"({}\x{{200C}}\x{{200D}})", kWordCharacters);
    return add_split(fmt::format(R"([{0}]+|[^{0}\s]+)", word), SplitBehavior::kRemoved, true);
  }
  if (type == "WhitespaceSplit") return add_split(R"(\s)", SplitBehavior::kRemoved);
  if (type == "Punctuation") {
    KVIST_TRY(const SplitBehavior behavior, read_behavior(step));
    return add_split(kPunctuation, behavior);
  }
  if (type == "Digits") {
    KVIST_TRY(const bool individual, step.bool_or("individual_digits", false));
    return add_split(R"(\p{N})", individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  }
  return at.unsupported(fmt::format("pre-tokenizers of type {} are not supported", in_quotes(type)));
}

Result<void> PreTokenizer::add_split(std::string_view pattern, SplitBehavior behavior, bool invert) {
  KVIST_TRY(Regex regex, Regex::compile(pattern));
  steps_.emplace_back(SplitStep{std::move(regex), behavior, invert});
  if (behavior == SplitBehavior::kIsolated && !invert && words_end_behind_letters(pattern)) ++known_splits_;
  return {};
}

Result<void> PreTokenizer::read_split(JsonObject& step, const JsonValue& /*at*/) {
  KVIST_TRY(const JsonValue pattern_at, step.require("pattern"));
  KVIST_TRY(auto pattern, read_pattern(pattern_at));
  KVIST_TRY(const SplitBehavior behavior, read_behavior(step));
  KVIST_TRY(const bool invert, step.bool_or("invert", false));
  if (const auto* regex = std::get_if<Regex>(&pattern);
      regex != nullptr && behavior == SplitBehavior::kIsolated && !invert && words_end_behind_letters(regex->source()))
    ++known_splits_;
  steps_.emplace_back(SplitStep{std::move(pattern), behavior, invert});
  return {};
}

Result<void> PreTokenizer::read_byte_level(JsonObject& step) {
  step.ignore({"trim_offsets"});
  KVIST_TRY(const bool prefix, step.bool_or("add_prefix_space", true));
  KVIST_TRY(const bool split, step.bool_or("use_regex", true));
  if (prefix) steps_.emplace_back(PrefixStep{" ", Prepend::kAlways});
  byte_level_ = true;
  return split ? add_split(kGpt2, SplitBehavior::kIsolated) : Result<void>();
}

Result<void> PreTokenizer::read_metaspace(JsonObject& step, const JsonValue& at) {
  step.ignore({"str_rep"});
  KVIST_TRY(const JsonValue replacement_at, step.require("replacement"));
  KVIST_TRY(const std::string_view replacement, replacement_at.as_string());
  if (replacement.empty()) return replacement_at.wrong("an empty string, not a character");
  KVIST_TRY(const bool prefix, step.bool_or("add_prefix_space", true));
  KVIST_TRY(const bool split, step.bool_or("split", true));
  std::string_view scheme = prefix ? "always" : "never";
  KVIST_TRY(const auto scheme_at, step.find("prepend_scheme"));
  if (scheme_at) {
    KVIST_TRY(scheme, scheme_at->as_string());
  }
  Prepend where = Prepend::kNever;
  if (scheme == "always") {
    where = Prepend::kAlways;
  } else if (scheme == "first") {
    where = Prepend::kFirst;
  } else if (scheme != "never") {
    return at.unsupported(fmt::format("{} is no prepend_scheme", in_quotes(scheme)));
  }
  steps_.emplace_back(SpaceStep{std::string(replacement)});
  if (where != Prepend::kNever) steps_.emplace_back(PrefixStep{std::string(replacement), where});
  if (split) steps_.emplace_back(SplitStep{std::string(replacement), SplitBehavior::kMergedWithNext, false});
  return {};
}

}  // namespace kvist::tokenizer
