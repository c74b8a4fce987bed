// What the options of `kvist loadgen` become, and which of them are refused.
#include "kvist/cli/loadgen_options.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <vector>

#include "kvist/cli/calibration_file.h"

namespace kvist::cli::loadgen_options_test {
namespace {

using ::testing::HasSubstr;

std::string command(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "kvist");
  return command_text(static_cast<int>(arguments.size()), arguments.data());
}

TEST(LoadgenCommandText, LeavesOutWhatMayBeSecret) {
  EXPECT_EQ(command({"loadgen", "--rate", "4", "--header", "X-Key: k1", "--model", "m"}),
            "kvist loadgen --rate 4 --header 'X-Key: ...' --model m");
  EXPECT_EQ(command({"loadgen", "--header=X-Key: k1", "-f", "a b"}), "kvist loadgen '--header=X-Key: ...' -f 'a b'");
  EXPECT_EQ(command({"loadgen", "--header", "X-Key: k1", "Authorization: k2", "k3"}),
            "kvist loadgen --header 'X-Key: ...' 'Authorization: ...' ...");
  EXPECT_EQ(command({"loadgen", "--header", "k1"}), "kvist loadgen --header ...");
  EXPECT_EQ(command({"loadgen", "--path", "/v1/x?key=k1", "--path=/v2?key=k2"}),
            "kvist loadgen --path '/v1/x?...' '--path=/v2?...'");
  EXPECT_EQ(command({"loadgen", "--path", "/v1/x"}), "kvist loadgen --path /v1/x");
}

/// A folder with a trace, a data set of chats, and workload files.
class LoadgenOptions : public ::testing::Test {
 protected:
  LoadgenOptions() {
    std::string path = testing::TempDir() + "/kvist_loadgen_XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
    write("trace.jsonl", R"({"timestamp": 0, "input_length": 40, "output_length": 4, "hash_ids": [1]})");
    write("chats.jsonl", R"({"messages": [{"role": "user", "content": "hello"}]})");
    write("timed.yaml", "workload: {trace: {file: trace.jsonl}}");
    write("closed.yaml", "workload: {trace: {file: trace.jsonl, loop: closed}}");
    write("gamma.yaml", "workload: {arrivals: bursty, arrival_variation: 3, max_conversations: 7}");
  }
  ~LoadgenOptions() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) { std::ofstream(file(name)) << text << "\n"; }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_ + "/" + name; }

  using Change = std::function<void(LoadgenArguments&)>;
  static Result<LoadOrder> read(const Change& change) {
    LoadgenArguments arguments;
    arguments.target = "http://127.0.0.1:1";
    arguments.model = "m";
    change(arguments);
    return read_load_order(arguments);
  }
  static std::string error_of(const Change& change) {
    const Result<LoadOrder> order = read(change);
    return order ? "no error" : order.error().message;
  }

  std::string folder_;
};

TEST_F(LoadgenOptions, ThatATraceIgnoresAreRefused) {
  const std::vector<std::pair<std::string, Change>> ignored = {
      {"--input-tokens", [](auto& a) { a.input_tokens = "9"; }},
      {"--output-tokens", [](auto& a) { a.output_tokens = "9"; }},
      {"--turns", [](auto& a) { a.turns = "2"; }},
      {"--follow-up-tokens", [](auto& a) { a.follow_up_tokens = "9"; }},
      {"--prefixes", [](auto& a) { a.prefixes = 0; }},
      {"--ignore-eos", [](auto& a) { a.ignore_eos = true; }},
      {"--characters-per-token", [](auto& a) { a.characters_per_token = 4; }},
      {"--rate", [](auto& a) { a.rate = 4; }},
      {"--max-start-rate", [](auto& a) { a.max_start_rate = 4; }}};
  for (const auto& [option, give] : ignored) {
    EXPECT_THAT(error_of([&](auto& a) { a.dataset = file("trace.jsonl"), give(a); }), HasSubstr(option + ": "));
    EXPECT_THAT(error_of([&](auto& a) { a.workload_file = file("timed.yaml"), give(a); }), HasSubstr(option + ": "));
  }
  EXPECT_THAT(error_of([&](auto& a) { a.workload_file = file("timed.yaml"), a.concurrency = 2; }),
              HasSubstr("--concurrency: the trace of -f goes out at its own instants"));
  EXPECT_THAT(error_of([&](auto& a) { a.dataset = file("trace.jsonl"), a.concurrency = 2, a.speed = 2; }),
              HasSubstr("--speed: is for a trace at its own instants"));
  EXPECT_THAT(error_of([&](auto& a) { a.workload_file = file("closed.yaml"), a.dataset = file("chats.jsonl"); }),
              HasSubstr("give one of both"));
  EXPECT_THAT(error_of([&](auto& a) { a.workload_file = file("gamma.yaml"), a.dataset = file("trace.jsonl"); }),
              HasSubstr("leave `arrivals` out"));
}

