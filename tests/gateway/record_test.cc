// The record of traffic: its lines, its files, and what a gateway writes of requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "kvist/gateway/record_file.h"
#include "kvist/gateway/record_line.h"
#include "kvist/gateway/record_writer.h"
#include "running_gateway.h"

namespace kvist::gateway::record_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvist-record-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string file(const std::string& name = "t.jsonl") const { return (path_ / name).string(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

Recording recording_of_test() {
  return {.id = 7,
          .key = KeyedHash(1, 2),
          .clock_start = TimePoint(milliseconds(1'000)),
          .started_unix_ms = 1'764'000'000'000,
          .model = "m",
          .block_size = 16,
          .workers = {"a", "b"}};
}

TEST(RecordLineTest, HasWhatAReplayNeedsAndNoMore) {
  const Recording recording = recording_of_test();
  EXPECT_EQ(
      head_line(recording, 3),
      R"({"kvist_record":1,"recording":7,"part":3,"started_unix_ms":1764000000000,"model":"m","tokens_per_hash":16,)"
      R"("workers":["a","b"]})"
      "\n");
  TrafficRecord record{.arrived = TimePoint(milliseconds(1'012) + microseconds(500)),
                       .first_token = TimePoint(milliseconds(1'112)),
                       .last_token = TimePoint(milliseconds(1'512)),
                       .ended = TimePoint(milliseconds(1'513)),
                       .prompt_tokens = 40,
                       .output_tokens = 5,
                       .cached_tokens = 32,
                       .session = 99,
                       .streams = true,
                       .worker = "b",
                       .mode = spec::RoutingMode::kKv,
                       .outcome = dispatch::Outcome::kCompleted};
  record.blocks = std::make_shared<const std::vector<kv::BlockHash>>(std::vector{kv::BlockHash(5), kv::BlockHash(6)});
  const KeyedHash& key = recording.key;
  EXPECT_EQ(record_line(recording, record),
            fmt::format(R"({{"timestamp":12.5,"input_length":40,"output_length":5,"hash_ids":[{},{}],"session_id":{},)"
                        R"("mode":"kv","outcome":"completed","worker":"b","stream":true,"ttft_ms":99.5,"tpot_ms":100,)"
                        R"("latency_ms":500.5,"cached_tokens":32}})"
                        "\n",
                        key.json_number(5), key.json_number(6), key.json_number(99)));
}

TEST(RecordLineTest, WhatDidNotHappenIsNotThere) {
  const TrafficRecord record{.arrived = TimePoint(milliseconds(1'000)), .ended = TimePoint(milliseconds(1'001))};
  EXPECT_EQ(record_line(recording_of_test(), record),
            R"({"timestamp":0,"input_length":0,"output_length":0,"hash_ids":[],"mode":"round_robin",)"
            R"("outcome":"no_worker","stream":false,"latency_ms":1})"
            "\n");
}

TEST(RecordLineTest, ARecordingBeginsAtTheInstantThatItIsGiven) {
  spec::GatewaySpec gateway;
  gateway.workers.resize(2);
  gateway.workers[0].name = "a";
  gateway.workers[1].name = "b";
  const Recording recording = new_recording(gateway, TimePoint(milliseconds(5)), 1'764'000'000.125);
  EXPECT_EQ(recording.clock_start, TimePoint(milliseconds(5)));
  EXPECT_EQ(recording.started_unix_ms, 1'764'000'000'125);
  EXPECT_EQ(recording.workers, (std::vector<std::string>{"a", "b"}));
  EXPECT_LT(recording.id, std::uint64_t{1} << 53);
}

std::string head_of_part(std::uint64_t part) {
  return fmt::format("head {}\n", part);
}

TEST(RecordFileTest, RotatesBySizeAndKeepsSoManyFiles) {
  const Folder folder;
  const std::string line(99, 'x');
  {
    auto file = RecordFile::open({.file = folder.file(), .max_file_bytes = 250, .files = 3}, head_of_part).value();
    for (int i = 0; i < 9; ++i) file.append(line + "\n");
    file.flush();
    EXPECT_EQ(file.counters().lines, 9U);
    EXPECT_EQ(file.counters().rotations, 4U);
    EXPECT_EQ(file.counters().lost_lines, 0U);
  }
  EXPECT_THAT(lines_of(folder.file()), ElementsAre("head 4", line));
  EXPECT_THAT(lines_of(folder.file() + ".1"), ElementsAre("head 3", line, line));
  EXPECT_THAT(lines_of(folder.file() + ".2"), ElementsAre("head 2", line, line));
  EXPECT_FALSE(std::filesystem::exists(folder.file() + ".3"));
}

TEST(RecordFileTest, AnEarlierRecordIsRotatedAway) {
  const Folder folder;
  (void)RecordFile::open({.file = folder.file(), .files = 2}, [](std::uint64_t) { return "old\n"; }).value();
  (void)RecordFile::open({.file = folder.file(), .files = 2}, [](std::uint64_t) { return "new\n"; }).value();
  EXPECT_THAT(lines_of(folder.file()), ElementsAre("new"));
  EXPECT_THAT(lines_of(folder.file() + ".1"), ElementsAre("old"));
}

TEST(RecordFileTest, WhatCannotBeWrittenIsCountedAndGoesOnLater) {
  const Folder folder;
  const std::filesystem::path gone = folder.path() / "gone";
  std::filesystem::create_directory(gone);
  const std::string path = (gone / "t.jsonl").string();
  auto file = RecordFile::open({.file = path, .max_file_bytes = 30, .files = 2}, head_of_part).value();
  file.append("first\n");
  file.flush();
  std::filesystem::remove_all(gone);
  file.append("too long for what is left of the file\n");
  file.append("lost\n");
  file.flush();
  EXPECT_GE(file.counters().failures, 1U);
  EXPECT_EQ(file.counters().lines, 1U);
  EXPECT_EQ(file.counters().lost_lines, 2U);
  EXPECT_THAT(file.last_error(), HasSubstr("cannot be made"));
  std::filesystem::create_directory(gone);
  file.append("later\n");
  file.flush();
  EXPECT_THAT(lines_of(path), ElementsAre("head 1", "later"));
  EXPECT_THAT(RecordFile::open({.file = folder.file("none/t.jsonl")}, head_of_part).error().message,
              AllOf(HasSubstr("none/t.jsonl"), HasSubstr("cannot be made")));
}

TEST(RecordWriterTest, DropsWhatItHasNoRoomForAndCountsIt) {
  const Folder folder;
  auto writer =
      RecordWriter::open({.record = {.file = folder.file()}, .recording = recording_of_test(), .max_waiting_blocks = 1})
          .value();
  TrafficRecord large;
  large.blocks = std::make_shared<const std::vector<kv::BlockHash>>(2, kv::BlockHash(1));
  writer->add(large);
  writer->add({});
  EXPECT_EQ(writer->counters().added, 2U);
  EXPECT_EQ(writer->counters().dropped, 1U);
  writer.reset();
  EXPECT_THAT(lines_of(folder.file()), SizeIs(2)) << "the head and one request";
}

/// The number under a key of a line of JSON; -1 where it is not there.
double number_of(const std::string& line, const std::string& key) {
  std::smatch match;
  return std::regex_search(line, match, std::regex("\"" + key + "\":([0-9.]+)")) ? std::stod(match[1]) : -1;
}
std::string list_of(const std::string& line) {
  return line.substr(line.find('['), line.find(']') - line.find('[') + 1);
}

class RecordingGatewayTest : public ::testing::Test {
 protected:
  /// The lines after the head, once the gateway has ended.
  std::vector<std::string> record(const std::function<void(const RunningGateway&)>& drive) {
    spec::GatewaySpec spec = gateway_spec({&a_});
    spec.record.file = folder_.file();
    {
      const RunningGateway gateway(std::move(spec));
      drive(gateway);
      EXPECT_TRUE(gateway.await_idle());
      EXPECT_EQ(gateway.metric("kvist_gateway_record_lost_total"), 0);
    }
    std::vector<std::string> lines = lines_of(folder_.file());
    EXPECT_THAT(lines.at(0), AllOf(StartsWith(R"({"kvist_record":1,"recording":)"), HasSubstr(R"("workers":["a"])")));
    lines.erase(lines.begin());
    return lines;
  }

  Folder folder_;
  FakeWorker a_{"a"};
};

TEST_F(RecordingGatewayTest, WritesLengthsBlocksAndTimesOfAStream) {
  const std::string text(100, 'q');
  net::Headers session;
  session.add("X-Session-ID", "somebody");
  const auto lines = record([&](const RunningGateway& gateway) {
    EXPECT_EQ(gateway.chat(chat_body(text), session).status, 200);
    EXPECT_EQ(gateway.chat(chat_body(text + "another end")).status, 200);
  });
  ASSERT_THAT(lines, SizeIs(2));
  for (const std::string& line : lines) {
    EXPECT_THAT(line, AllOf(HasSubstr(R"("outcome":"completed")"), HasSubstr(R"("worker":"a")"),
                            HasSubstr(R"("stream":true)"), HasSubstr(R"("cached_tokens":32)")));
    EXPECT_THAT(line, AllOf(Not(HasSubstr("qqq")), Not(HasSubstr("somebody"))));
    EXPECT_EQ(number_of(line, "output_length"), 2) << "by usage";
    EXPECT_GT(number_of(line, "ttft_ms"), 0);
    EXPECT_GE(number_of(line, "latency_ms"), number_of(line, "ttft_ms"));
  }
  // 7 tokens of the template before the text and 12 behind it.
  EXPECT_EQ(number_of(lines[0], "input_length"), 119);
  EXPECT_EQ(number_of(lines[1], "input_length"), 130);
  EXPECT_GE(number_of(lines[0], "session_id"), 0);
  EXPECT_EQ(number_of(lines[1], "session_id"), -1);
  // Of 7 and 8 whole blocks of 16 tokens the first six are of the equal text alone.
  const std::string first = list_of(lines[0]);
  EXPECT_EQ(std::ranges::count(first, ','), 6);
  EXPECT_EQ(std::ranges::count(list_of(lines[1]), ','), 7);
  const std::string common = first.substr(0, first.rfind(','));
  EXPECT_THAT(list_of(lines[1]), StartsWith(common));
  EXPECT_THAT(list_of(lines[1]), Not(StartsWith(first.substr(0, first.size() - 1))));
}

TEST_F(RecordingGatewayTest, TellsHowOthersEnded) {
  const std::string usage = R"({"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],)"
                            R"("usage":{"prompt_tokens":24,"completion_tokens":6}})";
  const auto lines = record([&](const RunningGateway& gateway) {
    a_.set_script(FakeWorker::answer_of(200, usage));
    EXPECT_EQ(gateway.chat(chat_body("whole", R"("stream":false)")).status, 200);
    a_.set_script(FakeWorker::answer_of(400, "{}"));
    EXPECT_EQ(gateway.chat(chat_body("refused")).status, 400);
    a_.set_script(FakeWorker::stream_of({kRoleEvent, text_event("a"), text_event("b")}));
    EXPECT_FALSE(net::fetch_blocking("POST", gateway.url() + "/v1/chat/completions", chat_body("breaks off"),
                                     std::chrono::seconds(100), {})
                     .has_value());
    a_.set_script(FakeWorker::answer_of(200, usage));
    EXPECT_EQ(gateway.chat("{not read").status, 200);
  });
  ASSERT_THAT(lines, SizeIs(3)) << "what the gateway cannot read is not recorded";
  EXPECT_THAT(lines[0], AllOf(HasSubstr(R"("outcome":"completed")"), HasSubstr(R"("stream":false)"),
                              HasSubstr(R"("output_length":6)"), Not(HasSubstr("ttft_ms"))));
  EXPECT_THAT(lines[1], AllOf(HasSubstr(R"("outcome":"refused")"), HasSubstr(R"("output_length":0)")));
  EXPECT_THAT(lines[2], AllOf(HasSubstr(R"("outcome":"broken_stream")"), HasSubstr(R"("output_length":2)")));
}

TEST_F(RecordingGatewayTest, AFileThatCannotBeMadeIsAnErrorAtTheStart) {
  net::EventLoop loop;
  spec::GatewaySpec spec = gateway_spec({&a_});
  spec.record.file = folder_.file("no/such/folder.jsonl");
  const auto service = Service::create(loop, std::move(spec));
  ASSERT_FALSE(service.has_value());
  EXPECT_THAT(service.error().message, HasSubstr("no/such/folder.jsonl"));
}

}  // namespace
}  // namespace kvist::gateway::record_test
