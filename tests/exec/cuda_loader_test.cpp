// SPDX-License-Identifier: Apache-2.0
// What the search for the CUDA plugin says where something is missing; none of it needs a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "exec/device/cuda/plugin.h"

namespace tandem::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CudaLoader : public testing::Test {
 protected:
  CudaLoader() {
    std::string pattern = (fs::temp_directory_path() / "tandem-loader-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    unsetenv("TANDEM_CUDA_PLUGIN");
    unsetenv("TANDEM_NVIDIA_WHEELS");
  }
  ~CudaLoader() override { fs::remove_all(folder_); }

  CudaFindings find_with_plugin(const fs::path& file) {
    setenv("TANDEM_CUDA_PLUGIN", file.c_str(), 1);
    return find_cuda();
  }
  /// Libraries of the wanted names, laid out as Python wheels are; they are any that can be opened.
  void play_wheels(const fs::path& content) {
    for (const char* name :
         {"cublas/lib/libcublasLt.so.12", "cublas/lib/libcublasLt.so.13", "cudnn/lib/libcudnn.so.9"}) {
      fs::create_directories((folder_ / name).parent_path());
      fs::copy_file(content, folder_ / name);
    }
    setenv("TANDEM_NVIDIA_WHEELS", folder_.c_str(), 1);
  }
  fs::path write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name) << content;
    return folder_ / name;
  }

  fs::path folder_;
};

TEST_F(CudaLoader, NamesThePluginThatIsNotThere) {
  const CudaFindings f = find_with_plugin("/nowhere/libtandem_cuda.so");
  EXPECT_EQ(f.plugin, nullptr);
  EXPECT_TRUE(f.libraries.empty());
  EXPECT_THAT(f.missing, StartsWith("plugin absent"));
  EXPECT_THAT(f.missing, HasSubstr("/nowhere/libtandem_cuda.so"));
  EXPECT_THAT(f.missing, HasSubstr("TANDEM_CUDA_PLUGIN"));
}

TEST_F(CudaLoader, NamesTheLibraryThatIsNotThereAndHowToGetIt) {
  play_wheels(write("text", "no library"));
  const CudaFindings f = find_with_plugin(TANDEM_STRANGER);
  EXPECT_EQ(f.plugin, nullptr);
  EXPECT_THAT(f.missing, StartsWith("library absent: cuBLASLt"));
  EXPECT_THAT(f.missing, HasSubstr("apt-get install libcublas"));
  EXPECT_THAT(f.missing, HasSubstr("pip install nvidia-cublas"));
  EXPECT_THAT(f.missing, HasSubstr("TANDEM_NVIDIA_WHEELS"));
}

TEST_F(CudaLoader, RefusesWhatIsNoPlugin) {
  play_wheels(TANDEM_STRANGER);
  EXPECT_THAT(find_with_plugin(write("text.so", "no library")).missing, HasSubstr("cannot be opened"));
  for (const CudaLibrary& library : find_cuda().libraries) {
    if (library.name == "NCCL" || library.name.starts_with("NVRTC")) continue;  // nothing emulated
    EXPECT_THAT(library.path, StartsWith(folder_.string())) << library.problem;
  }
}

TEST_F(CudaLoader, RefusesAPluginOfAnotherVersion) {
  play_wheels(TANDEM_STRANGER);
  const CudaFindings f = find_with_plugin(TANDEM_STRANGER);
  EXPECT_EQ(f.plugin, nullptr);
  EXPECT_THAT(f.missing, HasSubstr("0-of-another-version"));
}

/// The real one, wherever it was built: it is usable, or says what is missing; a driver or device last.
TEST_F(CudaLoader, OpensThePluginBesideTheProgram) {
  const CudaFindings f = find_cuda();
  if (f.plugin == nullptr) {
    EXPECT_THAT(f.missing, testing::AnyOf(StartsWith("plugin absent"), StartsWith("library absent")));
  } else if (!f.missing.empty()) {
    EXPECT_THAT(f.missing, StartsWith("no device"));
    EXPECT_THAT(f.plugin->versions(), HasSubstr("cuDNN 9"));
    // Every instance of every kernel; a linker that does not wrap their registration would leave none.
    EXPECT_GT(f.plugin->kernels(), 100);
  } else {
    EXPECT_FALSE(f.plugin->gpus().empty());
  }
}

TEST_F(CudaLoader, BackendSaysWhatIsMissing) {
  const Backend& cuda = backends_registry().at("cuda");
  EXPECT_TRUE(cuda.asynchronous);
  EXPECT_EQ(cuda.missing(), cuda_findings().missing);
  EXPECT_FALSE(cuda.describe().empty());
  if (!cuda_findings().missing.empty()) {
    EXPECT_THROW(cuda.open({}), DeviceError);
  }
}

}  // namespace
}  // namespace tandem::tests