TEST_F(LoadgenOptions, ThatChatsOrDrawnConversationsIgnoreAreRefused) {
  const auto chats = [this](auto& a) { a.dataset = file("chats.jsonl"), a.concurrency = 1; };
  EXPECT_EQ(error_of(chats), "no error");
  EXPECT_THAT(error_of([&](auto& a) { chats(a), a.input_tokens = "9"; }),
              HasSubstr("--input-tokens: the data set has"));
  EXPECT_THAT(error_of([&](auto& a) { chats(a), a.turns = "9"; }), HasSubstr("--turns: the data set has"));
  EXPECT_THAT(error_of([&](auto& a) { chats(a), a.prefixes = 9; }), HasSubstr("--prefixes: the data set has"));
  EXPECT_THAT(error_of([&](auto& a) { chats(a), a.speed = 2; }), HasSubstr("--speed: is for a trace"));
  const auto drawn = [](auto& a) { a.concurrency = 1, a.input_tokens = "9"; };
  EXPECT_EQ(error_of(drawn), "no error");
  EXPECT_THAT(error_of([&](auto& a) { drawn(a), a.follow_up_tokens = "9"; }), HasSubstr("say --turns"));
  EXPECT_EQ(error_of([&](auto& a) { drawn(a), a.follow_up_tokens = "9", a.turns = "2"; }), "no error");
  EXPECT_THAT(error_of([](auto& a) { a.concurrency = 1, a.characters_per_token = 4; }),
              HasSubstr("--characters-per-token: is for"));
  EXPECT_THAT(error_of([](auto& a) { a.concurrency = 1, a.tls.ca = "ca.pem"; }), HasSubstr("--ca: is for a --target"));
  EXPECT_THAT(error_of([](auto& a) { a.concurrency = 1, a.tls.insecure = true; }), HasSubstr("--insecure: is for a"));
  EXPECT_THAT(
      error_of([](auto& a) { a.target = "https://h:1", a.concurrency = 1, a.tls.insecure = true, a.tls.ca = "c"; }),
      HasSubstr("any certificate is taken"));
  EXPECT_THAT(error_of([](auto& a) { a.concurrency = 1, a.api_key_file = "k", a.headers = {"authorization: x"}; }),
              HasSubstr("give one of both"));
}

