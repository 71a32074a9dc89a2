// SPDX-License-Identifier: Apache-2.0
// Finds and opens libtandem_cuda.so. Everything that can be missing is told apart and named: the plugin, one
// of NVIDIA's libraries, the driver or a device.
#include "exec/device/cuda/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>

#include "exec/device/gauge.h"

namespace tandem::exec {

namespace {

namespace fs = std::filesystem;

struct Wanted {
  const char *name, *soname, *apt, *wheel;
  bool needed;  ///< the plugin cannot be opened without it
};
/// In the order in which they need each other.
constexpr Wanted kWanted[] = {
    {"cuBLASLt", TANDEM_CUBLASLT_SONAME, "libcublas-13-0", "nvidia-cublas", true},
    {"NVRTC", TANDEM_NVRTC_SONAME, "cuda-nvrtc-13-0", "nvidia-cuda-nvrtc", false},  // some of cuDNN's engines
    {"cuDNN", TANDEM_CUDNN_SONAME, "libcudnn9-cuda-13", "nvidia-cudnn-cu13", true},
    {"NCCL", TANDEM_NCCL_SONAME, "libnccl2", "nvidia-nccl-cu13", false},
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Folder of the running program.
fs::path own_folder() {
  std::error_code none;
  return fs::read_symlink("/proc/self/exe", none).parent_path();
}

std::string path_of(void* library) {
  const link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return "";
  return map->l_name;
}

/// Where a library may lie: wheels when they hold it (every package has a folder with lib), else whatever the
/// loader finds, then the toolkit.
std::vector<std::string> places(const char* soname) {
  std::vector<std::string> out;
  const std::string wheels = environment("TANDEM_NVIDIA_WHEELS");
  std::error_code none;
  if (!wheels.empty()) {
    for (const auto& package : fs::directory_iterator(wheels, none)) {
      const fs::path file = package.path() / "lib" / soname;
      if (fs::exists(file, none)) out.push_back(file.string());
    }
  }
  if (!out.empty()) return out;
  out.emplace_back(soname);
  out.push_back(fmt::format("/usr/local/cuda/lib64/{}", soname));
  return out;
}

/// Opens it for all, so that the plugin's own dependence on that name is satisfied wherever it lies.
CudaLibrary open_library(const Wanted& wanted) {
  CudaLibrary out{wanted.name, "", "",
                  fmt::format("apt-get install {} or pip install {}", wanted.apt, wanted.wheel)};
  for (const std::string& place : places(wanted.soname)) {
    void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library != nullptr) {
      out.path = path_of(library);
      out.problem.clear();
      return out;
    }
    const char* why = dlerror();
    if (out.problem.empty() || fs::exists(place)) out.problem = why == nullptr ? "cannot be opened" : why;
  }
  return out;
}

/// NVRTC opens its own part by name when it first compiles, and on no path of wheels' folders would find it;
/// what is open by that name is taken. It is next to NVRTC, with the same version.
CudaLibrary open_builtins(const std::string& nvrtc) {
  CudaLibrary out{"NVRTC builtins", "", "cannot be found next to NVRTC", "as NVRTC"};
  std::error_code none;
  for (const auto& file : fs::directory_iterator(fs::path(nvrtc).parent_path(), none)) {
    const std::string name = file.path().filename().string();
    if (!name.starts_with("libnvrtc-builtins.so.")) continue;
    if (dlopen(file.path().c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      const char* why = dlerror();
      out.problem = why == nullptr ? "cannot be opened" : why;
      continue;
    }
    out.path = file.path().string();
    out.problem.clear();
    break;
  }
  return out;
}

/// The plugin's table, or why not.
const CudaPlugin* open_plugin(const std::string& path, std::string& problem) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    problem =
        fmt::format("the plugin {} cannot be opened: {}", path, why == nullptr ? "unknown reason" : why);
    return nullptr;
  }
  const auto entry = reinterpret_cast<CudaPluginEntry>(dlsym(library, kCudaPluginEntry));
  if (entry == nullptr) {
    problem = fmt::format("{} is not a plugin of tandem: it has no {}", path, kCudaPluginEntry);
    return nullptr;
  }
  const CudaPlugin* plugin = entry();
  const std::string abi = plugin == nullptr || plugin->abi == nullptr ? "none" : plugin->abi;
  if (abi != TANDEM_CUDA_ABI) {
    problem = fmt::format("the plugin {} was built for another version of tandem (interface {}, wanted {})",
                          path, abi, TANDEM_CUDA_ABI);
    return nullptr;
  }
  return plugin;
}

bool has_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return false;
  dlclose(driver);
  return true;
}

