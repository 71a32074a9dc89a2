// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cuda/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>

namespace tandem::exec::cuda {

namespace {

/// Floats moved at once between GPUs that do not reach each other.
constexpr int64_t kStaging = 4L << 20;

std::size_t bytes(int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(float); }

class Event : public DeviceEvent {
 public:
  explicit Event(bool timed) : timed_(timed) {
    check(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming),
          "make an event");
  }
  ~Event() override { cudaEventDestroy(event_); }
  cudaEvent_t get() const { return event_; }
  bool timed() const { return timed_; }

 private:
  cudaEvent_t event_ = nullptr;
  bool timed_;
};
cudaEvent_t handle(DeviceEvent& event) { return static_cast<Event&>(event).get(); }

class Graph : public DeviceGraph {
 public:
  explicit Graph(cudaGraph_t graph) {
    const cudaError_t status = cudaGraphInstantiate(&ready_, graph, 0);
    cudaGraphDestroy(graph);
    check(status, "make a captured graph ready");
  }
  ~Graph() override { cudaGraphExecDestroy(ready_); }
  cudaGraphExec_t get() const { return ready_; }

 private:
  cudaGraphExec_t ready_ = nullptr;
};

int devices() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "count GPUs");
  return count;
}

/// Without access the driver takes copies through host memory. Access holds for the whole process: what an
/// earlier session was given is taken away again.
void set_peers(int gpu, bool access) {
  for (int other = 0; other < devices(); ++other) {
    if (other == gpu || !reaches(gpu, other)) continue;
    const cudaError_t status =
        access ? cudaDeviceEnablePeerAccess(other, 0) : cudaDeviceDisablePeerAccess(other);
    if (status == cudaErrorPeerAccessAlreadyEnabled || status == cudaErrorPeerAccessNotEnabled)
      cudaGetLastError();  // clears it
    else
      check(status, access ? "enable peer access" : "disable peer access");
  }
}

std::string chip(int device) {
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, device), "describe a GPU");
  return fmt::format("{} {}.{} {}", p.name, p.major, p.minor, p.multiProcessorCount);
}

}  // namespace

std::size_t workspace_limit(const Libraries& libraries) {
  std::size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) cudaGetLastError();
  return std::max(kLeastWorkspace, (free + libraries.workspace_bytes) / 4);
}

void grow_workspace(Libraries& libraries, std::size_t bytes) {
  if (bytes <= libraries.workspace_bytes) return;
  check(cudaDeviceSynchronize(), "wait");
  check(cudaFree(libraries.workspace), "free memory");
  libraries.workspace = nullptr;
  libraries.workspace_bytes = 0;
  check(cudaMalloc(&libraries.workspace, bytes), "get the libraries' workspace");
  libraries.workspace_bytes = bytes;
}

cudaStream_t stream_of(const Libraries& libraries) {
  cudaStream_t stream = nullptr;
  check(cudnnGetStream(libraries.cudnn, &stream), "name its stream");
  return stream;
}

void note_choice(Libraries& libraries, const Call& call, const char* name, std::string engine,
                 int64_t workspace, std::string refused) {
  double flops = 0;
  for (const Kernel& k : call.kernels)
    flops += static_cast<double>(k.flops.n) * static_cast<double>(k.repeat);
  libraries.choices.push_back({call.function, name, std::move(engine), workspace, std::move(refused), flops});
}

namespace {

/// A kernel's fault ends the context, and shows at whatever is asked of it next.
bool ends_context(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
      return true;
    default:
      return false;
  }
}

/// TANDEM_CUDA_SYNC=1: a fault then shows at the launch that made it.
bool waits_each_launch() {
  static const bool asked = [] {
    const char* const value = std::getenv("TANDEM_CUDA_SYNC");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return asked;
}

void wait_unless_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &capture), "ask what is captured");
  if (capture == cudaStreamCaptureStatusNone) check(cudaStreamSynchronize(stream), "run a kernel");
}

}  // namespace

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // an error that is not the context's end must not show again elsewhere
  const char* const earlier =
      ends_context(status) && !waits_each_launch()
          ? "; an earlier launch may have caused it (TANDEM_CUDA_SYNC=1 waits for each and tells which)"
          : "";
  throw DeviceError(fmt::format("CUDA could not {}: {} ({}){}", what, cudaGetErrorString(status),
                                cudaGetErrorName(status), earlier));
}
void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw DeviceError(fmt::format("cuBLASLt could not {}: {}", what, cublasLtGetStatusString(status)));
}
void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw DeviceError(fmt::format("cuDNN could not {}: {}", what, cudnnGetErrorString(status)));
}
void check_launch() { check(cudaGetLastError(), "launch a kernel"); }