TEST_F(LoadgenOptions, PromptsOfIdsAndPrefixGroups) {
  const auto drawn = [](auto& a) { a.concurrency = 1, a.input_tokens = "9", a.prompt_ids = "5-9"; };
  EXPECT_TRUE(read(drawn)->prompt_ids.has_value());
  EXPECT_EQ(read(drawn)->prompt_ids->of({{"user", "12345"}}).size(), 5U);
  const auto trace = read([this](auto& a) { a.dataset = file("trace.jsonl"), a.prompt_ids = "5-9"; });
  EXPECT_EQ(trace->prompt_ids->of({{"user", std::string(40 - 19, 'x')}}).size(), 40U);  // with a template's tokens
  EXPECT_THAT(error_of([&](auto& a) { drawn(a), a.prompt_ids = "9"; }), HasSubstr("--prompt-ids: \"9\"; want"));
  EXPECT_TRUE(read([&](auto& a) { drawn(a), a.path = "/v1/completions"; }));
  for (const char* const path : {"/v1/completions", "/base/v1/completions?key=1"}) {
    EXPECT_THAT(error_of([&](auto& a) { drawn(a), a.prompt_ids = "", a.path = path; }),
                HasSubstr("--path: /v1/completions takes prompts of token ids: say --prompt-ids"));
  }
  EXPECT_TRUE(read([&](auto& a) { drawn(a), a.prompt_ids = "", a.path = "/base/v1/chat/completions"; }));
  EXPECT_THAT(error_of([&](auto& a) { drawn(a), a.characters_per_token = 4; }), HasSubstr("--characters-per-token"));
  EXPECT_THAT(error_of([this](auto& a) { a.dataset = file("chats.jsonl"), a.concurrency = 1, a.prompt_ids = "5-9"; }),
              HasSubstr("--prompt-ids: is for drawn"));
  const auto grouped = [&](auto& a) { drawn(a), a.prefix_groups = 3, a.prefix_tokens = "100", a.prefix_skew = 1.5; };
  EXPECT_EQ(read(grouped)->workload.prefix_groups, 3U);
  EXPECT_EQ(read(grouped)->workload.prefix_tokens, 100U);
  EXPECT_EQ(read(grouped)->workload.prefix_skew, 1.5);
  EXPECT_THAT(error_of([&](auto& a) { grouped(a), a.prefix_tokens = "1-2"; }), HasSubstr("want one length"));
  EXPECT_THAT(error_of([&](auto& a) { grouped(a), a.prefix_groups = 0; }), HasSubstr("--prefix-groups"));
  EXPECT_THAT(error_of([&](auto& a) { grouped(a), a.prefix_skew = -1; }), HasSubstr("--prefix-skew"));
  EXPECT_THAT(error_of([this](auto& a) { a.dataset = file("trace.jsonl"), a.prefix_groups = 1; }),
              HasSubstr("--prefix-groups: a trace"));
}

TEST_F(LoadgenOptions, AMixHasWeightsAndFilesThatSayWhatIsSent) {
  write("short.yaml", "workload: {starters: 0, starter_tokens_min: 20, starter_tokens_max: 30, max_tokens: 9}");
  const auto mix = [this](auto& a) {
    a.concurrency = 1, a.mix = {"3:" + file("short.yaml"), "0.5:" + file("chats.jsonl")};
  };
  const auto order = read(mix);
  ASSERT_TRUE(order.has_value()) << order.error().message;
  ASSERT_EQ(order->input.mix->size(), 2U);
  EXPECT_EQ(order->input.mix->at(0).weight, 3);
  EXPECT_EQ(order->input.mix->at(0).spec.max_tokens, 9U);
  EXPECT_EQ(order->input.mix->at(1).scripts->size(), 1U);
  EXPECT_THAT(order->dataset, HasSubstr("mix of 3:"));
  for (const char* wrong : {"short.yaml", "0:short.yaml", "-1:short.yaml", "nan:short.yaml", "inf:short.yaml", "x:y"}) {
    EXPECT_THAT(error_of([&](auto& a) { a.concurrency = 1, a.mix = {wrong}; }), HasSubstr("like 3:chat.yaml")) << wrong;
  }
  EXPECT_THAT(error_of([&](auto& a) { mix(a), a.mix = {"1:" + file("trace.jsonl")}; }), HasSubstr("a load of its own"));
  EXPECT_THAT(error_of([&](auto& a) { mix(a), a.mix = {"1:" + file("gamma.yaml")}; }), HasSubstr("the whole load's"));
  EXPECT_THAT(error_of([&](auto& a) { mix(a), a.input_tokens = "9"; }),
              HasSubstr("--input-tokens: the files of --mix"));
  EXPECT_THAT(error_of([&](auto& a) { mix(a), a.dataset = file("chats.jsonl"); }),
              HasSubstr("--dataset: the files of"));
  EXPECT_THAT(error_of([&](auto& a) { mix(a), a.prompt_ids = "5-9"; }), HasSubstr("--prompt-ids: is for drawn"));
  EXPECT_THAT(error_of([&](auto& a) { mix(a), a.workload_file = file("timed.yaml"); }), HasSubstr("give one of both"));
  EXPECT_THAT(error_of([&](auto& a) { mix(a), a.concurrency.reset(); }), HasSubstr("--mix: needs --concurrency or"));
}

