// When changed files are to be read again.
#include "kvist/net/file_changes.h"

#include <gtest/gtest.h>

namespace kvist::net::file_changes_test {
namespace {

TEST(FileChangesTest, AChangeIsReadWhenItHasEnded) {
  const FileStamps old = {{.seconds = 1, .size = 100}};
  const FileStamps half = {{.seconds = 2, .size = 40}};
  const FileStamps whole = {{.seconds = 2, .size = 120}};
  FileChanges changes(old);
  EXPECT_FALSE(changes.look(old));
  EXPECT_FALSE(changes.look(half));
  EXPECT_FALSE(changes.look(whole));
  EXPECT_TRUE(changes.look(whole));
  EXPECT_FALSE(changes.look(whole));
}

TEST(FileChangesTest, AChangeSinceTheFirstReadingIsSeen) {
  FileChanges changes({{.seconds = 1, .size = 100}});
  EXPECT_FALSE(changes.look({{.seconds = 2, .size = 100}}));
  EXPECT_TRUE(changes.look({{.seconds = 2, .size = 100}}));
}

TEST(FileChangesTest, OnDemandFilesAreReadUnlessTheyChangeJustThen) {
  const FileStamps old = {{.seconds = 1, .size = 100}};
  const FileStamps next = {{.seconds = 2, .size = 100}};
  FileChanges changes(old);
  changes.ask();
  EXPECT_TRUE(changes.look(old));
  EXPECT_FALSE(changes.look(old));
  changes.ask();
  EXPECT_FALSE(changes.look(next));
  EXPECT_TRUE(changes.look(next));
  EXPECT_FALSE(changes.look(next));
}

}  // namespace
}  // namespace kvist::net::file_changes_test