bool reaches(int gpu, int other) {
  int can = 0;
  return cudaDeviceCanAccessPeer(&can, gpu, other) == cudaSuccess && can != 0;
}

Session::Session(const DeviceOptions& options) {
  libraries_.device = static_cast<int>(options.index % static_cast<uint32_t>(devices()));
  libraries_.fp8 = options.precision == Precision::fp8;
  libraries_.precision = libraries_.fp8 ? Precision::bf16 : options.precision;
  route_ = options.route;
  try {
    use();
    if (libraries_.fp8) require_fp8();
    make_streams();
    check(cudaStreamCreateWithFlags(&transfer_, cudaStreamNonBlocking), "make a stream");
    set_peers(libraries_.device, route_ != PeerRoute::staged);
    states_ =
        reinterpret_cast<State*>(allocate(static_cast<int64_t>(kStateSlots * sizeof(State) / sizeof(float))));
    if (options.precision == Precision::fp16) start_loss_scale(options.loss_scale);
    for (uint32_t slot = 0; slot < kStateSlots; ++slot)
      cuda::set_state(states_ + slot, {}, loss_, false, stream(Lane::compute));
    check(cublasLtCreate(&libraries_.blas), "start");
    check(cudnnCreate(&libraries_.cudnn), "start");
    check(cudnnSetStream(libraries_.cudnn, stream(Lane::compute)), "take a stream");
    libraries_.chip = chip(libraries_.device);
    grow_workspace(libraries_, kLeastWorkspace);
    for (const Lane lane : {Lane::comm, Lane::reduce}) {
      if (devices() > 1) staging_[static_cast<std::size_t>(lane)] = allocate(kStaging);
    }
  } catch (...) {
    close();
    throw;
  }
}

Session::~Session() { close(); }

/// Collectives have priority: otherwise their few blocks find no room on a full device.
void Session::make_streams() {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "ask for streams' priorities");
  for (std::size_t l = 0; l < streams_.size(); ++l) {
    const auto lane = static_cast<Lane>(l);
    const bool first = lane == Lane::comm || lane == Lane::reduce || lane == Lane::send || lane == Lane::recv;
    check(cudaStreamCreateWithPriority(&streams_[l], cudaStreamNonBlocking, first ? greatest : least),
          "make a stream");
  }
}

void Session::close() noexcept {
  cudaSetDevice(libraries_.device);
  cudaDeviceSynchronize();
  made_.clear();
  libraries_.attentions.clear();
  libraries_.plans.reset();
  if (libraries_.cudnn != nullptr) cudnnDestroy(libraries_.cudnn);
  if (libraries_.blas != nullptr) cublasLtDestroy(libraries_.blas);
  for (void* memory : owned_) cudaFree(memory);
  for (void* memory : owned_host_) cudaFreeHost(memory);
  cudaFree(scratch_);
  cudaFree(libraries_.workspace);
  for (cudaStream_t s : streams_) {
    if (s != nullptr) cudaStreamDestroy(s);
  }
  if (transfer_ != nullptr) cudaStreamDestroy(transfer_);
}

void Session::require_fp8() const {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, libraries_.device),
        "describe a GPU");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, libraries_.device),
        "describe a GPU");
  if (10 * major + minor < 89)
    throw InputError(fmt::format(
        "precision fp8: GPU {} has compute capability {}.{}, which does not multiply fp8; 8.9 (Ada, "
        "Hopper) at least does; fp32, tf32, fp16 and bf16 are computed here",
        libraries_.device, major, minor));
}

void Session::start_loss_scale(float scale) {
  loss_ = reinterpret_cast<LossScale*>(allocate(sizeof(LossScale) / sizeof(float)));
  const LossScale first{scale};
  check(cudaMemcpyAsync(loss_, &first, sizeof(first), cudaMemcpyHostToDevice, transfer_), "upload");
  check(cudaStreamSynchronize(transfer_), "upload");
}

void Session::use() const { check(cudaSetDevice(libraries_.device), "choose a GPU"); }

float* Session::allocate(int64_t elements) {
  use();
  void* memory = nullptr;
  const std::size_t size = std::max<std::size_t>(bytes(elements), 256);
  if (cudaMalloc(&memory, size) != cudaSuccess) {
    std::size_t free = 0, total = 0;
    cudaGetLastError();
    cudaMemGetInfo(&free, &total);
    throw DeviceError(fmt::format("GPU {} has no room for {}: {} of {} are free", libraries_.device,
                                  to_text(Bytes{static_cast<int64_t>(size)}),
                                  to_text(Bytes{static_cast<int64_t>(free)}),
                                  to_text(Bytes{static_cast<int64_t>(total)})));
  }
  owned_.push_back(memory);
  check(cudaMemsetAsync(memory, 0, size, transfer_), "zero memory");
  check(cudaStreamSynchronize(transfer_), "zero memory");
  return static_cast<float*>(memory);
}