TEST_F(LoadgenOptions, AThinkTimeIsAPauseOrARange) {
  const auto chats = [this](auto& a) { a.dataset = file("chats.jsonl"), a.concurrency = 1, a.think_time = "1s-5s"; };
  EXPECT_EQ(read(chats)->input.think_time.least, std::chrono::seconds(1));
  EXPECT_EQ(read(chats)->input.think_time.most, std::chrono::seconds(5));
  EXPECT_EQ(parse_think_time("250ms")->most, std::chrono::milliseconds(250));
  for (const char* wrong : {"5s-1s", "0s", "-1s", "2"}) {
    EXPECT_THAT(parse_think_time(wrong).error().message, HasSubstr("--think-time")) << wrong;
  }
  EXPECT_THAT(error_of([this](auto& a) { a.dataset = file("trace.jsonl"), a.think_time = "1s"; }),
              HasSubstr("--think-time: a trace"));
  EXPECT_THAT(error_of([](auto& a) { a.concurrency = 1, a.input_tokens = "9", a.think_time = "1s"; }),
              HasSubstr("--think-time: conversations of one turn"));
}

TEST_F(LoadgenOptions, ChatsNeedALoadAndATimedTraceHasOne) {
  EXPECT_THAT(error_of([this](auto& a) { a.dataset = file("chats.jsonl"); }), HasSubstr("--concurrency or --rate"));
  EXPECT_FALSE(read([this](auto& a) { a.dataset = file("chats.jsonl"), a.port = 0; })->level.has_value());
  EXPECT_EQ(read([this](auto& a) { a.dataset = file("trace.jsonl"); })->level, 1U);
  EXPECT_EQ(read([this](auto& a) { a.workload_file = file("timed.yaml"), a.speed = 3; })->workload.trace.speed, 3);
  EXPECT_EQ(read([this](auto& a) { a.workload_file = file("timed.yaml"); })->level, 1U);
  EXPECT_FALSE(read([this](auto& a) { a.workload_file = file("closed.yaml"); })->level.has_value());
  EXPECT_THAT(error_of([this](auto& a) { a.workload_file = file("closed.yaml"), a.requests = 3; }),
              HasSubstr("no load to measure"));
}

TEST_F(LoadgenOptions, ARateKeepsTheLawOfAWorkloadFile) {
  const auto order = read([this](auto& a) { a.workload_file = file("gamma.yaml"), a.rate = 4; });
  ASSERT_TRUE(order.has_value()) << order.error().message;
  EXPECT_EQ(order->workload.arrivals.kind, spec::ArrivalKind::kBursty);
  EXPECT_EQ(order->workload.arrivals.variation, 3);
  EXPECT_EQ(order->workload.arrivals.max_conversations, 7U);
  EXPECT_EQ(order->workload.arrivals.rate_per_s, 4);
}

TEST_F(LoadgenOptions, NumbersAreFiniteAndWithinTheirBounds) {
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -1.0, 0.0}) {
    EXPECT_THAT(error_of([&](auto& a) { a.rate = value; }), HasSubstr("--rate: "));
    EXPECT_THAT(error_of([&](auto& a) { a.concurrency = 1, a.max_start_rate = value; }), HasSubstr("--max-start-rate"));
    EXPECT_THAT(error_of([&](auto& a) { a.rate = 1, a.arrivals = "gamma", a.variation = value; }),
                HasSubstr("--variation"));
    EXPECT_THAT(error_of([&](auto& a) { a.dataset = file("trace.jsonl"), a.speed = value; }), HasSubstr("--speed"));
    EXPECT_THAT(error_of([&](auto& a) { a.rate = 1, a.input_tokens = "9", a.characters_per_token = value; }),
                HasSubstr("--characters-per-token"));
    EXPECT_THAT(error_of([&](auto& a) { a.rate = 1, a.profile = fmt::format("0s:1,5s:{}", value); }),
                value == 0 ? HasSubstr("no error") : HasSubstr("share"));
  }
  EXPECT_THAT(error_of([](auto& a) { a.concurrency = 0; }), HasSubstr("--concurrency: 0; want 1 to"));
  EXPECT_THAT(error_of([](auto& a) { a.rate = 1, a.max_in_flight = 0; }), HasSubstr("--max-in-flight: 0"));
  EXPECT_THAT(error_of([](auto& a) { a.rate = 1, a.arrivals = "bursts", a.burst_size = 0; }),
              HasSubstr("--burst-size"));
  EXPECT_THAT(error_of([](auto& a) { a.concurrency = 1, a.duration = "-5s"; }), HasSubstr("--duration"));
  EXPECT_THAT(error_of([](auto& a) { a.concurrency = 1, a.warmup = "-5s"; }), HasSubstr("--warmup"));
  EXPECT_THAT(error_of([](auto& a) { a.concurrency = 1, a.progress = "-5s"; }), HasSubstr("--progress"));
}

