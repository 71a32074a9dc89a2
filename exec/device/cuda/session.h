// SPDX-License-Identifier: Apache-2.0
#pragma once
// One instance's GPU: streams, memory, and the handles of NVIDIA's libraries. Internal to the plugin.
//
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "exec/device/backend.h"
#include "exec/device/cuda/kernel.h"

namespace tandem::exec::cuda {

/// Throw DeviceError with what was tried and the library's own words.
void check(cudaError_t status, const char* what);
void check(cublasStatus_t status, const char* what);
void check(cudnnStatus_t status, const char* what);

struct PlanCache;  // cudnn_plan.h

/// What computes all attentions of one shape.
struct AttentionPlan {
  Prepared prepared;
  LibraryChoice choice;  ///< where it was a question: its function, library, engine, workspace, refusal
};

/// What library calls share in one session. One thread at a time prepares or launches them: only the compute
/// lane does.
struct Libraries {
  cublasLtHandle_t blas = nullptr;
  cudnnHandle_t cudnn = nullptr;
  /// Read when a call is launched: it grows, and moves, while others are prepared.
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  std::string chip;                  ///< name, compute capability, processors: what plans are good for
  std::shared_ptr<PlanCache> plans;  ///< of cuDNN, made with this session's handle
  std::map<std::vector<int64_t>, AttentionPlan> attentions;  ///< in 4 bytes, by function and shape
  std::vector<LibraryChoice> choices;     ///< one for each call that a library was asked for
  Precision precision = Precision::fp32;  ///< bf16 for fp8
  bool fp8 = false;                       ///< products of fp8 where they can be
  int device = 0;
};

/// The workspace that products are planned for, and any plan may want.
constexpr std::size_t kLeastWorkspace = 256UL << 20;
/// Bytes that a plan may want: a quarter of what is free and held now, 256 MiB at least.
std::size_t workspace_limit(const Libraries& libraries);
/// Makes the workspace so large at least. The device is idle afterwards.
void grow_workspace(Libraries& libraries, std::size_t bytes);
/// The compute lane's.
cudaStream_t stream_of(const Libraries& libraries);
/// Appends to `libraries.choices`.
void note_choice(Libraries& libraries, const Call& call, const char* name, std::string engine,
                 int64_t workspace, std::string refused);

/// cublas.cpp. Falls back on our own product where the library knows no way.
Prepared library_gemm(const Call& call, Libraries& libraries);
/// One of the products that `function` is made of.
RunProduct library_product(const Product& product, Function function, Libraries& libraries);
/// What computes products that belong together.
struct ProductsUsed {
  std::set<std::string> engines;
  int64_t workspace = 0;
  bool refused = false;  ///< some have no algorithm, our own compute them
};
/// cublas.cpp: of operands that begin at multiples of 16 bytes (64, where they are of 2), all stored in this
/// format. Adds to `used`; what is refused is computed only where operands are of 4 bytes.
RunProduct aligned_product(const Product& product, Precision stored, Libraries& libraries,
                           ProductsUsed& used);
/// cublas_attention.cpp: both passes in 4 bytes; by products between which softmax is ours, or by our own
/// tiles where these are faster.
Prepared attention_of_floats(const Call& call, Libraries& libraries);
/// cudnn_attention.cpp: both passes; our own where cuDNN's fused kernels do not do it (fused_attention.h).
Prepared library_attention(const Call& call, Libraries& libraries);
/// cudnn.cpp: a convolution of any pass; our own where cuDNN has none.
Prepared library_conv(const Call& call, Libraries& libraries);

class Session : public DeviceSession {
 public:
  explicit Session(const DeviceOptions& options);
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  float* allocate(int64_t elements) override;
  uint32_t prepare(const Call& call) override;
  std::vector<LibraryChoice> choices() const override { return libraries_.choices; }
  void launch(uint32_t prepared, std::span<float* const> operands, const IterationState& step,
              Lane lane) override;
  void copy(float* to, const float* from, int64_t elements, Lane lane) override;
  void accumulate(float* to, const float* from, int64_t elements, Lane lane) override;
  void scale(float* values, float factor, int64_t elements, Lane lane) override;
  void narrow(float* to, const float* from, int64_t elements, Lane lane) override;
  void renew(const CopiedRange& range, const float* vector, Lane lane) override;
  void upcast(float* to, const float* from, int64_t elements, Lane lane) override;
  void narrow_gradients(float* to, const float* from, int64_t elements, Lane lane) override;
  void upcast_gradients(float* to, const float* from, int64_t elements, Lane lane) override;
  void accumulate_half(float* to, const float* from, int64_t words, Lane lane) override;
  void unscale(float* gradients, int64_t elements, bool alone, Lane lane) override;
  void judge(const float* gradients, int64_t elements, Lane lane) override;
  void upload(float* to, const float* host, int64_t elements) override;
  void download(float* host, const float* from, int64_t elements) override;
  void synchronize(Lane lane) override;
  float* allocate_host(int64_t elements) override;
  void load(float* to, const float* host, int64_t elements, Lane lane) override;
  void save(float* host, const float* from, int64_t elements, Lane lane) override;
  void set_state(const IterationState& state, Lane lane) override;
  std::unique_ptr<DeviceEvent> make_event(bool timed) override;
  void record(DeviceEvent& event, Lane lane) override;
  void wait(Lane lane, DeviceEvent& event) override;
  void synchronize(DeviceEvent& event) override;
  bool finished(DeviceEvent& event) override;
  double seconds_between(DeviceEvent& first, DeviceEvent& second) override;
  void begin_capture() override;
  std::unique_ptr<DeviceGraph> end_capture() override;
  void replay(DeviceGraph& graph) override;

