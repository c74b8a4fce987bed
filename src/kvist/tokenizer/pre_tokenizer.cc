#include "kvist/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

namespace kvist::tokenizer {
namespace {

using Word = Words::Word;

/// Combines matches and the text between them to words, according to a SplitBehavior.
class WordWriter {
 public:
  WordWriter(std::vector<Word>& out, SplitBehavior behavior) : out_(out), behavior_(behavior), first_(out.size()) {}

  void add(std::size_t begin, std::size_t end, bool is_match) {
    const bool may_join = out_.size() > first_;
    switch (behavior_) {
      case SplitBehavior::kRemoved:
        if (!is_match) push(begin, end);
        break;
      case SplitBehavior::kIsolated:
        push(begin, end);
        break;
      case SplitBehavior::kContiguous:
        may_join&& is_match == previous_ ? join(end) : push(begin, end);
        break;
      case SplitBehavior::kMergedWithPrevious:
        may_join&& is_match && !previous_ ? join(end) : push(begin, end);
        break;
      case SplitBehavior::kMergedWithNext:
        // A match is merged with the text after it, unless that is a match too.
        may_join && !is_match && previous_ ? join(end) : push(begin, end);
        break;
    }
    previous_ = is_match && (begin < end || behavior_ == SplitBehavior::kContiguous);
  }

 private:
  void push(std::size_t begin, std::size_t end) {
    if (begin < end) out_.push_back({begin, end});
  }
  void join(std::size_t end) { out_.back().end = end; }

  std::vector<Word>& out_;
  SplitBehavior behavior_;
  std::size_t first_;
  bool previous_ = false;
};

class PreTokenizerApplier {
 public:
  PreTokenizerApplier(Words& words, RegexMemory& memory) : words_(words), memory_(memory) {}

  void operator()(const SplitStep& step) {
    words_.before.clear();
    std::swap(words_.before, words_.words);
    for (const Word& word : words_.before) split(step, word);
  }

  void operator()(const PrefixStep& step) {
    rewrite([&](std::string_view word, bool begins_document) {
      if (step.where == Prepend::kFirst && !begins_document) return std::string(word);
      return word.starts_with(step.text) ? std::string(word) : step.text + std::string(word);
    });
  }

  void operator()(const SpaceStep& step) {
    rewrite([&](std::string_view word, bool /*begins_document*/) {
      std::string out;
      out.reserve(word.size());
      for (const char c : word) c == ' ' ? out.append(step.to) : out.append(1, c);
      return out;
    });
  }

 private:
  template <class Change>
  void rewrite(const Change& change) {
    std::string text;
    text.reserve(words_.text.size());
    // What an earlier step has removed before the first word is not in the new text.
    words_.begins_document = words_.begins_document && !words_.words.empty() && words_.words.front().begin == 0;
    bool first = true;
    for (Word& word : words_.words) {
      const std::size_t begin = text.size();
      text += change(words_.text.substr(word.begin, word.end - word.begin), first && words_.begins_document);
      word = {begin, text.size()};
      first = false;
    }
    words_.storage = std::move(text);
    words_.text = words_.storage;
  }

  // The words are searched one by one, each as a text of its own, because look-ahead must not see beyond a word's end.
  void split(const SplitStep& step, const Word& word) {
    const std::string_view text = words_.text.substr(word.begin, word.end - word.begin);
    WordWriter writer(words_.words, step.behavior);
    std::size_t written = 0;
    std::size_t from = 0;
    for (Regex::Match match; from < text.size() && find(step, text, from, match);) {
      if (match.begin > written) writer.add(word.begin + written, word.begin + match.begin, step.invert);
      writer.add(word.begin + match.begin, word.begin + match.end, !step.invert);
      written = match.end;
      from = match.end > match.begin ? match.end : next_character(text, match.end);
    }
    if (written < text.size()) writer.add(word.begin + written, word.end, step.invert);
  }

  bool find(const SplitStep& step, std::string_view text, std::size_t from, Regex::Match& match) {
    if (const auto* regex = std::get_if<Regex>(&step.pattern)) {
      return regex->find(text, from, memory_, match) == Regex::Outcome::kFound;
    }
    const std::string& literal = std::get<std::string>(step.pattern);
    match.begin = text.find(literal, from);
    match.end = match.begin + literal.size();
    return match.begin != std::string_view::npos;
  }

  static std::size_t next_character(std::string_view text, std::size_t at) {
    do ++at;
    while (at < text.size() && (static_cast<std::uint8_t>(text[at]) & 0xC0U) == 0x80U);
    return at;
  }

  Words& words_;
  RegexMemory& memory_;
};

}  // namespace

void PreTokenizer::apply(Words& words, RegexMemory& memory) const {
  words.words.clear();
  if (!words.text.empty()) words.words.push_back({0, words.text.size()});
  for (const PreTokenizerStep& step : steps_) std::visit(PreTokenizerApplier(words, memory), step);
}

}  // namespace kvist::tokenizer
