#include "kvist/cli/load_arguments_json.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "kvist/net/sha256.h"

namespace kvist::cli::load_arguments_json_test {
namespace {

using ::testing::HasSubstr;

class ToldLoadTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    const auto path = std::filesystem::path(::testing::TempDir()) / ("told-" + name);
    std::ofstream(path) << content;
    return path.string();
  }
  static Result<LoadgenArguments> read(const std::string& json) {
    return parse_told_load(json, [](const std::string& digest) -> Result<std::string> {
      if (!net::sha256_from_hex(digest)) return fail(ErrorCode::kInvalidArgument, "no digest: " + digest);
      return "/sent/" + digest;
    });
  }
};

TEST_F(ToldLoadTest, WhatIsSentComesBackAndFilesAreTheirDigests) {
  LoadgenArguments a;
  a.target = "http://server:8000";
  a.model = "m";
  a.rate = 12.5;
  a.arrivals = "gamma";
  a.variation = 2;
  a.seed = ~std::uint64_t{0};
  a.requests = 500;
  a.max_in_flight = 70;
  a.headers = {"X-Team: blue", "X-Other: \"red\""};
  a.ignore_eos = true;
  a.turns = "3-5";
  a.think_time = "1s-2s";
  a.follow_ups = write("follow", "go on\n");
  a.mix = {"3:" + write("chat.yaml", "workload: {}\n"), "1.5:" + write("again.yaml", "workload: {}\n")};
  a.api_key_file = "/secret";
  a.output = "/somewhere";
  a.duration = "20s";
  const auto told = told_load(a);
  ASSERT_TRUE(told.has_value()) << told.error().message;
  EXPECT_THAT(told->order, testing::Not(HasSubstr("secret")));
  ASSERT_EQ(told->files.size(), 2U);  // two of one content are one
  EXPECT_EQ(told->files[0].sha256, net::to_hex(net::sha256("go on\n")));
  EXPECT_EQ(told->files[0].bytes, 6U);
  const auto back = read(told->order);
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(back->target, a.target);
  EXPECT_EQ(back->rate, a.rate);
  EXPECT_EQ(back->seed, a.seed);
  EXPECT_EQ(back->requests, a.requests);
  EXPECT_EQ(back->max_in_flight, a.max_in_flight);
  EXPECT_EQ(back->headers, a.headers);
  EXPECT_TRUE(back->ignore_eos);
  EXPECT_EQ(back->turns, a.turns);
  EXPECT_EQ(back->follow_ups, "/sent/" + told->files[0].sha256);
  EXPECT_EQ(back->mix[1], "1.5:/sent/" + told->files[1].sha256);
  EXPECT_FALSE(back->concurrency.has_value());
  EXPECT_TRUE(back->api_key_file.empty());
  EXPECT_TRUE(back->output.empty());
  EXPECT_TRUE(back->duration.empty());
}

TEST_F(ToldLoadTest, AFolderOfAModelIsItsTokenizer) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "told-model";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "tokenizer.json") << "{}";
  LoadgenArguments a;
  a.tokenizer = folder.string();
  const auto told = told_load(a);
  ASSERT_TRUE(told.has_value()) << told.error().message;
  ASSERT_EQ(told->files.size(), 1U);
  EXPECT_EQ(told->files[0].path, (folder / "tokenizer.json").string());
  a.tokenizer = (folder / "missing").string();
  EXPECT_THAT(told_load(a).error().message, HasSubstr("missing"));
}

TEST_F(ToldLoadTest, APathOrAnUnknownOptionIsRefused) {
  EXPECT_THAT(read(R"({"follow_ups":"/etc/passwd"})").error().message, HasSubstr("no digest: /etc/passwd"));
  EXPECT_THAT(read(R"({"mix":["3:/etc/passwd"]})").error().message, HasSubstr("no digest"));
  EXPECT_THAT(read(R"({"mix":["chat"]})").error().message, HasSubstr("mix"));
  EXPECT_THAT(read(R"({"output":"/tmp"})").error().message, HasSubstr("output"));
  EXPECT_THAT(read(R"({"api_key_file":"/etc/passwd"})").error().message, HasSubstr("api_key_file"));
  EXPECT_THAT(read(R"({"rate":"much"})").error().message, HasSubstr("rate"));
  EXPECT_THAT(read(R"({"concurrency":-1})").error().message, HasSubstr("concurrency"));
  EXPECT_THAT(read(R"({"turns":")" + std::string(20'000, '1') + "\"}").error().message, HasSubstr("too long"));
  EXPECT_FALSE(read("[]").has_value());
  EXPECT_TRUE(read("{}").has_value());
}

}  // namespace
}  // namespace kvist::cli::load_arguments_json_test
