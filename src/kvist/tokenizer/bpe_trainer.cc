#include "kvist/tokenizer/bpe_trainer.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/base/flat_map.h"
#include "kvist/base/id.h"
#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"
#include "kvist/tokenizer/byte_alphabet.h"
#include "kvist/tokenizer/pre_tokenizer.h"
#include "kvist/tokenizer/utf8_repair.h"

namespace kvist::tokenizer {
namespace {

constexpr std::uint32_t kByteTokens = 256;
constexpr std::int64_t kLeastCount = 2;  // a pair that occurs once is not worth a token

// Llama 3's, with its regular expression.
constexpr std::string_view kPreTokenizer =
    R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)"
    R"("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|)"
    R"(\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},)"
    R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})";
constexpr std::string_view kByteLevel =
    R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})";

/// Two token ids in one key.
using Pair = Id<struct PairTag, std::uint64_t>;
Pair pair_of(std::uint32_t left, std::uint32_t right) {
  return Pair(std::uint64_t{left} << 32U | right);
}
std::uint32_t left_of(Pair pair) {
  return static_cast<std::uint32_t>(pair.value() >> 32U);
}
std::uint32_t right_of(Pair pair) {
  return static_cast<std::uint32_t>(pair.value());
}

struct CountedWord {
  std::vector<std::uint32_t> ids;
  std::int64_t count = 0;
};

/// The distinct words of a text, each as its bytes.
std::vector<CountedWord> words_of(std::string_view text) {
  JsonDocument document;
  const auto json = document.parse(kPreTokenizer);
  KVIST_CHECK(json.has_value(), "the pre-tokenizer of the trainer");
  const auto pre_tokenizer = PreTokenizer::read(*json);
  KVIST_CHECK(pre_tokenizer.has_value(), "the pre-tokenizer of the trainer");
  std::string repaired;
  append_repaired_utf8(text, repaired);
  RegexMemory memory;
  Words cut;
  cut.text = repaired;
  pre_tokenizer->apply(cut, memory);
  std::map<std::string_view, std::int64_t> counts;
  for (const Words::Word& word : cut.words) ++counts[cut.text.substr(word.begin, word.end - word.begin)];
  std::vector<CountedWord> words;
  for (const auto& [word, count] : counts) {
    CountedWord& added = words.emplace_back();
    added.count = count;
    for (const char byte : word) added.ids.push_back(static_cast<std::uint8_t>(byte));
  }
  return words;
}

class Trainer {
 public:
  explicit Trainer(std::string_view text) : words_(words_of(text)) {
    for (std::uint32_t byte = 0; byte < kByteTokens; ++byte) tokens_.emplace_back(1, static_cast<char>(byte));
    for (std::uint32_t i = 0; i < kByteTokens; ++i) ids_.emplace(tokens_[i], i);
    for (std::uint32_t i = 0; i < words_.size(); ++i) count(i, +1);
    push_changed();
  }

  /// Merges until there are `most` tokens or nothing is worth a merge.
  void run(std::size_t most) {
    while (tokens_.size() < most && !queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const PairUse& use = *pairs_.find(top.pair);
      if (use.count != top.count) {
        if (use.count >= kLeastCount) queue_.push({use.count, top.pair});
        continue;
      }
      merge(top.pair);
      push_changed();
    }
  }

  [[nodiscard]] const std::vector<std::string>& tokens() const { return tokens_; }
  [[nodiscard]] const std::vector<Pair>& merges() const { return merges_; }

 private:
  struct PairUse {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;  // words that have had the pair, possibly several times
  };
  struct Candidate {
    std::int64_t count = 0;
    Pair pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  // Adds or subtracts a word's contribution to the counts of its pairs.
  void count(std::uint32_t index, std::int64_t sign) {
    const CountedWord& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) {
      const Pair pair = pair_of(word.ids[i], word.ids[i + 1]);
      PairUse& use = pairs_[pair];
      use.count += sign * word.count;
      if (sign < 0) continue;
      if (use.words.empty() || use.words.back() != index) use.words.push_back(index);
      changed_.push_back(pair);
    }
  }

  void push_changed() {
    std::ranges::sort(changed_);
    const auto repeated = std::ranges::unique(changed_);
    changed_.erase(repeated.begin(), repeated.end());
    for (const Pair pair : changed_) {
      if (const PairUse& use = *pairs_.find(pair); use.count >= kLeastCount) queue_.push({use.count, pair});
    }
    changed_.clear();
  }

