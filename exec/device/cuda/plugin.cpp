// SPDX-License-Identifier: Apache-2.0
// What libtandem_cuda.so shows of itself.
#include "exec/device/cuda/plugin.h"

#include <cudnn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

#include "exec/device/cuda/half.h"
#include "exec/device/cuda/session.h"

namespace tandem::exec {

namespace {

/// The oldest chip that the kernels are built for (cmake/cuda.cmake).
constexpr int kLeastCompute = CUDART_VERSION >= 13000 ? 75 : 60;

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

int attribute(cudaDeviceAttr which, int gpu) {
  int value = 0;
  cuda::check(cudaDeviceGetAttribute(&value, which, gpu), "describe a GPU");
  return value;
}

int numa_node(std::string bus) {
  for (char& c : bus) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::ifstream file(fmt::format("/sys/bus/pci/devices/{}/numa_node", bus));
  int node = -1;
  file >> node;
  return file ? node : -1;
}

std::vector<Gpu> gpus() {
  int count = 0;
  cuda::check(cudaGetDeviceCount(&count), "count GPUs");
  std::vector<Gpu> out;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp p{};
    cuda::check(cudaGetDeviceProperties(&p, i), "describe a GPU");
    Gpu g;
    g.name = p.name;
    g.bus = fmt::format("{:04x}:{:02x}:{:02x}.0", p.pciDomainID, p.pciBusID, p.pciDeviceID);
    g.compute = 10 * p.major + p.minor;
    g.processors = p.multiProcessorCount;
    g.memory_bytes = static_cast<int64_t>(p.totalGlobalMem);
    g.l2_bytes = p.l2CacheSize;
    g.clock_hz = 1e3 * attribute(cudaDevAttrClockRate, i);
    g.memory_clock_hz = 1e3 * attribute(cudaDevAttrMemoryClockRate, i);
    g.numa = numa_node(g.bus);
    for (int k = 0; k < count; ++k) g.peers.push_back(i == k || cuda::reaches(i, k));
    out.push_back(std::move(g));
  }
  return out;
}

std::string versions() {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const auto cudnn = static_cast<int>(cudnnGetVersion());
  const auto blas = static_cast<int>(cublasLtGetVersion());
  const std::string nccl = cuda::nccl_version();
  return fmt::format("CUDA {} (driver for {}), cuDNN {}.{}.{}, cuBLASLt {}.{}.{}{}", version(runtime),
                     driver == 0 ? "none" : version(driver), cudnn / 10000, cudnn / 100 % 100, cudnn % 100,
                     blas / 10000, blas / 100 % 100, blas % 100,
                     nccl.empty() ? ", no NCCL" : ", NCCL " + nccl);
}

std::string missing() {
  // cuDNN has one name for all of CUDA's versions, and needs the others' of the one that it was built for.
  const int built = static_cast<int>(cudnnGetCudartVersion() / 1000), ours = CUDART_VERSION / 1000;
  if (built != ours)
    return fmt::format(
        "library of another version: cuDNN was built for CUDA {}, cuBLASLt and this plugin for CUDA {}: "
        "install "
        "libcudnn9-cuda-{} or pip install nvidia-cudnn-cu{}",
        built, ours, ours, ours);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver)
    return fmt::format("no device: the NVIDIA driver is too old for CUDA {}.{}", CUDART_VERSION / 1000,
                       CUDART_VERSION % 1000 / 10);
  if (status != cudaSuccess || count == 0)
    return fmt::format("no device: the driver shows no GPU{}",
                       status == cudaSuccess ? "" : fmt::format(" ({})", cudaGetErrorString(status)));
  for (int i = 0; i < count; ++i) {
    const int compute = 10 * attribute(cudaDevAttrComputeCapabilityMajor, i) +
                        attribute(cudaDevAttrComputeCapabilityMinor, i);
    if (compute < kLeastCompute)
      return fmt::format(
          "no device: GPU {} has compute capability {}.{}, at least {}.{} is needed (CUDA_VISIBLE_DEVICES "
          "chooses among several)",
          i, compute / 10, compute % 10, kLeastCompute / 10, kLeastCompute % 10);
  }
  return "";
}

std::string describe() {
  const std::vector<Gpu> all = gpus();
  const Gpu& g = all.at(0);
  return fmt::format("{}{}, {} processors, {:.2f} GHz, {}, {}",
                     all.size() > 1 ? fmt::format("{} x ", all.size()) : "", g.name, g.processors,
                     g.clock_hz * 1e-9, to_text(Bytes{g.memory_bytes}), versions());
}

/// GPUs have their PCI address, machines their name.
std::string unit(uint32_t index) {
  const std::vector<Gpu> all = gpus();
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  return fmt::format("{} {}", host, all.at(index % all.size()).bus);
}

const Backend& backend() {
  static const Backend b = [] {
    Backend out;
    out.name = "cuda";
    out.summary = "NVIDIA GPUs";
    out.missing = missing;
    out.supports = [](const Call&, Precision) { return true; };  // whether the chip has fp8, its session says
    out.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
      return std::make_unique<cuda::Session>(options);
    };
    out.describe = describe;
    out.asynchronous = true;
    out.copies = cuda::wants_copies;
    out.group = cuda::nccl_group;
    out.group_id = cuda::nccl_id;
    out.unit = unit;
    out.reaches = [](uint32_t a, uint32_t b) {
      int count = 0;
      cuda::check(cudaGetDeviceCount(&count), "count GPUs");
      const int gpu = static_cast<int>(a) % count, other = static_cast<int>(b) % count;
      return gpu == other || cuda::reaches(gpu, other);
    };
    out.units = [] { return static_cast<int64_t>(gpus().size()); };
    out.memory = [](uint32_t index) {
      const std::vector<Gpu> all = gpus();
      return all.at(index % all.size()).memory_bytes;
    };
    return out;
  }();
  return b;
}

}  // namespace
}  // namespace tandem::exec

extern "C" __attribute__((visibility("default"))) const tandem::exec::CudaPlugin* tandem_cuda_plugin() {
  static const tandem::exec::CudaPlugin plugin{TANDEM_CUDA_ABI, &tandem::exec::backend(), tandem::exec::gpus,
                                               tandem::exec::versions, tandem::exec::cuda::kernel_count};
  return &plugin;
}