TEST_F(LoadgenOptions, ThePlanKnowsAMixAndTheHighestRate) {
  write("short.yaml", "workload: {turns_min: 2, turns_max: 2, max_tokens: 10, ignore_eos: true}");
  write("long.yaml", "workload: {turns_min: 4, turns_max: 4, max_tokens: 100, ignore_eos: true}");
  write("open.yaml", "workload: {turns_min: 4, turns_max: 4, max_tokens: 100}");
  const auto plan = [&](const Change& change) { return planned_load(read(change).value()); };
  const auto mix = [this](auto& a) { a.rate = 8, a.mix = {"3:" + file("short.yaml"), "1:" + file("long.yaml")}; };
  EXPECT_DOUBLE_EQ(plan(mix).turns_per_s.value(), 8 * (3 * 2 + 4) / 4.0);
  EXPECT_DOUBLE_EQ(plan(mix).events_per_s.value(), 8 * (3 * 2 * 10 + 4 * 100) / 4.0);
  EXPECT_FALSE(plan([&](auto& a) { mix(a), a.mix.push_back("1:" + file("open.yaml")); }).events_per_s.has_value());
  const auto ramp = [](auto& a) { a.rate = 10, a.input_tokens = "9", a.profile = "0s:0.1,10s:2,20s:2,30s:5"; };
  EXPECT_DOUBLE_EQ(plan(ramp).turns_per_s.value(), 50);
  EXPECT_DOUBLE_EQ(plan([&](auto& a) { ramp(a), a.duration = "5s"; }).turns_per_s.value(), 10 * 1.05);
  EXPECT_DOUBLE_EQ(plan([&](auto& a) { ramp(a), a.duration = "15s"; }).turns_per_s.value(), 20);
  write("three.jsonl", R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},)"
                       R"( {"role": "user", "content": "c"}]})");
  EXPECT_DOUBLE_EQ(plan([&](auto& a) { a.rate = 4, a.dataset = file("three.jsonl"); }).turns_per_s.value(), 8);
}

TEST_F(LoadgenOptions, PlacesAreOfConversationsOrOfRequests) {
  const auto chats = [this](auto& a) { a.dataset = file("chats.jsonl"), a.concurrency = 1, a.think_time = "1s"; };
  EXPECT_FALSE(read(chats)->input.think_time.frees_place);
  EXPECT_FALSE(read([&](auto& a) { chats(a), a.concurrency_of = "conversations"; })->input.think_time.frees_place);
  EXPECT_TRUE(read([&](auto& a) { chats(a), a.concurrency_of = "requests"; })->input.think_time.frees_place);
  EXPECT_THAT(error_of([&](auto& a) { chats(a), a.concurrency_of = "users"; }),
              HasSubstr("there are conversations, requests"));
  EXPECT_THAT(error_of([&](auto& a) { chats(a), a.concurrency_of = "requests", a.think_time.clear(); }),
              HasSubstr("--concurrency-of: without --think-time"));
  EXPECT_THAT(error_of([this](auto& a) {
                a.workload_file = file("gamma.yaml"), a.concurrency = 4, a.think_time = "1s",
                a.concurrency_of = "requests";
              }),
              HasSubstr("--concurrency-of: is for a closed loop"));
}

TEST_F(LoadgenOptions, OfALoadOnAgentsWhatIsTheirsIsRefused) {
  const auto agents = [](auto& a) { a.agents = "h:1", a.rate = 1; };
  EXPECT_EQ(error_of(agents), "no error");
  EXPECT_THAT(error_of([&](auto& a) { agents(a), a.threads = 2; }), HasSubstr("--threads: is each agent's own"));
  EXPECT_THAT(error_of([&](auto& a) { agents(a), a.source_addresses = "127.0.0.2"; }), HasSubstr("--source-addresses"));
  EXPECT_THAT(error_of([&](auto& a) { agents(a), a.within_calibration = true; }), HasSubstr("--within-calibration"));
  EXPECT_EQ(error_of([&](auto& a) { agents(a), a.dashboard.slo = "ttft_p95=1s"; }), "no error");  // its page has it
  EXPECT_THAT(error_of([](auto& a) { a.agents = "h:1"; }), HasSubstr("--agents: needs a load"));
  EXPECT_THAT(error_of([this](auto& a) { a.agents = "h:1", a.dataset = file("trace.jsonl"); }),
              HasSubstr("--agents: a trace"));
  EXPECT_THAT(error_of([](auto& a) { a.rate = 1, a.agents_key_file = "k"; }), HasSubstr("--agents-key-file: is for"));
}