/// Beside the program where it was built, in lib/tandem where it was installed.
std::string plugin_path() {
  const fs::path built = own_folder() / "libtandem_cuda.so",
                 installed = own_folder().parent_path() / "lib/tandem/libtandem_cuda.so";
  std::error_code none;
  return (fs::exists(installed, none) && !fs::exists(built, none) ? installed : built).string();
}

}  // namespace

CudaFindings find_cuda() {
  CudaFindings out;
  const std::string named = environment("TANDEM_CUDA_PLUGIN");
  out.path = named.empty() ? plugin_path() : named;
  std::error_code none;
  if (!fs::exists(out.path, none)) {
    out.missing = fmt::format(
        "plugin absent: there is no {}{}", out.path,
        named.empty()
            ? "; it is built where the CUDA toolkit (nvcc) is found: apt-get install cuda-toolkit-13-0 "
              "libcudnn9-dev-cuda-13, then build again"
            : " (named by TANDEM_CUDA_PLUGIN)");
    out.path.clear();
    return out;
  }
  for (const Wanted& wanted : kWanted) {
    out.libraries.push_back(open_library(wanted));
    if (wanted.name == std::string_view("NVRTC") && !out.libraries.back().path.empty())
      out.libraries.push_back(open_builtins(out.libraries.back().path));
    const CudaLibrary& library = out.libraries.back();
    if (library.problem.empty() || !wanted.needed || !out.missing.empty()) continue;
    out.missing = fmt::format(
        "library absent: {} ({}): {}; or set TANDEM_NVIDIA_WHEELS to <site-packages>/nvidia where Python "
        "wheels hold it",
        library.name, library.problem, library.install);
  }
  if (!out.missing.empty()) return out;
  std::string problem;
  out.plugin = open_plugin(out.path, problem);
  if (out.plugin == nullptr)
    out.missing = problem;
  else if (!has_driver())
    out.missing = "no device: the NVIDIA driver is not installed (libcuda.so.1 is absent)";
  else
    out.missing = out.plugin->backend->missing();
  return out;
}

const CudaFindings& cuda_findings() {
  static const CudaFindings findings = find_cuda();
  return findings;
}

namespace {

const Backend& plugged() {
  const CudaFindings& f = cuda_findings();
  if (!f.missing.empty()) throw DeviceError(fmt::format("backend cuda: {}", f.missing));
  return *f.plugin->backend;
}

}  // namespace

void register_cuda(Registry<Backend>& registry) {
  Backend b;
  b.name = "cuda";
  b.summary = "NVIDIA GPUs, by the plugin libtandem_cuda.so: cuDNN, cuBLASLt, NCCL and own kernels";
  b.missing = [] { return cuda_findings().missing; };
  b.supports = [](const Call& call, Precision precision) { return plugged().supports(call, precision); };
  b.open = [](const DeviceOptions& options) { return plugged().open(options); };
  b.describe = [] {
    const CudaFindings& f = cuda_findings();
    return f.missing.empty() ? f.plugin->backend->describe() : f.missing;
  };
  b.asynchronous = true;
  b.fuses_norms = true;
  b.copies = [](const Call& call, Precision precision) { return plugged().copies(call, precision); };
  b.warm_seconds = 0.3;  // an idle H200 runs at 345 MHz
  b.group = [](const GroupSetup& setup) { return plugged().group(setup); };
  b.group_id = [](PeerRoute route) { return plugged().group_id(route); };
  b.unit = [](uint32_t index) { return plugged().unit(index); };
  b.reaches = [](uint32_t a, uint32_t b) { return plugged().reaches(a, b); };
  b.units = [] { return plugged().units(); };
  b.memory = [](uint32_t index) { return plugged().memory(index); };
  b.gauges = [](const std::vector<uint32_t>& indices) {
    const std::vector<Gpu> all = cuda_findings().plugin->gpus();  // as CUDA_VISIBLE_DEVICES shows them
    std::vector<std::string> addresses;
    for (const uint32_t i : indices) addresses.push_back(all.at(i % all.size()).bus);
    return nvml_gauges(addresses);
  };
  registry.add(b);
}

}  // namespace tandem::exec
