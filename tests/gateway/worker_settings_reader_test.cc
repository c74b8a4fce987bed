#include "kvist/gateway/worker_settings_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/certificates.h"
#include "net/loop_thread.h"

namespace kvist::gateway::worker_settings_reader_test {
namespace {

class WorkerSettingsReaderTest : public testing::Test {
 protected:
  WorkerSettingsReaderTest() {
    thread_.run([this] { reader_ = std::make_unique<WorkerSettingsReader>(thread_.loop()); });
  }
  ~WorkerSettingsReaderTest() override {
    thread_.run([this] { reader_.reset(); });
    thread_.stop();
    std::remove(key_file_.c_str());
  }

  Result<net::ServerSettings> read(const WorkerSettingsSource& source) {
    std::optional<Result<net::ServerSettings>> read;
    thread_.run([&] { reader_->read(source, [&](const Result<net::ServerSettings>& result) { read = result; }); });
    EXPECT_TRUE(thread_.wait([&] { return read.has_value(); }));
    return *read;
  }
  void write_key(const std::string& key) const { std::ofstream(key_file_) << key << "\n"; }

  const std::string key_file_ = testing::TempDir() + "worker-settings-" + std::to_string(::getpid());
  const net::Certificate authority_{{.is_authority = true}};
  net::LoopThread thread_;
  std::unique_ptr<WorkerSettingsReader> reader_;
};

TEST_F(WorkerSettingsReaderTest, WhatWorkersHaveInCommonIsReadOnce) {
  write_key("one");
  const WorkerSettingsSource source{.key_file = key_file_, .uses_tls = true, .tls = {.ca = authority_.certificate()}};
  const auto first = read(source);
  const auto second = read(source);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->bearer_key, "one");
  ASSERT_TRUE(first->tls);
  EXPECT_EQ(first->tls, second->tls);
  WorkerSettingsSource other = source;
  other.tls.server_name = "gpu.example";
  const auto third = read(other);
  ASSERT_TRUE(third);
  EXPECT_NE(first->tls, third->tls);
}

TEST_F(WorkerSettingsReaderTest, FilesThatChangeAreReadAgain) {
  const WorkerSettingsSource source{.key_file = key_file_};
  const auto missing = read(source);
  ASSERT_FALSE(missing);
  EXPECT_TRUE(missing.error().message.contains(key_file_)) << missing.error().message;
  write_key("one");
  EXPECT_EQ(read(source)->bearer_key, "one");
  write_key("another");
  EXPECT_EQ(read(source)->bearer_key, "another");
  write_key("no key");
  EXPECT_FALSE(read(source));
}

TEST_F(WorkerSettingsReaderTest, WhatRestsAfterAChangeIsTold) {
  const WorkerSettingsSource source{.key_file = key_file_};
  const auto look = [&](bool ask = false) {
    std::optional<std::vector<KnownWorkerSettings::Change>> changes;
    thread_.run([&] { reader_->look({source}, ask, [&](const auto& found) { changes = found; }); });
    EXPECT_TRUE(thread_.wait([&] { return changes.has_value(); }));
    return *changes;
  };
  write_key("one");
  ASSERT_TRUE(read(source));
  EXPECT_TRUE(look().empty());
  write_key("next");
  EXPECT_TRUE(look().empty()) << "it may still be being written";
  ASSERT_EQ(look().size(), 1U);
  EXPECT_TRUE(look().empty());
  write_key("another-one");
  EXPECT_TRUE(look().empty());
  EXPECT_EQ(read(source)->bearer_key, "another-one") << "of a worker that comes";
  const auto changes = look();
  ASSERT_EQ(changes.size(), 1U) << "those that are there are told all the same";
  EXPECT_EQ(changes[0].source, source);
  EXPECT_EQ(changes[0].settings->bearer_key, "another-one");
  ASSERT_EQ(look(/*ask=*/true).size(), 1U);
  std::remove(key_file_.c_str());
  EXPECT_TRUE(look().empty());
  const auto gone = look();
  ASSERT_EQ(gone.size(), 1U);
  ASSERT_FALSE(gone[0].settings);
  EXPECT_TRUE(gone[0].settings.error().message.contains(key_file_)) << gone[0].settings.error().message;
}

TEST_F(WorkerSettingsReaderTest, WithoutFilesNothingIsWaitedFor) {
  bool done = false;
  thread_.run([&] {
    reader_->read({}, [&](const Result<net::ServerSettings>& settings) { done = settings.has_value(); });
    EXPECT_TRUE(done);
  });
}

TEST_F(WorkerSettingsReaderTest, NothingIsSaidAfterItsEnd) {
  write_key("one");
  bool done = false;
  thread_.run([&] {
    reader_->read({.key_file = key_file_}, [&](const Result<net::ServerSettings>&) { done = true; });
    reader_.reset();
  });
  EXPECT_FALSE(thread_.run([&] { return done; }));
}

}  // namespace
}  // namespace kvist::gateway::worker_settings_reader_test