  int gpu() const { return libraries_.device; }
  cudaStream_t stream(Lane lane) const { return streams_[static_cast<std::size_t>(lane)]; }
  /// Makes this session's GPU the calling thread's.
  void use() const;

 private:
  void make_streams();
  void close() noexcept;
  void start_loss_scale(float scale);
  void require_fp8() const;
  void reserve(int64_t scratch);
  void add(float* to, const float* from, int64_t words, bool half, Lane lane);
  bool direct(int other) const;  ///< this GPU's kernels read that one's memory

  std::array<cudaStream_t, kLanes> streams_{};
  cudaStream_t transfer_ = nullptr;  ///< of upload and download
  Libraries libraries_;
  State* states_ = nullptr;
  LossScale* loss_ = nullptr;  ///< null but in fp16
  float* scratch_ = nullptr;
  int64_t scratch_elements_ = 0;
  std::vector<void*> owned_, owned_host_;
  struct Made {
    Prepared prepared;
    Function function;
    float* kept = nullptr;
  };
  std::vector<Made> made_;
  PeerRoute route_ = PeerRoute::automatic;
  /// Of lanes that sum: what comes from a GPU whose memory cannot be reached, on its way there.
  std::array<float*, kLanes> staging_{};
};

/// GPUs whose memory this one reaches directly.
bool reaches(int gpu, int other);

/// kernel_list.cpp: loads all own kernels on the device, once a process; `device` is the calling thread's.
/// Throws DeviceError.
void load_kernels(int device);
int64_t kernel_count();  ///< how many there are

/// nccl.cpp: null where NCCL is absent, or two members share a GPU. NCCL takes one route for all that a
/// process does (its environment variables NCCL_P2P_DISABLE and NCCL_P2P_LEVEL, set here): another one throws
/// DeviceError.
std::unique_ptr<DeviceGroup> nccl_group(const GroupSetup& setup);
std::string nccl_id(PeerRoute route);  ///< ncclUniqueId of a new group; "" without NCCL
std::string nccl_version();            ///< "" without it

}  // namespace tandem::exec::cuda