/// Scratch only grows while calls are prepared: launches, and graphs captured later, take what is there then.
void Session::reserve(int64_t elements) {
  if (elements <= scratch_elements_) return;
  use();
  check(cudaDeviceSynchronize(), "wait");
  check(cudaFree(scratch_), "free memory");
  scratch_ = nullptr;
  scratch_elements_ = 0;
  const int64_t wanted = std::max<int64_t>(elements, 1L << 20);
  check(cudaMalloc(reinterpret_cast<void**>(&scratch_), bytes(wanted)), "get scratch memory");
  scratch_elements_ = wanted;
}

uint32_t Session::prepare(const Call& call) {
  use();
  Prepared made;
  switch (call.function) {
    case Function::gemm:
      made = library_gemm(call, libraries_);
      break;
    case Function::conv:
    case Function::conv_backward_data:
    case Function::conv_backward_weights:
      made = library_conv(call, libraries_);
      break;
    case Function::attention:
    case Function::attention_backward:
      made = library_attention(call, libraries_);
      break;
    default: {
      // Recurrent steps take this session's products.
      make_product() = [this, f = call.function](const Product& p) {
        return library_product(p, f, libraries_);
      };
      made = prepare_own(call, libraries_.precision);
    }
  }
  reserve(made.scratch);
  float* kept = made.kept > 0 ? allocate(made.kept) : nullptr;
  made_.push_back({std::move(made), call.function, kept});
  return static_cast<uint32_t>(made_.size() - 1);
}

void Session::launch(uint32_t prepared, std::span<float* const> operands, const IterationState& step,
                     Lane lane) {
  use();
  const Made& made = made_[prepared];
  TANDEM_CHECK(lane == Lane::compute);  // the library handles and the scratch are the compute lane's
  try {
    made.prepared.run({operands.data(), states_ + step.slot, scratch_, stream(lane), made.kept, step.micro});
    if (waits_each_launch()) wait_unless_captured(stream(lane));
  } catch (const DeviceError& e) {
    throw DeviceError(fmt::format("{}: {}", name(made.function), e.what()));
  }
}

void Session::copy(float* to, const float* from, int64_t elements, Lane lane) {
  use();
  check(cudaMemcpyAsync(to, from, bytes(elements), cudaMemcpyDefault, stream(lane)), "copy");
}

bool Session::direct(int other) const {
  if (other == libraries_.device) return true;
  return route_ != PeerRoute::staged && reaches(libraries_.device, other);
}

void Session::accumulate(float* to, const float* from, int64_t elements, Lane lane) {
  add(to, from, elements, false, lane);
}

void Session::accumulate_half(float* to, const float* from, int64_t words, Lane lane) {
  add(to, from, words, true, lane);
}

void Session::add(float* to, const float* from, int64_t words, bool half, Lane lane) {
  use();
  const auto sum = [&](float* sums, const float* more, int64_t n) {
    half ? cuda::accumulate_half(sums, more, half_format(libraries_.precision), 2 * n, stream(lane))
         : cuda::accumulate(sums, more, n, stream(lane));
  };
  cudaPointerAttributes where{};
  check(cudaPointerGetAttributes(&where, from), "find memory");
  if (direct(where.device)) return sum(to, from, words);
  float* const staging = staging_[static_cast<std::size_t>(lane)];
  TANDEM_CHECK(staging != nullptr);
  for (int64_t at = 0; at < words; at += kStaging) {
    const int64_t n = std::min(kStaging, words - at);
    check(cudaMemcpyAsync(staging, from + at, bytes(n), cudaMemcpyDefault, stream(lane)), "copy");
    sum(to + at, staging, n);
  }
}

void Session::scale(float* values, float factor, int64_t elements, Lane lane) {
  use();
  cuda::scale(values, factor, elements, stream(lane));
}

void Session::narrow(float* to, const float* from, int64_t elements, Lane lane) {
  use();
  cuda::narrow(to, from, half_format(libraries_.precision), elements, stream(lane));
}

void Session::renew(const CopiedRange& range, const float* vector, Lane lane) {
  use();
  cuda::renew(range, vector, half_format(libraries_.precision), stream(lane));
}

