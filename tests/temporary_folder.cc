// Part of every test program: ::testing::TempDir() is a folder of this process alone, removed at its end, so that the
// same test of two processes (the gateway's with several numbers of threads, two checkouts) does not write to the files
// of the other.
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace kvist {
namespace {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    path_ = (std::filesystem::temp_directory_path(error) / "kvist-test-XXXXXX").string();
    if (error || ::mkdtemp(path_.data()) == nullptr) {
      path_.clear();  // GoogleTest's own, shared by all, is what remains
    } else {
      ::setenv("TEST_TMPDIR", path_.c_str(), 1);
    }
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    // A process forked from this one (a death test) ends with the same destructor.
    if (!path_.empty() && ::getpid() == owner_) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

 private:
  pid_t owner_ = ::getpid();
  std::string path_;
};

const TemporaryFolder kTemporaryFolder;

}  // namespace
}  // namespace kvist
