#include "kvist/openai/json_scanner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "kvist/base/random.h"

namespace kvist::openai::json_scanner_test {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

// What the scanner has to find, a byte at a time.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  for (std::size_t i = begin + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return kNone;
}

std::size_t end_of_value(std::string_view text, std::size_t begin) {
  if (text.substr(begin).starts_with('"')) return end_of_string(text, begin);
  if (begin >= text.size() || (text[begin] != '{' && text[begin] != '[')) {
    const std::size_t end = text.find_first_of(" \t\r\n,]}", begin);
    return end == begin ? kNone : end;
  }
  int depth = 0;
  for (std::size_t i = begin; i < text.size();) {
    if (text[i] == '"') {
      i = end_of_string(text, i);
      if (i == kNone) return i;
      continue;
    }
    if (text[i] == '{' || text[i] == '[') ++depth;
    if (text[i] == '}' || text[i] == ']') --depth;
    ++i;
    if (depth == 0) return i;
  }
  return kNone;
}

TEST(JsonScanner, FindsTheEndsOfShortValues) {
  const auto end = [](std::string_view text) { return JsonScanner(text).skip_value(0); };
  EXPECT_EQ(end(R"("a\"b" ,)"), 6U);
  EXPECT_EQ(end(R"("" )"), 2U);
  EXPECT_EQ(end(R"("\\")"), 4U);
  EXPECT_EQ(end(R"("\")"), kNone);
  EXPECT_EQ(end(R"("\)"), kNone);
  EXPECT_EQ(end("\""), kNone);
  EXPECT_EQ(end(R"({"a":[1,{"]":"}"}]} )"), 19U);
  EXPECT_EQ(end("[[]"), kNone);
  EXPECT_EQ(end("1.5e0,"), 5U);
  EXPECT_EQ(end("true"), kNone);
  EXPECT_EQ(end(","), kNone);
  EXPECT_EQ(end(""), kNone);
  EXPECT_EQ(JsonScanner(" \t\r\n x").skip_space(0), 5U);
  EXPECT_EQ(JsonScanner("  ").skip_space(1), 2U);
  EXPECT_EQ(JsonScanner("").skip_space(7), 0U);
}

// Texts of few kinds of bytes, in runs of all lengths, so that quotes, escapes and brackets are on every side of what
// is looked at in one go.
TEST(JsonScanner, FindsTheSameAsAByteAtATime) {
  const std::uint64_t seed = 20'261'124;
  RecordProperty("seed", std::to_string(seed));
  RandomStream random(seed);
  constexpr std::string_view kBytes = "\\\\\"[]{}, x1\n\x80\xFB\xDB\xFD";
  for (int i = 0; i < 30'000; ++i) {
    std::string text(1, "\"[{x"[random.uniform_int(0, 3)]);
    const auto size = static_cast<std::size_t>(random.uniform_int(0, 400));
    const std::int64_t longest = random.uniform_int(0, 1) == 0 ? 3 : 150;
    while (text.size() < size) {
      const auto kind = static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(kBytes.size()) - 1));
      text.append(static_cast<std::size_t>(random.uniform_int(1, longest)), kBytes[kind]);
    }
    SCOPED_TRACE(fmt::format("seed {}, text {}: {}", seed, i, text));
    ASSERT_EQ(JsonScanner(text).skip_value(0), end_of_value(text, 0));
  }
}

// As large as bodies may be by default, with what is worst for a scanner that jumps.
TEST(JsonScanner, FindsTheEndsOfLargeValues) {
  constexpr std::size_t kSize = 15U << 20;
  const std::pair<std::string_view, std::string_view> kinds[] = {{"\"", R"(\")"}, {"\"", R"(\\)"}, {"\"", "text\\n"},
                                                                 {"[", "123,"},   {"[", "[],"},    {"[", R"("",)"}};
  for (const auto& [opening, piece] : kinds) {
    std::string text(opening);
    while (text.size() < kSize) text += piece;
    EXPECT_EQ(JsonScanner(text).skip_value(0), kNone) << piece;
    text += opening == "[" ? "0]" : "\"";
    EXPECT_EQ(JsonScanner(text + ", ").skip_value(0), text.size()) << piece;
  }
}

}  // namespace
}  // namespace kvist::openai::json_scanner_test
