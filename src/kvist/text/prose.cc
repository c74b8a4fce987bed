#include "kvist/text/prose.h"

#include <cctype>
#include <iterator>
#include <span>
#include <string_view>

#include "kvist/base/check.h"
#include "kvist/text/vocabulary.h"

namespace kvist::text {
namespace {

using vocabulary::Word;

constexpr std::int64_t kParagraphSentencesMin = 3;
constexpr std::int64_t kParagraphSentencesMax = 7;

/// Appends one sentence of a small grammar to a text. Each rule draws its alternatives from the stream, so the text is
/// a function of the stream.
class SentenceWriter {
 public:
  SentenceWriter(RandomStream& random, std::string& out) : random_(random), out_(out) {}

  void sentence() {
    const std::size_t begin = out_.size();
    if (chance(30)) {
      add(pick(vocabulary::kOpenings));
      out_.push_back(',');
    }
    clause();
    if (chance(55)) continuation();
    out_.push_back('.');
    // Only a sentence that begins with an article has to be capitalised.
    out_[begin] = static_cast<char>(std::toupper(static_cast<unsigned char>(out_[begin])));
  }

 private:
  [[nodiscard]] bool chance(std::int64_t percent) { return random_.uniform_int(1, 100) <= percent; }
  [[nodiscard]] Word pick(std::span<const Word> words) {
    return words[static_cast<std::size_t>(random_.uniform_int(0, std::ssize(words) - 1))];
  }

  // Words are separated by one space; paragraphs and sentences begin without one.
  void add(Word word) {
    if (!out_.empty() && out_.back() != ' ' && out_.back() != '\n') out_.push_back(' ');
    out_.append(word);
  }

  void clause() {
    subject();
    switch (random_.uniform_int(0, 5)) {
      case 0:
      case 1:
        add(pick(vocabulary::kIntransitive));
        if (chance(60)) place();
        if (chance(25)) add(pick(vocabulary::kAdverbs));
        break;
      case 2:
        add(pick(vocabulary::kSaid));
        add("that");
        subject();
        add(chance(50) ? "had" : "never");
        add(pick(vocabulary::kTransitive));
        noun_phrase(vocabulary::kThings);
        break;
      default:
        if (chance(15)) add(pick(vocabulary::kAdverbs));
        add(pick(vocabulary::kTransitive));
        noun_phrase(vocabulary::kThings);
        if (chance(45)) place();
        break;
    }
  }

  void continuation() {
    if (chance(40)) {
      out_.push_back(',');
      add("for");
      add(pick(vocabulary::kReasons));
      return;
    }
    if (chance(60)) out_.push_back(',');
    add(pick(vocabulary::kConjunctions));
    clause();
  }

  void subject() {
    if (chance(45)) {
      add(pick(vocabulary::kNames));
    } else {
      noun_phrase(vocabulary::kPeople);
    }
  }

  void place() {
    add(pick(vocabulary::kPrepositions));
    noun_phrase(vocabulary::kPlaces);
  }

  void noun_phrase(std::span<const Word> nouns) {
    const bool definite = chance(65);
    const Word adjective = chance(45) ? pick(vocabulary::kAdjectives) : Word();
    const Word noun = pick(nouns);
    const Word first = adjective.empty() ? noun : adjective;
    if (definite) {
      add("the");
    } else {
      add(Word("aeiou").contains(first.front()) ? "an" : "a");
    }
    if (!adjective.empty()) add(adjective);
    add(noun);
  }

  RandomStream& random_;
  std::string& out_;
};

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}

// Ends `text` with a full stop without changing its length, by replacing the last words with one that fits the gap.
void end_with_full_stop(std::string& text) {
  constexpr std::size_t kShortest = 3;
  text.back() = '.';
  for (std::size_t length = kShortest; length < kShortest + std::size(vocabulary::kLastWords); ++length) {
    if (text.size() < length + 3) break;
    const std::size_t space = text.size() - length - 2;
    if (text[space] != ' ' || !is_letter(text[space - 1])) continue;
    text.replace(space + 1, length, vocabulary::kLastWords[length - kShortest]);
    return;
  }
  // A very short text without a gap between words just gets a letter before the full stop.
  if (text.size() > 1 && !is_letter(text[text.size() - 2])) text[text.size() - 2] = 's';
}

}  // namespace

ProseStream::ProseStream(std::uint64_t seed) : random_(mix_seed({seed, seed_part("prose")})) {}

std::string ProseStream::take(std::size_t bytes) {
  while (buffer_.size() < bytes) add_sentence();
  std::string taken = buffer_.substr(0, bytes);
  buffer_.erase(0, bytes);
  return taken;
}

void ProseStream::add_sentence() {
  if (sentences_left_in_paragraph_ == 0) {
    sentences_left_in_paragraph_ =
        static_cast<std::size_t>(random_.uniform_int(kParagraphSentencesMin, kParagraphSentencesMax));
  }
  SentenceWriter(random_, buffer_).sentence();
  --sentences_left_in_paragraph_;
  buffer_.append(sentences_left_in_paragraph_ == 0 ? "\n\n" : " ");
}

std::string prose(std::uint64_t seed, std::size_t bytes) {
  if (bytes == 0) return {};
  std::string text = ProseStream(seed).take(bytes);
  end_with_full_stop(text);
  KVIST_CHECK(text.size() == bytes, "prose: wrong length");
  return text;
}

}  // namespace kvist::text
