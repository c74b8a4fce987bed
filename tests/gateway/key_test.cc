// API keys: buckets, limits, the file, look-up, and what requests get. No socket; time is passed in.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/gateway/key_gate.h"
#include "kvist/gateway/key_metrics.h"
#include "kvist/gateway/known_worker_settings.h"

namespace kvist::gateway::key_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr TimePoint kStart{};

TEST(TokenBucketTest, HoldsAMinutesWorthAndFillsEvenly) {
  TokenBucket bucket(60, kStart);
  bucket.take(60, kStart);
  EXPECT_EQ(bucket.wait_for(1, kStart), seconds(1));
  EXPECT_EQ(bucket.wait_for(1, kStart + milliseconds(250)), milliseconds(750));
  EXPECT_EQ(bucket.wait_for(1, kStart + seconds(1)), Duration(0));
  EXPECT_DOUBLE_EQ(bucket.level(), 1);
  EXPECT_EQ(bucket.wait_for(60, kStart + seconds(1)), seconds(59));
  (void)bucket.wait_for(1, kStart + std::chrono::hours(5));
  EXPECT_DOUBLE_EQ(bucket.level(), 60);
}

TEST(TokenBucketTest, ADebtIsPaidFirst) {
  TokenBucket bucket(60, kStart);
  bucket.take(180, kStart);
  EXPECT_EQ(bucket.wait_for(1, kStart), seconds(121));
  bucket.take(-60, kStart);
  EXPECT_EQ(bucket.wait_for(1, kStart), seconds(61));
  bucket.take(-1'000, kStart);
  EXPECT_DOUBLE_EQ(bucket.level(), 60);  // never more than it holds
}

TEST(TokenBucketTest, ATimeBeforeTheLastChangesNothing) {
  TokenBucket bucket(60, kStart + seconds(10));
  bucket.take(60, kStart + seconds(10));
  EXPECT_EQ(bucket.wait_for(1, kStart), seconds(1));
}

TEST(TokenBucketTest, NeverGivesMoreThanItsRate) {
  const std::uint64_t seed =
      std::getenv("KVIST_TEST_SEED") ? std::strtoull(std::getenv("KVIST_TEST_SEED"), nullptr, 10) : 20'261'123;
  std::printf("seed %llu (KVIST_TEST_SEED sets it)\n", static_cast<unsigned long long>(seed));
  RandomStream random(seed);
  for (int round = 0; round < 200; ++round) {
    const auto most = static_cast<double>(random.uniform_int(1, 1'000));
    TokenBucket bucket(most, kStart);
    TimePoint now = kStart;
    double taken = 0;
    double largest = 0;
    for (int i = 0; i < 300; ++i) {
      now += Duration(random.uniform_int(0, 2'000'000'000));
      if (bucket.wait_for(1, now) > Duration(0)) continue;
      const auto units = static_cast<double>(random.uniform_int(1, 50));
      bucket.take(units, now);
      taken += units;
      largest = std::max(largest, units);
      const double bound = most * (1 + to_seconds(now - kStart) / 60) + largest;
      ASSERT_LE(taken, bound * (1 + 1e-9));
    }
  }
}

TEST(KeyUsageTest, AdmitsWithinEveryLimit) {
  KeyUsage usage({.requests_per_minute = 3}, kStart);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(usage.admit(10, kStart));
  const auto refused = usage.admit(10, kStart);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->limit, KeyLimit::kRequests);
  EXPECT_EQ(refused->retry_after, seconds(20));
  EXPECT_FALSE(usage.admit(10, kStart + seconds(20)));
  EXPECT_EQ(usage.counters().requests, 4U);
  EXPECT_EQ(usage.counters().in_flight, 4U);
  EXPECT_EQ(usage.counters().refused[static_cast<std::size_t>(KeyLimit::kRequests)], 1U);
}

TEST(KeyUsageTest, APlaceIsFreeWhenARequestEnds) {
  KeyUsage usage({.concurrency = 2}, kStart);
  EXPECT_FALSE(usage.admit(1, kStart));
  EXPECT_FALSE(usage.admit(1, kStart));
  EXPECT_EQ(usage.admit(1, kStart)->limit, KeyLimit::kConcurrency);
  usage.finish(1, 5, kStart);
  EXPECT_FALSE(usage.admit(1, kStart));
}

TEST(KeyUsageTest, TokensAreChargedAsEstimatedAndThenAsTheyWere) {
  KeyUsage usage({.tokens_per_minute = 600}, kStart);
  EXPECT_FALSE(usage.admit(500, kStart));
  EXPECT_FALSE(usage.admit(500, kStart));  // something was left
  const auto refused = usage.admit(1, kStart);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->limit, KeyLimit::kTokens);
  EXPECT_EQ(refused->retry_after, milliseconds(40'100));  // 400 in debt, 10 a second
  usage.finish(500, 50, kStart);
  usage.finish(500, 100, kStart);
  EXPECT_FALSE(usage.admit(1, kStart));
  EXPECT_EQ(usage.counters().tokens, 150U);
}

TEST(KeyUsageTest, AWorkerThatReportsNonsenseCannotLockAKeyOutForEver) {
  KeyUsage usage({.tokens_per_minute = 1}, kStart);
  EXPECT_FALSE(usage.admit(~std::uint64_t{0}, kStart));
  usage.finish(~std::uint64_t{0}, ~std::uint64_t{0}, kStart);
  EXPECT_EQ(usage.admit(1, kStart)->retry_after, std::chrono::hours(24));
  EXPECT_EQ(usage.counters().tokens, 100'000'000U);
}

TEST(KeyUsageTest, NewLimitsApplyToWhatFollows) {
  KeyUsage usage({.requests_per_minute = 10}, kStart);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(usage.admit(0, kStart));
  usage.set_limits({.requests_per_minute = 2}, kStart);  // half is left
  EXPECT_FALSE(usage.admit(0, kStart));
  EXPECT_TRUE(usage.admit(0, kStart));
  usage.set_limits({}, kStart);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(usage.admit(0, kStart));
}

TEST(KeyAccountTest, IsExactFromManyThreads) {
  KeyAccount account("k", "", {.requests_per_minute = 1'000, .concurrency = 500}, kStart);
  std::atomic<int> admitted = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 400; ++i) {
        if (!account.admit(1, kStart)) ++admitted;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(admitted, 500);
  EXPECT_EQ(account.counters().in_flight, 500U);
}

KeyRecord record(const std::string& name, const std::string& key, KeyLimits limits = {}) {
  return {.name = name, .hash = net::sha256(key), .key_class = "", .limits = limits};
}

TEST(KeyFileTest, ALineIsReadBackToTheSame) {
  KeyRecord all = record("alice@example.org", "a", {60, 100'000, 4});
  all.key_class = "gold";
  all.standing = {.weight = 3, .priority = -2};
  const KeyRecord plain = record("b", "b");
  const auto read = parse_key_file("# keys\n\n  " + to_line(all) + "\r\n\t\n" + to_line(plain), "keys.txt");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, (std::vector{all, plain}));
  EXPECT_TRUE(parse_key_file("", "keys.txt")->empty());
}

TEST(KeyFileTest, ErrorsNameTheLineAndNeverAKey) {
  const std::string hash = net::to_hex(net::sha256("x"));
  const std::string other = net::to_hex(net::sha256("y"));
  const auto message = [](const std::string& text) {
    const auto read = parse_key_file(text, "keys.txt");
    return read ? std::string("no error") : read.error().message;
  };
  EXPECT_THAT(message("\nname=a\n"), StartsWith("keys.txt:2: the line has no sha256="));
  EXPECT_THAT(message("sha256=" + hash), HasSubstr("has no name="));
  EXPECT_THAT(message("name=a sha256=" + hash + "\nname=a sha256=" + other),
              StartsWith("keys.txt:2: the line has the name \"a\" of line 1"));
  EXPECT_THAT(message("name=a sha256=" + hash + "\nname=b sha256=" + hash),
              StartsWith("keys.txt:2: the line has the key of line 1"));
  EXPECT_THAT(message("name=a sha256=12"), HasSubstr("64 hexadecimal digits"));
  EXPECT_THAT(message("name=a sha256=" + hash + " concurrency=-1"), HasSubstr("concurrency has to be a whole number"));
  EXPECT_THAT(message("name=a sha256=" + hash + " tokens_per_minute=99999999999"), HasSubstr("from 1 to 4294967295"));
  for (const char* limit : {"requests_per_minute", "tokens_per_minute", "concurrency"})
    EXPECT_THAT(message(fmt::format("name=a sha256={} {}=0", hash, limit)), HasSubstr("without the word there is no"));
  EXPECT_THAT(message("name=a sha256=" + hash + " request_per_minute=5"), HasSubstr("a word \"request_per_minute\""));
  EXPECT_THAT(message("name=a sha256=" + hash + " weight=0"), HasSubstr("weight has to be a whole number from 1"));
  EXPECT_THAT(message("name=a sha256=" + hash + " priority=x"), HasSubstr("priority has to be a whole number from -1"));
  EXPECT_THAT(message("name=a name=b sha256=" + hash), HasSubstr("has name twice"));
  EXPECT_THAT(message("name=a;b sha256=" + hash), HasSubstr("name has to be letters"));
  EXPECT_THAT(message("name=a sha256=" + hash + std::string(1'000, ' ')), HasSubstr("longer than 1024 bytes"));
  // A key that somebody pasted in place of its hash.
  for (const char* line : {"sk-kvist-secret", "name=a sha256=sk-kvist-secret", "name=a key=sk-kvist-secret"})
    EXPECT_THAT(message(line), AllOf(StartsWith("keys.txt:1: "), Not(HasSubstr("secret")))) << line;
}

TEST(KeyFileTest, KeysAreRandomAndLong) {
  const std::string key = make_key();
  EXPECT_THAT(key, StartsWith("sk-kvist-"));
  EXPECT_EQ(key.size(), 9U + 43U);
  EXPECT_NE(make_key(), key);
}

TEST(KeyTableTest, FindsEachOfManyAndNothingElse) {
  std::vector<KeyRecord> records;
  for (int i = 0; i < 5'000; ++i) records.push_back(record("k" + std::to_string(i), "key-" + std::to_string(i)));
  const KeyTable table(records, nullptr, kStart);
  for (int i = 0; i < 5'000; ++i) EXPECT_EQ(table.find("key-" + std::to_string(i))->name(), "k" + std::to_string(i));
  for (int i = 5'000; i < 6'000; ++i) EXPECT_EQ(table.find("key-" + std::to_string(i)), nullptr);
  EXPECT_EQ(KeyTable({}, nullptr, kStart).find("x"), nullptr);
}

TEST(KeyTableTest, AccountsOutliveTheirReading) {
  const KeyTable first({record("a", "1", {.concurrency = 1}), record("b", "2")}, nullptr, kStart);
  EXPECT_FALSE(first.find("1")->admit(1, kStart));
  const KeyTable second({record("a", "1", {.concurrency = 2}), record("c", "2")}, &first, kStart);
  EXPECT_EQ(second.find("1"), first.find("1"));
  EXPECT_FALSE(second.find("1")->admit(1, kStart));
  EXPECT_TRUE(second.find("1")->admit(1, kStart));
  EXPECT_EQ(second.find("2")->name(), "c");
}

// Or whoever has used up a budget would get another one with every edit of the line.
TEST(KeyTableTest, AKeyKeepsWhatItHasUsedUnderAnotherNameAndClass) {
  const KeyTable first({record("a", "1", {.tokens_per_minute = 100, .concurrency = 1})}, nullptr, kStart);
  const auto before = first.find("1");
  EXPECT_FALSE(before->admit(10, kStart));
  KeyRecord renamed = record("b", "1", {.tokens_per_minute = 100, .concurrency = 1});
  renamed.key_class = "gold";
  renamed.standing.weight = 3;
  const KeyTable second({renamed}, &first, kStart);
  const auto after = second.find("1");
  EXPECT_EQ(after->name(), "b");
  EXPECT_EQ(after->key_class(), "gold");
  EXPECT_EQ(after->standing().weight, 3U);
  EXPECT_EQ(after->counters().in_flight, 1U);
  ASSERT_TRUE(after->admit(1, kStart));
  EXPECT_EQ(before->name(), "a") << "requests under way have the name under which they came";
  before->finish(10, 50'000, kStart);
  EXPECT_EQ(after->admit(1, kStart)->limit, KeyLimit::kTokens);
  EXPECT_EQ(after->counters().tokens, 50'000U);
}

class KeyGateTest : public testing::Test {
 protected:
  KeyGateTest() { write(to_line(record("alice", "secret-a", {.requests_per_minute = 1}))); }
  ~KeyGateTest() override { std::filesystem::remove(path_); }

  void write(const std::string& text) const { std::ofstream(path_) << text << "\n"; }
  static net::HttpRequest request(const std::string& field, const std::string& value) {
    net::HttpRequest made{.method = "POST", .target = "/v1/completions", .headers = {}, .body = "12345678"};
    if (!field.empty()) made.headers.add(field, value);
    return made;
  }
  static int status(const KeyGate::Verdict& verdict) { return verdict.refusal ? verdict.refusal->status : 200; }

  const std::string path_ = testing::TempDir() + "kvist_keys_" + std::to_string(::getpid());
};

TEST_F(KeyGateTest, AsksForAKeyInOpenAisWords) {
  KeyGate gate(KeyRing::open(path_, kStart).value());
  const auto none = gate.admit(request("", ""), kStart);
  ASSERT_EQ(status(none), 401);
  EXPECT_EQ(none.refusal->body,
            R"({"error":{"message":"You didn't provide an API key. It is expected as Authorization: Bearer KEY.",)"
            R"("type":"invalid_request_error","param":null,"code":"invalid_api_key"}})");
  EXPECT_EQ(none.refusal->headers.find("WWW-Authenticate"), "Bearer");
  EXPECT_THAT(std::string(none.refusal->headers.find("X-Request-Id").value_or("")), ::testing::StartsWith("req-"));
  for (const char* value : {"Bearer wrong", "Bearer", "Bearer ", "Basic secret-a", "secret-a", "Bearer secret-a x"}) {
    const auto wrong = gate.admit(request("Authorization", value), kStart);
    EXPECT_EQ(status(wrong), 401) << value;
    EXPECT_THAT(wrong.refusal->body, Not(HasSubstr("secret"))) << value;
  }
  EXPECT_EQ(gate.unauthenticated(), 7U);
  EXPECT_EQ(status(gate.admit(request("authorization", "bearer  secret-a"), kStart)), 200);
  EXPECT_EQ(status(gate.admit(request("x-api-key", "secret-a"), kStart + std::chrono::minutes(1))), 200);
}

TEST_F(KeyGateTest, SaysWhenToTryAgain) {
  KeyGate gate(KeyRing::open(path_, kStart).value());
  EXPECT_EQ(status(gate.admit(request("Authorization", "Bearer secret-a"), kStart)), 200);
  const auto over = gate.admit(request("Authorization", "Bearer secret-a"), kStart + milliseconds(500));
  ASSERT_EQ(status(over), 429);
  EXPECT_EQ(over.refusal->headers.find("Retry-After"), "60");
  EXPECT_THAT(over.refusal->body, AllOf(HasSubstr("key alice: requests_per_minute. Try again in 60 s."),
                                        HasSubstr(R"("code":"rate_limit_exceeded")")));
}

TEST_F(KeyGateTest, ALeaseEndsOnceWhereverItIsMoved) {
  write(to_line(record("alice", "secret-a", {.concurrency = 1})));
  KeyGate gate(KeyRing::open(path_, kStart).value());
  const auto ask = [&] { return gate.admit(request("Authorization", "Bearer secret-a"), kStart); };
  KeyLease held;
  {
    auto verdict = ask();
    held = std::move(verdict.lease);
  }
  EXPECT_EQ(status(ask()), 429);
  held.used(30);
  held = KeyLease();
  EXPECT_EQ(status(ask()), 200);
  EXPECT_EQ(gate.ring().find("secret-a")->counters().in_flight, 0U);
  EXPECT_EQ(gate.ring().find("secret-a")->counters().tokens, 30U + 2U);  // 8 bytes are 2 tokens
}

TEST_F(KeyGateTest, WhoLeavesEarlyIsChargedThePromptThatWasRead) {
  write(to_line(record("alice", "secret-a")));
  KeyGate gate(KeyRing::open(path_, kStart).value());
  const auto charged = [&](std::uint64_t prompt_tokens, std::uint64_t tokens) {
    const std::uint64_t before = gate.ring().find("secret-a")->counters().tokens;
    gate.admit(request("X-API-Key", "secret-a"), kStart).lease.answered(prompt_tokens, tokens);
    return gate.ring().find("secret-a")->counters().tokens - before;
  };
  EXPECT_EQ(charged(8, 3), 11U);
  EXPECT_EQ(charged(0, 3), 2U + 3U);  // 8 bytes are 2 tokens, where the prompt was not read
}

TEST_F(KeyGateTest, StrangersAreKnownByTheHead) {
  KeyGate gate(KeyRing::open(path_, kStart).value());
  EXPECT_FALSE(gate.refuse_stranger(request("Authorization", "Bearer secret-a"), kStart));
  EXPECT_FALSE(gate.refuse_stranger(request("X-API-Key", "secret-a"), kStart));
  for (const char* key : {"Bearer secret-b", "Bearer ", ""}) {
    const auto refusal = gate.refuse_stranger(request("Authorization", key), kStart);
    ASSERT_TRUE(refusal) << key;
    EXPECT_EQ(refusal->status, 401);
  }
  net::HttpRequest health = request("", "");
  health.target = "/health";
  EXPECT_TRUE(gate.refuse_stranger(health, kStart)) << "a probe sends no body";
  EXPECT_EQ(gate.unauthenticated(), 4U);
  EXPECT_EQ(gate.ring().find("secret-a")->counters().requests, 0U);  // its limits are asked about later
}

TEST_F(KeyGateTest, ABadFileKeepsTheKeys) {
  KeyGate gate(KeyRing::open(path_, kStart).value());
  KeyRing& ring = gate.ring();
  write("nonsense");
  const auto bad = ring.reload(kStart);
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr(path_ + ":1: "));
  EXPECT_TRUE(ring.find("secret-a"));
  std::filesystem::remove(path_);
  EXPECT_FALSE(ring.reload(kStart));
  EXPECT_TRUE(ring.find("secret-a"));
  write(to_line(record("bob", "secret-b")));
  ASSERT_TRUE(ring.reload(kStart));
  EXPECT_FALSE(ring.find("secret-a"));
  EXPECT_TRUE(ring.find("secret-b"));
  EXPECT_EQ(ring.loads(), 2U);
  EXPECT_EQ(ring.failed_loads(), 2U);
  EXPECT_FALSE(KeyRing::open("/nowhere/keys", kStart));
}

TEST_F(KeyGateTest, AFileWithoutAnyKeyKeepsTheKeys) {
  KeyGate gate(KeyRing::open(path_, kStart).value());
  KeyRing& ring = gate.ring();
  write("# about to be written");
  const auto empty = ring.reload(kStart);
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().message, AllOf(StartsWith(path_), HasSubstr("has no key any more")));
  EXPECT_TRUE(ring.find("secret-a"));
  EXPECT_EQ(ring.failed_loads(), 1U);
  const auto opened = KeyRing::open(path_, kStart);  // at the start that is what the operator wants
  ASSERT_TRUE(opened);
  EXPECT_TRUE((*opened)->reload(kStart));
}

TEST_F(KeyGateTest, MetricsHaveNamesAndNoKeys) {
  KeyGate gate(KeyRing::open(path_, kStart).value());
  const auto page = [&] { return telemetry::expose([&](telemetry::MetricsPage& to) { write_key_metrics(gate, to); }); };
  EXPECT_THAT(page(), Not(HasSubstr("alice")));  // not used yet
  for (int i = 0; i < 3; ++i) (void)gate.admit(request("Authorization", "Bearer secret-a"), kStart);
  EXPECT_THAT(page(), AllOf(HasSubstr("kvist_gateway_key_requests_total{key=\"alice\",class=\"\"} 1"),
                            HasSubstr("limit=\"requests_per_minute\"} 2"), HasSubstr("kvist_gateway_keys 1"),
                            Not(HasSubstr("secret"))));
}

TEST_F(KeyGateTest, WorkersHaveKeysOfTheirOwn) {
  const auto settings_of = [](const spec::ServedModelSpec& model) {
    KnownWorkerSettings known;
    return worker_settings(model, known);
  };
  spec::GatewaySpec gateway;
  gateway.workers.resize(2);
  gateway.workers[0].url = "http://a:1";
  gateway.workers[1].url = "http://b:1";
  ::unsetenv("KVIST_WORKER_API_KEY");
  EXPECT_TRUE(settings_of(gateway)->empty());
  write("of-b  \r\nmore");
  gateway.workers[1].api_key_file = path_;
  ASSERT_EQ(settings_of(gateway)->size(), 1U);
  EXPECT_EQ(settings_of(gateway)->at("http://b:1").bearer_key, "of-b");
  ::setenv("KVIST_WORKER_API_KEY", "shared", 1);
  EXPECT_EQ(settings_of(gateway)->at("http://a:1").bearer_key, "shared");
  EXPECT_EQ(settings_of(gateway)->at("http://b:1").bearer_key, "of-b");
  ::setenv("KVIST_WORKER_API_KEY", "a\r\nb", 1);
  EXPECT_FALSE(settings_of(gateway));
  ::unsetenv("KVIST_WORKER_API_KEY");
  for (const char* text : {"", "\n", "with space", "tab\t"}) {
    write(text);
    const auto read = settings_of(gateway);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().message, HasSubstr(path_));
  }
  gateway.workers[1].api_key_file.clear();
  gateway.worker_tls.ca = path_ + ".missing";  // of workers that may come, as no present one is https
  const auto later = settings_of(gateway);
  ASSERT_FALSE(later);
  EXPECT_THAT(later.error().message, HasSubstr(path_ + ".missing"));
}

}  // namespace
}  // namespace kvist::gateway::key_test
