#include "kvist/gateway/key_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>
#include <utility>

#include "kvist/base/input_file.h"

namespace kvist::gateway {
namespace {

constexpr std::size_t kMostLineBytes = 1'024;
constexpr std::size_t kMostKeys = 1'000'000;
constexpr std::uintmax_t kMostFileBytes = 256ULL << 20;
constexpr std::size_t kKeyBytes = 32;

bool is_name(std::string_view text) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@";
  constexpr std::size_t kMostLength = 64;
  return !text.empty() && text.size() <= kMostLength && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

template <class T>
bool read_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() &&
         std::cmp_less_equal(value, std::numeric_limits<std::uint32_t>::max());
}

/// Whether it may be quoted, as no key and no part of one looks like this.
bool is_word(std::string_view text) {
  constexpr std::size_t kMostLength = 24;
  return text.size() <= kMostLength && text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string_view::npos;
}

/// What is wrong with a word of the line; empty if nothing is. Errors quote no value but names: a key that was pasted
/// in the wrong place must not get into a log.
std::string read_word(std::string_view word, std::string_view value, KeyRecord& record) {
  // An operator who writes 0 may mean "nothing", and the bound's absence would give everything.
  constexpr std::string_view kNumber =
      "has to be a whole number from 1 to 4294967295; without the word there is no bound";
  if (word == "name" || word == "class") {
    if (const auto problem = key_name_problem(value); !problem.empty()) return fmt::format("{} {}", word, problem);
    (word == "name" ? record.name : record.key_class) = value;
    return {};
  }
  if (word == "sha256") {
    const auto hash = net::sha256_from_hex(value);
    if (!hash) return "sha256 has to be 64 hexadecimal digits (kvist key create prints the line)";
    record.hash = *hash;
    return {};
  }
  bool good = false;
  const auto read_bound = [&](auto& bound) { good = read_number(value, bound) && bound > 0; };
  if (word == "requests_per_minute") {
    read_bound(record.limits.requests_per_minute);
  } else if (word == "tokens_per_minute") {
    read_bound(record.limits.tokens_per_minute);
  } else if (word == "concurrency") {
    read_bound(record.limits.concurrency);
  } else if (word == "weight") {
    if (!read_number(value, record.standing.weight) || record.standing.weight == 0 || record.standing.weight > 1'000)
      return "weight has to be a whole number from 1 to 1000";
    return {};
  } else if (word == "priority") {
    const bool is_number = read_number(value, record.standing.priority);
    if (!is_number || record.standing.priority < -1'000 || record.standing.priority > 1'000)
      return "priority has to be a whole number from -1000 to 1000; the lower, the earlier";
    return {};
  } else {
    return fmt::format(
        "has a word{} that is none of name, sha256, class, requests_per_minute, tokens_per_minute, "
        "concurrency, weight, priority",
        is_word(word) ? fmt::format(" \"{}\"", word) : "");
  }
  return good ? std::string() : fmt::format("{} {}", word, kNumber);
}

/// What is wrong with the whole line; empty if nothing is.
std::string read_line(std::string_view line, KeyRecord& record) {
  if (line.size() > kMostLineBytes) return fmt::format("is longer than {} bytes", kMostLineBytes);
  std::vector<std::string_view> seen;
  while (!line.empty()) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) break;
    line.remove_prefix(begin);
    const std::string_view item = line.substr(0, line.find_first_of(" \t\r"));
    line.remove_prefix(item.size());
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) return "is not of the form word=value word=value";
    const std::string_view word = item.substr(0, equals);
    if (std::ranges::find(seen, word) != seen.end()) return fmt::format("has {} twice", word);
    if (auto wrong = read_word(word, item.substr(equals + 1), record); !wrong.empty()) return wrong;
    seen.push_back(word);
  }
  if (record.name.empty()) return "has no name=";
  if (std::ranges::find(seen, "sha256") == seen.end()) return "has no sha256= (kvist key create prints the line)";
  return {};
}

std::string_view bytes_of(const net::Sha256& hash) {
  return {reinterpret_cast<const char*>(hash.data()), hash.size()};
}

}  // namespace

std::string_view key_name_problem(std::string_view name) {
  return is_name(name) ? "" : "has to be letters, digits, '_', '-', '.' and '@', at most 64";
}

Result<std::vector<KeyRecord>> parse_key_file(std::string_view text, const std::string& file) {
  std::vector<KeyRecord> records;
  std::unordered_map<std::string, std::size_t> names;   // to their lines
  std::unordered_map<std::string, std::size_t> hashes;  // the same
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos || line[begin] == '#') continue;
    const auto wrong = [&](const std::string& what) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("{}:{}: the line {}", file, number, what));
    };
    KeyRecord record;
    if (const std::string what = read_line(line, record); !what.empty()) return wrong(what);
    if (const auto [other, is_new] = names.emplace(record.name, number); !is_new)
      return wrong(fmt::format("has the name \"{}\" of line {}", record.name, other->second));
    if (const auto [other, is_new] = hashes.emplace(bytes_of(record.hash), number); !is_new)
      return wrong(fmt::format("has the key of line {}", other->second));
    if (records.size() == kMostKeys) return wrong(fmt::format("is one key more than {}", kMostKeys));
    records.push_back(std::move(record));
  }
  return records;
}

Result<std::vector<KeyRecord>> load_key_file(const std::string& file) {
  KVIST_TRY(const std::string text, read_file(file, kMostFileBytes));
  return parse_key_file(text, file);
}

std::string to_line(const KeyRecord& record) {
  std::string line = fmt::format("name={} sha256={}", record.name, net::to_hex(record.hash));
  if (!record.key_class.empty()) line += " class=" + record.key_class;
  const KeyLimits& limits = record.limits;
  if (limits.requests_per_minute > 0) line += fmt::format(" requests_per_minute={}", limits.requests_per_minute);
  if (limits.tokens_per_minute > 0) line += fmt::format(" tokens_per_minute={}", limits.tokens_per_minute);
  if (record.standing.weight != 1) line += fmt::format(" weight={}", record.standing.weight);
  if (record.standing.priority != 0) line += fmt::format(" priority={}", record.standing.priority);
  if (limits.concurrency > 0) line += fmt::format(" concurrency={}", limits.concurrency);
  return line;
}

std::string make_key() {
  return "sk-kvist-" + net::random_text(kKeyBytes);
}

}  // namespace kvist::gateway