void Session::upcast(float* to, const float* from, int64_t elements, Lane lane) {
  use();
  cuda::upcast(to, from, half_format(libraries_.precision), elements, stream(lane));
}

void Session::narrow_gradients(float* to, const float* from, int64_t elements, Lane lane) {
  use();
  cuda::narrow(to, from, half_format(libraries_.precision), elements, stream(lane), states_);
}

void Session::upcast_gradients(float* to, const float* from, int64_t elements, Lane lane) {
  use();
  cuda::upcast(to, from, half_format(libraries_.precision), elements, stream(lane), states_);
}

void Session::unscale(float* gradients, int64_t elements, bool alone, Lane lane) {
  if (loss_ == nullptr || elements == 0) return;
  use();
  TANDEM_CHECK(lane == Lane::compute);  // whose iterations slot 0 follows
  cuda::unscale(gradients, states_, alone, elements, stream(lane));
}

void Session::judge(const float* gradients, int64_t elements, Lane lane) {
  if (loss_ == nullptr || elements == 0) return;
  use();
  cuda::judge(gradients, states_, elements, stream(lane));
}

void Session::upload(float* to, const float* host, int64_t elements) {
  use();
  check(cudaMemcpyAsync(to, host, bytes(elements), cudaMemcpyHostToDevice, transfer_), "upload");
  check(cudaStreamSynchronize(transfer_), "upload");
}

void Session::download(float* host, const float* from, int64_t elements) {
  use();
  check(cudaMemcpyAsync(host, from, bytes(elements), cudaMemcpyDeviceToHost, transfer_), "download");
  check(cudaStreamSynchronize(transfer_), "download");
}

void Session::synchronize(Lane lane) {
  use();
  check(cudaStreamSynchronize(stream(lane)), "finish what was launched");
}

float* Session::allocate_host(int64_t elements) {
  use();
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, std::max<std::size_t>(bytes(elements), 256), cudaHostAllocPortable),
        "pin host memory");
  owned_host_.push_back(memory);
  std::fill_n(static_cast<float*>(memory), elements, 0.0F);
  return static_cast<float*>(memory);
}

void Session::load(float* to, const float* host, int64_t elements, Lane lane) {
  copy(to, host, elements, lane);
}
void Session::save(float* host, const float* from, int64_t elements, Lane lane) {
  copy(host, from, elements, lane);
}

void Session::set_state(const IterationState& state, Lane lane) {
  use();
  TANDEM_CHECK(state.slot < kStateSlots);
  cuda::set_state(states_ + state.slot, device_state(state), loss_, state.slot == 0, stream(lane));
}

std::unique_ptr<DeviceEvent> Session::make_event(bool timed) {
  use();
  return std::make_unique<Event>(timed);
}

void Session::record(DeviceEvent& event, Lane lane) {
  use();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const bool timed = static_cast<Event&>(event).timed();
  if (timed) check(cudaStreamIsCapturing(stream(lane), &status), "ask whether a lane is captured");
  // A timed event within a graph is recorded whenever that runs; others only say what depends on what.
  const unsigned flags =
      status == cudaStreamCaptureStatusActive ? cudaEventRecordExternal : cudaEventRecordDefault;
  check(cudaEventRecordWithFlags(handle(event), stream(lane), flags), "record an event");
}

void Session::wait(Lane lane, DeviceEvent& event) {
  use();
  check(cudaStreamWaitEvent(stream(lane), handle(event), 0), "wait for an event");
}

void Session::synchronize(DeviceEvent& event) {
  use();
  check(cudaEventSynchronize(handle(event)), "finish what was launched");
}

bool Session::finished(DeviceEvent& event) {
  use();
  const cudaError_t status = cudaEventQuery(handle(event));
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(status, "finish what was launched");
  return true;
}

double Session::seconds_between(DeviceEvent& first, DeviceEvent& second) {
  use();
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, handle(first), handle(second)), "read a timer");
  return static_cast<double>(milliseconds) * 1e-3;
}

void Session::begin_capture() {
  use();
  check(cudaStreamBeginCapture(stream(Lane::compute), cudaStreamCaptureModeRelaxed), "begin to capture");
}

std::unique_ptr<DeviceGraph> Session::end_capture() {
  use();
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream(Lane::compute), &graph), "end the capture");
  auto ready = std::make_unique<Graph>(graph);
  check(cudaGraphUpload(ready->get(), stream(Lane::compute)), "upload a captured graph");
  return ready;
}

void Session::replay(DeviceGraph& graph) {
  use();
  check(cudaGraphLaunch(static_cast<Graph&>(graph).get(), stream(Lane::compute)), "launch a graph");
}

}  // namespace tandem::exec::cuda
