#include "kvist/base/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace kvist::yaml_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

YamlNode parsed(const std::string& text) {
  auto node = YamlNode::parse(text, "test.yaml");
  EXPECT_TRUE(node.has_value()) << (node ? "" : node.error().message);
  return *node;
}

std::string parse_error(const std::string& text) {
  const auto node = YamlNode::parse(text, "test.yaml");
  return node ? "no error" : node.error().message;
}

template <class T>
std::string message(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

TEST(YamlTest, ReadsValuesOfEveryType) {
  const YamlNode root = parsed(
      "text: hello world\n"
      "quoted: \"5\"\n"
      "number: 42\n"
      "negative: -7\n"
      "fraction: 2.5\n"
      "flag: true\n"
      "wait: 1.5 s\n"
      "memory: 24 GiB\n"
      "list: [1, 2, 3]\n"
      "map: {a: 1}\n"
      "empty:\n");
  EXPECT_EQ(root.get("text")->as_string().value(), "hello world");
  EXPECT_EQ(root.get("quoted")->as_string().value(), "5");
  EXPECT_EQ(root.get("number")->as_int(0, 100).value(), 42);
  EXPECT_EQ(root.get("negative")->as_int(-10, 0).value(), -7);
  EXPECT_EQ(root.get("fraction")->as_double(0, 10).value(), 2.5);
  EXPECT_TRUE(root.get("flag")->as_bool().value());
  EXPECT_EQ(root.get("wait")->as_duration().value(), std::chrono::milliseconds(1500));
  EXPECT_EQ(root.get("memory")->as_bytes().value(), 24ULL << 30);
  ASSERT_TRUE(root.get("list")->is_sequence());
  EXPECT_EQ(root.get("list")->elements().value().at(2).as_int(0, 9).value(), 3);
  EXPECT_TRUE(root.get("map")->is_map());
  EXPECT_TRUE(root.get("empty")->is_null());
  EXPECT_FALSE(root.get("absent").has_value());
  EXPECT_TRUE(root.finish().has_value());
}

TEST(YamlTest, UnknownKeyNamesItsLineAndTheRightKeys) {
  const YamlNode root = parsed("block_size: 32\n\nblock_sice: 16\n");
  (void)root.get("block_size");
  (void)root.get("kv_blocks");
  EXPECT_THAT(
      message(root.finish()),
      "test.yaml:3: block_sice: unknown key; did you mean block_size? The keys known here are: block_size, kv_blocks");
  const YamlNode other = parsed("colour: red\n");
  (void)other.get("block_size");
  EXPECT_EQ(message(other.finish()), "test.yaml:1: colour: unknown key; the keys known here are: block_size");
}

TEST(YamlTest, ATabIsNamedWhereYamlWantsSpaces) {
  EXPECT_EQ(message(YamlNode::parse("gateway:\n\tmodel: x\n", "test.yaml")),
            "test.yaml:2: illegal map value; the line begins with a tab, where YAML wants spaces");
  EXPECT_EQ(message(YamlNode::parse("gateway: {model: x", "test.yaml")), "test.yaml:1: end of map flow not found");
}

TEST(YamlTest, AMappingKnowsOnlyItsOwnKeys) {
  const YamlNode root = parsed("outer:\n  inner: 1\n  other: 2\n");
  const YamlNode outer = *root.get("outer");
  (void)root.get("other");
  (void)outer.get("inner");
  EXPECT_TRUE(root.finish().has_value());
  EXPECT_THAT(message(outer.finish()), StartsWith("test.yaml:3: outer.other: unknown key"));
}

TEST(YamlTest, ErrorsNameLineAndPath) {
  const YamlNode root = parsed("workers:\n  - name: a\n  - name: b\n    slots: many\n");
  const auto workers = root.get("workers")->elements().value();
  EXPECT_EQ(message(workers[1].get("slots")->as_int(1, 9)),
            "test.yaml:4: workers[1].slots: expected a whole number, got \"many\"");
  EXPECT_EQ(workers[1].where(), "test.yaml:3");
  EXPECT_EQ(message(workers[0].require("url")), "test.yaml:2: workers[0]: key \"url\" is missing among: name");
}

TEST(YamlTest, NumbersAreCheckedAgainstTheirRange) {
  const YamlNode root = parsed("n: 10\nx: 1.5\nhuge: 99999999999999999999\nbad: 1x\nquoted: '7'\nnan: nan\n");
  EXPECT_EQ(message(root.get("n")->as_int(0, 9)), "test.yaml:1: n: 10 is out of range (0 to 9)");
  EXPECT_THAT(message(root.get("x")->as_double(0, 1)), HasSubstr("test.yaml:2: x: 1.5 is out of range (0 to 1)"));
  EXPECT_THAT(message(root.get("x")->as_int(0, 9)), HasSubstr("expected a whole number"));
  EXPECT_THAT(message(root.get("huge")->as_int(0, 9)), HasSubstr("out of range"));
  EXPECT_THAT(message(root.get("bad")->as_double(0, 9)), HasSubstr("test.yaml:4: bad: expected a number"));
  EXPECT_THAT(message(root.get("quoted")->as_int(0, 9)), HasSubstr("text in quotes"));
  EXPECT_THAT(message(root.get("nan")->as_double(0, 9)), HasSubstr("expected a number"));
}

TEST(YamlTest, DurationsNeedUnits) {
  const YamlNode root = parsed(
      "a: 21ms\nb: 94 us\nc: 0.04 us\nd: 2 min\ne: 1 h\nf: 20\ng: 20 parsecs\nh: -1 s\ni: 0.2 ns\nj: 200 h 3\nk: 9e9 "
      "h\nl: "
      "[1]\n");
  EXPECT_EQ(root.get("a")->as_duration().value(), std::chrono::milliseconds(21));
  EXPECT_EQ(root.get("b")->as_duration().value(), std::chrono::microseconds(94));
  EXPECT_DOUBLE_EQ(root.get("c")->as_nanoseconds().value(), 40.0);
  EXPECT_EQ(root.get("d")->as_duration().value(), std::chrono::minutes(2));
  EXPECT_EQ(root.get("e")->as_duration().value(), std::chrono::hours(1));
  EXPECT_THAT(message(root.get("f")->as_duration()), AllOf(StartsWith("test.yaml:6: f: "), HasSubstr("needs a unit")));
  EXPECT_THAT(message(root.get("g")->as_duration()),
              AllOf(StartsWith("test.yaml:7: g: "), HasSubstr("\"parsecs\""), HasSubstr("ns, us, ms, s, min, h")));
  EXPECT_THAT(message(root.get("h")->as_duration()), HasSubstr("must not be negative"));
  EXPECT_THAT(message(root.get("i")->as_duration()), HasSubstr("shorter than a nanosecond"));
  EXPECT_DOUBLE_EQ(root.get("i")->as_nanoseconds().value(), 0.2);
  EXPECT_THAT(message(root.get("j")->as_duration()), HasSubstr("unknown unit"));
  EXPECT_THAT(message(root.get("k")->as_duration()), HasSubstr("too large"));
  EXPECT_THAT(message(root.get("l")->as_duration()), AllOf(StartsWith("test.yaml:12: l: "), HasSubstr("got a list")));
}

TEST(YamlTest, SizesNeedUnits) {
  const YamlNode root = parsed("a: 16 MiB\nb: 1.5 kB\nc: 100\nd: 0.5 B\ne: 3 B\n");
  EXPECT_EQ(root.get("a")->as_bytes().value(), 16ULL << 20);
  EXPECT_EQ(root.get("b")->as_bytes().value(), 1500U);
  EXPECT_THAT(message(root.get("c")->as_bytes()), AllOf(StartsWith("test.yaml:3: c: "), HasSubstr("needs a unit")));
  EXPECT_THAT(message(root.get("d")->as_bytes()), HasSubstr("not a whole number of bytes"));
  EXPECT_EQ(root.get("e")->as_bytes().value(), 3U);
}

TEST(YamlTest, WrongKindsAreRefused) {
  const YamlNode root = parsed("list: [1]\nmap: {a: 1}\ntext: x\nflag: yes\n");
  EXPECT_THAT(message(root.get("list")->as_string()), HasSubstr("test.yaml:1: list: expected text, got a list"));
  EXPECT_THAT(message(root.get("map")->elements()), HasSubstr("expected a list, got a mapping"));
  EXPECT_THAT(message(root.get("text")->finish()), HasSubstr("test.yaml:3: text: expected a mapping"));
  EXPECT_THAT(message(root.get("text")->require("a")), HasSubstr("expected a mapping"));
  EXPECT_THAT(message(root.get("flag")->as_bool()), HasSubstr("expected true or false, got \"yes\""));
}

TEST(YamlTest, EntriesComeInOrderAndAreKnown) {
  const YamlNode root = parsed("zebra: 1\napple: 2\n");
  const auto entries = root.entries().value();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].first, "zebra");
  EXPECT_EQ(entries[1].second.as_int(0, 9).value(), 2);
  EXPECT_TRUE(root.finish().has_value());
}

