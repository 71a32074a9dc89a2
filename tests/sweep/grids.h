// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small grids for tests of sweeps, and a folder for their files.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "sweep/sweep.h"

namespace tandem::tests {

using Given = std::vector<std::pair<std::string, std::string>>;

inline Values given(const Given& options) {
  Values out;
  for (const auto& [name, value] : options) out.add(name, value);
  return out;
}

inline sweep::Grid grid_of(const Given& options) { return sweep::Grid::read(given(options)); }

/// 144 cells: some answered, of those with 16 devices none.
inline Given small_grid() {
  return {{"model", "lenet5,vgg8-cifar10"},
          {"system", "dgx1-v100,v100-pcie-8x"},
          {"devices", "1,4,16"},
          {"batch", "8,32"},
          {"set", "host.jitter=0,0.02"},
          {"scheme", "allreduce,pytorch-ddp:bucket=1MiB,overlap=off,fsdp"}};
}

inline sweep::SweepQuestion sweep_of(const Given& options, const std::string& out, int threads = 2) {
  sweep::SweepQuestion q;
  q.header = {grid_of(options), "rate", "a build", {}};
  q.out = out;
  q.threads = threads;
  q.together = std::chrono::milliseconds(1);  // so that a kill finds some kept and some not
  return q;
}

/// A folder of its own that vanishes with it.
class SweepFolder {
 public:
  SweepFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sweep-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~SweepFolder() { std::filesystem::remove_all(path_); }
  SweepFolder(const SweepFolder&) = delete;
  SweepFolder& operator=(const SweepFolder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      out.push_back(entry.path().filename().string());
    return out;
  }

 private:
  std::filesystem::path path_;
};

inline std::string csv_of(const std::string& file) {
  sweep::Store store = sweep::Store::read(file);
  return sweep::csv(store);
}

/// The cells of an undisturbed run with one thread.
inline std::string undisturbed_csv(const Given& options) {
  const SweepFolder folder;
  sweep::answer_grid(sweep_of(options, folder.file("whole.sqlite"), 1));
  return csv_of(folder.file("whole.sqlite"));
}

/// What `work` throws as InputError; "" if nothing.
template <typename Work>
std::string refusal_of(Work work) {
  try {
    work();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace tandem::tests