TEST_F(LoadgenOptions, WhatAFileSaysInVainIsRefused) {
  write("texts.yaml", "workload: {turns_min: 2, turns_max: 2}");
  write("rate.yaml", "workload: {target_rps: 3, seed: 5, request_timeout: 9 s}");
  write("answers.yaml", "workload: {max_tokens: 9, ignore_eos: true}");
  const auto mix = [this](auto& a) { a.concurrency = 1, a.mix = {"1:" + file("chats.jsonl")}; };
  const auto chats = [this](auto& a) { a.concurrency = 1, a.dataset = file("chats.jsonl"); };
  EXPECT_THAT(error_of([&](auto& a) { mix(a), a.workload_file = file("texts.yaml"); }),
              HasSubstr("-f: what is sent is said by the files of --mix"));
  EXPECT_THAT(error_of([&](auto& a) { mix(a), a.workload_file = file("answers.yaml"); }), HasSubstr("-f: "));
  EXPECT_THAT(error_of([&](auto& a) { chats(a), a.workload_file = file("texts.yaml"); }),
              HasSubstr("-f: what is sent is said by --dataset"));
  EXPECT_EQ(error_of([&](auto& a) { chats(a), a.workload_file = file("answers.yaml"); }), "no error");
  EXPECT_EQ(error_of([&](auto& a) { mix(a), a.workload_file = file("rate.yaml"); }), "no error");
  EXPECT_THAT(error_of([&](auto& a) { a.workload_file = file("gamma.yaml"), a.concurrency = 4, a.max_start_rate = 1; }),
              HasSubstr("--max-start-rate: is for a closed loop"));
  EXPECT_THAT(error_of([&](auto& a) { a.within_calibration = true; }), HasSubstr("--within-calibration: needs a load"));
  // A length beside a file changes that length alone.
  const auto both =
      read([&](auto& a) { a.workload_file = file("texts.yaml"), a.concurrency = 1, a.input_tokens = "50"; });
  EXPECT_EQ(both->workload.turns_min, 2U);
  EXPECT_EQ(both->workload.starters, 10U);
  EXPECT_EQ(both->workload.starter_tokens_max, 50U);
}

TEST_F(LoadgenOptions, LengthsFollowALaw) {
  const auto laws = read([](auto& a) {
    a.concurrency = 1, a.turns = "geometric:4:2-9", a.input_tokens = "lognormal:500/200";
    a.output_tokens = "list:64*3,512", a.follow_up_tokens = "normal:40/10:20-60";
  });
  ASSERT_TRUE(laws.has_value()) << laws.error().message;
  EXPECT_EQ(spec::text_of(laws->workload.turns()), "geometric:4:2-9");
  EXPECT_EQ(spec::text_of(laws->workload.starter_tokens()), "lognormal:500/200:1-2500");
  EXPECT_EQ(spec::text_of(laws->workload.answer_tokens()), "list:64*3,512*1");
  EXPECT_EQ(spec::text_of(laws->workload.follow_up_tokens()), "normal:40/10:20-60");
  EXPECT_THAT(error_of([](auto& a) { a.concurrency = 1, a.turns = "geometric:x"; }),
              HasSubstr("--turns: \"geometric:x"));
  const auto text =
      read([](auto& a) { a.concurrency = 1, a.input_tokens = "normal:100/10:50-200", a.characters_per_token = 4; });
  EXPECT_EQ(spec::text_of(text->workload.starter_tokens()), "normal:400/40:200-800");
}