  void merge(Pair pair) {
    const std::uint32_t left = left_of(pair);
    const std::uint32_t right = right_of(pair);
    const std::string text = tokens_[left] + tokens_[right];
    const auto [known, is_new] = ids_.try_emplace(text, static_cast<std::uint32_t>(tokens_.size()));
    const std::uint32_t id = known->second;  // other merges may have made the same text
    if (is_new) tokens_.push_back(text);
    merges_.push_back(pair);
    std::vector<std::uint32_t> affected = pairs_.find(pair)->words;
    std::ranges::sort(affected);
    const auto repeated = std::ranges::unique(affected);
    affected.erase(repeated.begin(), repeated.end());
    for (const std::uint32_t index : affected) {
      count(index, -1);
      std::vector<std::uint32_t>& ids = words_[index].ids;
      std::size_t out = 0;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const bool merges = i + 1 < ids.size() && ids[i] == left && ids[i + 1] == right;
        ids[out++] = merges ? id : ids[i];
        if (merges) ++i;
      }
      ids.resize(out);
      count(index, +1);
    }
    pairs_.find(pair)->words = {};
  }

  std::vector<CountedWord> words_;
  std::vector<std::string> tokens_;  // by id
  std::map<std::string, std::uint32_t> ids_;
  std::vector<Pair> merges_;
  FlatMap<Pair, PairUse> pairs_;
  std::priority_queue<Candidate>
      queue_;  // its counts may be outdated; an entry whose count is too large is put back with the true one
  std::vector<Pair> changed_;  // pairs whose count may have grown
};

void write_added(JsonWriter& json, std::uint32_t id, std::string_view content) {
  json.begin_object().field("id", id).field("content", content).field("single_word", false).field("lstrip", false);
  json.field("rstrip", false).field("normalized", false).field("special", true).end_object();
}

void write_template(JsonWriter& json, std::uint32_t id, std::string_view token) {
  const auto special = [&](int type) {
    json.begin_object().key("SpecialToken").begin_object();
    json.field("id", token).field("type_id", type).end_object().end_object();
  };
  const auto sequence = [&](std::string_view name, int type) {
    json.begin_object().key("Sequence").begin_object();
    json.field("id", name).field("type_id", type).end_object().end_object();
  };
  json.begin_object().field("type", "TemplateProcessing").key("single").begin_array();
  special(0);
  sequence("A", 0);
  json.end_array().key("pair").begin_array();
  special(0);
  sequence("A", 0);
  special(1);
  sequence("B", 1);
  json.end_array().key("special_tokens").begin_object().key(token).begin_object().field("id", token);
  json.key("ids").begin_array().value(id).end_array();
  json.key("tokens").begin_array().value(token).end_array().end_object().end_object().end_object();
}

void write_model(JsonWriter& json, const Trainer& trainer) {
  json.begin_object().field("type", "BPE");
  for (const char* none : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) {
    json.key(none).null();
  }
  json.field("fuse_unk", false).field("byte_fallback", false).field("ignore_merges", false);
  json.key("vocab").begin_object();
  for (std::size_t id = 0; id < trainer.tokens().size(); ++id) json.field(token_of_bytes(trainer.tokens()[id]), id);
  json.end_object().key("merges").begin_array();
  for (const Pair pair : trainer.merges()) {
    json.begin_array().value(token_of_bytes(trainer.tokens()[left_of(pair)]));
    json.value(token_of_bytes(trainer.tokens()[right_of(pair)])).end_array();
  }
  json.end_array().end_object();
}

}  // namespace

Result<std::string> train_byte_level_bpe(std::string_view text, const BpeTrainerOptions& options) {
  const std::vector<std::string>& special = options.special_tokens;
  const std::set<std::string_view> distinct(special.begin(), special.end());
  if (distinct.size() != special.size() || distinct.contains("")) {
    return fail(ErrorCode::kInvalidArgument, "special tokens must have a text, each another");
  }
  if (!options.begin_of_text.empty() && !distinct.contains(options.begin_of_text)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("begin_of_text \"{}\" is none of the special tokens", options.begin_of_text));
  }
  if (options.vocabulary_size < kByteTokens + special.size()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a vocabulary of {} has no room for {} bytes and {} special tokens",
                            options.vocabulary_size, kByteTokens, special.size()));
  }
  Trainer trainer(text);
  const std::size_t learned = options.vocabulary_size - special.size();
  trainer.run(learned);
  if (trainer.tokens().size() < learned) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the text has pairs for {} tokens, not for {}", trainer.tokens().size(), learned));
  }

  JsonWriter json;
  json.begin_object().field("version", "1.0").key("truncation").null().key("padding").null();
  json.key("added_tokens").begin_array();
  auto id = static_cast<std::uint32_t>(learned);
  std::uint32_t begin_id = 0;
  for (const std::string& token : special) {
    if (token == options.begin_of_text) begin_id = id;
    write_added(json, id++, token);
  }
  json.end_array().key("normalizer").null().key("pre_tokenizer").raw(kPreTokenizer).key("post_processor");
  if (options.begin_of_text.empty()) {
    json.raw(kByteLevel);
  } else {
    write_template(json, begin_id, options.begin_of_text);
  }
  json.key("decoder").raw(kByteLevel).key("model");
  write_model(json, trainer);
  json.end_object();
  return json.take() + "\n";
}

}  // namespace kvist::tokenizer