TEST(YamlTest, UnsupportedSyntaxIsRefusedWithItsLine) {
  EXPECT_EQ(parse_error("a: 1\nb: 2\na: 3\n"), "test.yaml:3: key \"a\" occurs twice");
  EXPECT_THAT(parse_error("a: &x 1\nb: *x\n"), StartsWith("test.yaml:1: anchors and aliases"));
  EXPECT_THAT(parse_error("a: 1\nb: !!str 2\n"), StartsWith("test.yaml:2: tags are not supported"));
  EXPECT_THAT(parse_error("a: 1\n---\nb: 2\n"), StartsWith("test.yaml:2: a second document"));
  EXPECT_THAT(parse_error("a: 1\n? [x]\n: 2\n"), StartsWith("test.yaml:2: a key must be plain text"));
  EXPECT_THAT(parse_error("a: 1\n~: 2\n"), StartsWith("test.yaml:2: a key must be plain text"));
  EXPECT_THAT(parse_error("a: 1\nb: [1, 2\nc: 3\n"), StartsWith("test.yaml:"));
  EXPECT_THAT(parse_error("a: 1\nb: \xff\n"), StartsWith("test.yaml:2: not valid UTF-8"));
}

TEST(YamlTest, ControlCharactersDoNotHideTheRestOfAFile) {
  EXPECT_THAT(parse_error("a: 1\n\x04\nunknown: 2\n"), StartsWith("test.yaml:2: control character 0x04"));
}