TEST_F(LoadgenOptions, FollowUpsAreOfAListAndRepliesMayBeRecorded) {
  write("follow.txt", "Tell me more.\r\n\nWhy?");
  const auto listed = [this](auto& a) { a.concurrency = 1, a.turns = "3", a.follow_ups = file("follow.txt"); };
  ASSERT_TRUE(read(listed).has_value()) << error_of(listed);
  EXPECT_EQ(read(listed)->workload.follow_ups, (std::vector<std::string>{"Tell me more.", "Why?"}));
  EXPECT_THAT(error_of([&](auto& a) { listed(a), a.follow_up_tokens = "9"; }), HasSubstr("--follow-up-tokens"));
  EXPECT_THAT(error_of([&](auto& a) { listed(a), a.turns = "1"; }),
              HasSubstr("--follow-ups: conversations of one turn"));
  EXPECT_THAT(error_of([&](auto& a) { listed(a), a.dataset = file("chats.jsonl"), a.turns = ""; }),
              HasSubstr("--follow-ups: the data set"));
  write("empty.txt", "\n");
  EXPECT_THAT(error_of([&](auto& a) { listed(a), a.follow_ups = file("empty.txt"); }), HasSubstr("no line"));
  write("two.jsonl", R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "bb"},)"
                     R"( {"role": "user", "content": "c"}]})");
  const auto chats = [this](auto& a) { a.concurrency = 1, a.dataset = file("two.jsonl"); };
  EXPECT_EQ(read(chats)->input.scripts->at(0).turns[0].reply, "");
  const auto recorded = read([&](auto& a) { chats(a), a.replies = "recorded"; });
  EXPECT_EQ(recorded->input.scripts->at(0).turns[0].reply, "bb");
  EXPECT_EQ(recorded->workload.replies, spec::Replies::kRecorded);
  EXPECT_THAT(error_of([&](auto& a) { chats(a), a.replies = "none"; }), HasSubstr("--replies: \"none\""));
}

TEST_F(LoadgenOptions, LengthsInTheTokensOfATokenizer) {
  const std::string folder = std::string(KVIST_SOURCE_DIR) + "/tests/golden/vllm/llama3";
  const auto drawn = [&](auto& a) { a.concurrency = 1, a.input_tokens = "64", a.tokenizer = folder; };
  const auto order = read(drawn);
  ASSERT_TRUE(order.has_value()) << order.error().message;
  EXPECT_EQ(order->count_tokens(order->input.tokens->make(3, 64)), 64U);
  EXPECT_EQ(order->tokenizer_sha256.size(), 64U);
  EXPECT_EQ(read([&](auto& a) { drawn(a), a.tokenizer += "/tokenizer.json"; })->tokenizer_sha256,
            order->tokenizer_sha256);
  const auto encoded = read([&](auto& a) { drawn(a), a.prompt_ids = "encoded"; });
  EXPECT_EQ(encoded->prompt_ids->of({{"user", order->input.tokens->make(3, 64)}}).size(), 64U);
  EXPECT_THAT(error_of([&](auto& a) { drawn(a), a.prompt_ids = "5-9"; }), HasSubstr("--prompt-ids: with --tokenizer"));
  EXPECT_THAT(error_of([&](auto& a) { drawn(a), a.tokenizer = "", a.prompt_ids = "encoded"; }),
              HasSubstr("--prompt-ids: encoded needs --tokenizer"));
  EXPECT_THAT(error_of([&](auto& a) { drawn(a), a.characters_per_token = 4; }),
              HasSubstr("--characters-per-token: with --tokenizer"));
  EXPECT_THAT(error_of([&](auto& a) { drawn(a), a.tokenizer = file("nothing"); }), HasSubstr("--tokenizer"));
  EXPECT_THAT(error_of([&](auto& a) { a.dataset = file("trace.jsonl"), a.tokenizer = folder; }),
              HasSubstr("--tokenizer: a trace"));
  // A data set's replies limit the answers, by their tokens.
  write("long.jsonl", R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ")" +
                          order->input.tokens->make(1, 33) + R"("}]})");
  const auto chats = read([&](auto& a) { a.concurrency = 1, a.dataset = file("long.jsonl"), a.tokenizer = folder; });
  EXPECT_EQ(chats->input.scripts->at(0).turns[0].max_tokens, 33U);
}

}  // namespace
}  // namespace kvist::cli::loadgen_options_test
