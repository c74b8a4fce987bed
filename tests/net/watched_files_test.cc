// Files that change while a loop runs.
#include "kvist/net/watched_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "loop_thread.h"

namespace kvist::net::watched_files_test {
namespace {

class WatchedFilesTest : public testing::Test {
 protected:
  WatchedFilesTest() { std::ofstream(file_) << "before"; }
  ~WatchedFilesTest() override {
    thread_.run([this] { files_.reset(); });
    thread_.stop();
    std::remove(file_.c_str());
  }

  void watch(WorkPool::Work read) {
    thread_.run([&] {
      files_ = std::make_unique<WatchedFiles>(thread_.loop());
      files_->add({file_}, WatchedFiles::stamps_of({file_}), std::move(read));
      files_->start();
    });
  }

  const std::string file_ = testing::TempDir() + "watched-" + std::to_string(::getpid());
  LoopThread thread_;
  std::unique_ptr<WatchedFiles> files_;
};

TEST_F(WatchedFilesTest, AFileThatTakesItsTimeHoldsNobodyUp) {
  std::promise<std::thread::id> begun;
  std::promise<void> go;
  std::thread::id told;
  watch([&]() -> std::function<void()> {
    begun.set_value(std::this_thread::get_id());
    go.get_future().wait();
    return [&] { told = std::this_thread::get_id(); };
  });
  std::ofstream(file_) << "afterwards";
  const std::thread::id reader = begun.get_future().get();
  const std::thread::id loop = thread_.run([] { return std::this_thread::get_id(); });
  EXPECT_NE(reader, loop) << "the loop has run this while the file is being read";
  go.set_value();
  EXPECT_TRUE(thread_.wait([&] { return told == loop; }));
}

TEST_F(WatchedFilesTest, WhoAsksGetsWhatHasNotChanged) {
  std::atomic<int> reads = 0;
  watch([&]() -> std::function<void()> {
    ++reads;
    return [] {};
  });
  thread_.run([this] { files_->ask(); });
  EXPECT_TRUE(thread_.wait([&] { return reads == 1; }));
}

}  // namespace
}  // namespace kvist::net::watched_files_test
