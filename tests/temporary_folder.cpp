// SPDX-License-Identifier: Apache-2.0
// Linked into a test program: gives it, and what it starts, a folder for temporary files that is its own and
// vanishes with it. Tests run side by side in processes, and several write files of the same names.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace tandem::tests {
namespace {

class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_((std::filesystem::temp_directory_path() / "tandem-XXXXXX").string()), owner_(getpid()) {
    if (mkdtemp(path_.data()) == nullptr) {
      std::abort();
    }
    setenv("TMPDIR", path_.c_str(), 1);       // std::filesystem's
    setenv("TEST_TMPDIR", path_.c_str(), 1);  // GoogleTest's
  }
  ~TemporaryFolder() {
    if (getpid() == owner_) {  // a child that ends before its parent leaves the folder
      std::error_code ignored;
      std::filesystem::remove_all(path_, ignored);
    }
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

 private:
  std::string path_;
  pid_t owner_;
};

const TemporaryFolder folder;

}  // namespace
}  // namespace tandem::tests