TEST(YamlTest, DepthSizeAndCountAreBounded) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(parse_error(nested(64)), "no error");
  EXPECT_THAT(parse_error(nested(65)), HasSubstr("nested deeper than 64"));
  EXPECT_NE(parse_error(std::string(500'000, '[')), "no error");
  EXPECT_THAT(parse_error(std::string((1U << 20) + 1, '#')), HasSubstr("at most 1048576"));
  std::string many = "list:\n";
  for (int i = 0; i < 100'001; ++i) many += "- 1\n";
  EXPECT_THAT(parse_error(many), HasSubstr("more than 100000 values"));
}

TEST(YamlTest, AnEmptyDocumentIsAMappingWithoutKeys) {
  for (const char* text : {"", "# nothing\n", "---\n"}) {
    const YamlNode root = parsed(text);
    EXPECT_FALSE(root.get("a").has_value());
    EXPECT_TRUE(root.finish().has_value());
    EXPECT_THAT(message(root.require("a")), HasSubstr(": key \"a\" is missing"));
  }
}

TEST(YamlTest, LoadsFilesAndNamesAMissingOne) {
  const auto path = std::filesystem::path(testing::TempDir()) / "kvist_yaml_test.yaml";
  std::ofstream(path) << "a: 1\nb: x\n";
  const auto root = YamlNode::load(path.string());
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(root->get("b")->where(), path.string() + ":2");
  std::filesystem::remove(path);
  const auto missing = YamlNode::load(path.string());
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, StartsWith(path.string()));
  EXPECT_FALSE(YamlNode::load(testing::TempDir()).has_value()) << "a folder is not a file";
}

}  // namespace
}  // namespace kvist::yaml_test
