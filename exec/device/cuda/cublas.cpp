// SPDX-License-Identifier: Apache-2.0
// Products by cuBLASLt. Ours are row by row and its column by column: it is asked for the transposed product
// with the operands exchanged, and no element moves.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/device/cuda/choices.h"
#include "exec/device/cuda/fp8.h"
#include "exec/device/cuda/half.h"
#include "exec/device/cuda/session.h"
#include "exec/device/cuda/trial.h"

namespace tandem::exec::cuda {

namespace {

/// Products of fp32 operands are of TF32 wherever less than fp32 is asked for.
cublasComputeType_t compute_type(Precision p, cudaDataType_t input) {
  return p == Precision::fp32 || input != CUDA_R_32F ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32;
}

/// Shared so that a prepared call can be copied.
using Layout = std::shared_ptr<cublasLtMatrixLayoutOpaque_t>;
/// `batch` matrices, `apart` elements from one to the next.
Layout layout(cudaDataType_t type, int64_t rows, int64_t columns, int64_t stride, int64_t batch,
              int64_t apart) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                                   stride),
        "describe a matrix");
  Layout out{made, [](cublasLtMatrixLayout_t p) { cublasLtMatrixLayoutDestroy(p); }};
  if (batch == 1) return out;
  const auto say = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    check(cublasLtMatrixLayoutSetAttribute(made, attribute, &value, sizeof(value)), "describe a batch");
  };
  say(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batch));
  say(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, apart);
  return out;
}

/// What lies in memory: two inputs, and the result with its bias. Sums are of fp32.
struct Types {
  cudaDataType_t in = CUDA_R_32F, out = CUDA_R_32F;
  std::optional<cudaDataType_t> second = std::nullopt;  ///< input b, where it is of another format
  bool fast = false;  ///< of fp8: sums of fewer bits (CUBLASLT_MATMUL_DESC_FAST_ACCUM)
};

cudaDataType_t type_of(Precision stored) {
  return stored == Precision::bf16 ? CUDA_R_16BF : stored == Precision::fp16 ? CUDA_R_16F : CUDA_R_32F;
}

std::size_t bytes_of(cudaDataType_t type) {
  return type == CUDA_R_32F ? 4 : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : 1;
}

/// A product planned for operands that begin at multiples of that many bytes.
class Matmul {
 public:
  Matmul(const Product& p, const Types& types, bool bias, uint32_t alignment, Libraries& libraries)
      : libraries_(libraries), product_(p), types_(types), alignment_(alignment), bias_(bias), beta_(p.beta) {
    cublasLtMatmulDesc_t what = nullptr;
    check(cublasLtMatmulDescCreate(&what, compute_type(libraries.precision, types.in), CUDA_R_32F),
          "describe a product");
    what_ = {what, [](cublasLtMatmulDesc_t d) { cublasLtMatmulDescDestroy(d); }};
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (bias) set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    // Else it is the output's; except with fp8 it is never fp32.
    if (bias && types.second) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
    if (types.fast) set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
    const cudaDataType_t second = types.second.value_or(types.in);
    a_ = layout(second, p.transpose_b ? p.k : p.n, p.transpose_b ? p.n : p.k, p.ldb, p.batch, p.stride_b);
    b_ = layout(types.in, p.transpose_a ? p.m : p.k, p.transpose_a ? p.k : p.m, p.lda, p.batch, p.stride_a);
    c_ = layout(types.out, p.n, p.m, p.ldc, p.batch, p.stride_c);
    choose();
  }

  bool usable() const { return found_; }
  int64_t workspace() const { return found_ ? workspace_ : 0; }
  /// The library's number of the algorithm.
  std::string engine() const {
    int id = -1;
    std::size_t written = 0;
    if (!found_ || cublasLtMatmulAlgoConfigGetAttribute(&algorithm_, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof(id),
                                                        &written) != CUBLAS_STATUS_SUCCESS)
      return "";
    return "algorithm " + std::to_string(id);
  }
  bool fits(const void* pointer) const { return reinterpret_cast<uintptr_t>(pointer) % alignment_ == 0; }

  /// What inputs a and b of fp8 are multiplied by, in device memory.
  void scale(const float* a, const float* b) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, b);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, a);
  }
  void run(float* c, const float* a, const float* b, const float* bias, Stream stream) {
    check(multiply(c, a, b, bias, algorithm_, libraries_.workspace, libraries_.workspace_bytes, stream),
          "multiply");
  }

 private:
  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check(cublasLtMatmulDescSetAttribute(what_.get(), attribute, &value, sizeof(value)),
          "describe a product");
  }
  /// What is kept of earlier runs, if the library still takes it; else the fastest of its first proposals.
  void choose() {
    const std::lock_guard guard(one_trial());
    const std::string chip = fmt::format("{} cuBLASLt {}", libraries_.chip, cublasLtGetVersion());
    Choices& choices = Choices::of_process();
    // It depends on how the bias is aligned: an address as bad as any that will come stands for it.
    const auto stand_in = static_cast<uintptr_t>(4096 + alignment_);
    if (bias_) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, stand_in);
    std::vector<Result> proposed;
    if (const auto known = choices.find(chip, key())) proposed = known_result(*known);
    if (proposed.empty()) proposed = proposals();
    const std::optional<std::size_t> best = fastest(proposed);
    if (!best) return;
    found_ = true;
    algorithm_ = proposed[*best].algo;
    workspace_ = static_cast<int64_t>(proposed[*best].workspaceSize);
    choices.keep(chip, key(), Way(std::begin(algorithm_.data), std::end(algorithm_.data)));
  }

  using Result = cublasLtMatmulHeuristicResult_t;

  /// All that a choice is good for.
  std::vector<int64_t> key() const {
    const Product& p = product_;
    std::vector<int64_t> out{p.m,
                             p.n,
                             p.k,
                             p.lda,
                             p.ldb,
                             p.ldc,
                             p.transpose_a ? 1 : 0,
                             p.transpose_b ? 1 : 0,
                             p.beta != 0 ? 1 : 0,
                             bias_ ? 1 : 0,
                             alignment_,
                             types_.in,
                             types_.second.value_or(types_.in),
                             types_.out,
                             compute_type(libraries_.precision, types_.in)};
    if (types_.fast) out.push_back(1);
    if (p.batch > 1) out.insert(out.end(), {p.batch, p.stride_a, p.stride_b, p.stride_c});
    return out;
  }

  std::vector<Result> known_result(const Way& way) {
    Result out{};
    if (way.size() != std::size(out.algo.data)) return {};
    std::copy(way.begin(), way.end(), std::begin(out.algo.data));
    const cublasLtMatmulAlgo_t algorithm = out.algo;
    if (cublasLtMatmulAlgoCheck(libraries_.blas, what_.get(), a_.get(), b_.get(), c_.get(), c_.get(),
                                &algorithm, &out) != CUBLAS_STATUS_SUCCESS ||
        out.state != CUBLAS_STATUS_SUCCESS || out.workspaceSize > kLeastWorkspace)
      return {};
    out.algo = algorithm;
    return {out};
  }

  /// What is of 2 bytes or 1 lies at multiples of 64 bytes: a copy in scratch, or a tensor of the arena.
  uint32_t input_alignment() const { return types_.in == CUDA_R_32F ? alignment_ : 64; }

  std::vector<Result> proposals() {
    cublasLtMatmulPreference_t wish = nullptr;
    check(cublasLtMatmulPreferenceCreate(&wish), "choose a product");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      return cublasLtMatmulPreferenceSetAttribute(wish, attribute, &value, sizeof(value)) ==
             CUBLAS_STATUS_SUCCESS;
    };
    bool said = prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kLeastWorkspace));
    for (const auto which :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES})
      said = prefer(which, input_alignment()) && said;
    for (const auto which :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      said = prefer(which, alignment_) && said;
    std::vector<Result> out(kMostTried);
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(libraries_.blas, what_.get(), a_.get(), b_.get(), c_.get(), c_.get(),
                                       wish, static_cast<int>(out.size()), out.data(), &count);
    cublasLtMatmulPreferenceDestroy(wish);
    out.resize(said && status == CUBLAS_STATUS_SUCCESS ? static_cast<std::size_t>(count) : 0);
    std::erase_if(out, [](const Result& r) { return r.state != CUBLAS_STATUS_SUCCESS; });
    return out;
  }

  /// By trial, on operands that lie as badly as any that will come; the first where there is no room for one.
  std::optional<std::size_t> fastest(const std::vector<Result>& proposed) {
    if (proposed.empty()) return std::nullopt;
    try {
      const Product& p = product_;
      const cudaStream_t stream = stream_of(libraries_);
      const std::size_t beside = 256;  // of which a part is left out in front
      const auto room = [&](int64_t elements, cudaDataType_t type) {
        return static_cast<std::size_t>(elements) * bytes_of(type) + beside;
      };
      const int64_t others = p.batch - 1;
      const TrialMemory a(room(others * p.stride_a + (p.transpose_a ? p.k : p.m) * p.lda, types_.in)),
          b(room(others * p.stride_b + (p.transpose_b ? p.n : p.k) * p.ldb,
                 types_.second.value_or(types_.in))),
          c(room(others * p.stride_c + p.m * p.ldc, types_.out)), bias(room(p.n, CUDA_R_32F));
      if (types_.second) scale(bias.at(), bias.at());
      const auto odd = [&](uint32_t alignment) -> std::size_t { return alignment < beside ? alignment : 0; };
      const auto run = [&](std::size_t i) {
        return multiply(c.at(odd(alignment_)), a.at(odd(input_alignment())), b.at(odd(input_alignment())),
                        bias_ ? bias.at(odd(alignment_)) : nullptr, proposed[i].algo, libraries_.workspace,
                        libraries_.workspace_bytes, stream) == CUBLAS_STATUS_SUCCESS;
      };
      return fastest_of(proposed.size(), run, stream, libraries_.workspace, libraries_.workspace_bytes);
    } catch (const NoRoom&) {
      return 0;
    }
  }

  cublasStatus_t multiply(float* c, const float* a, const float* b, const float* bias,
                          const cublasLtMatmulAlgo_t& algorithm, void* workspace, std::size_t bytes,
                          cudaStream_t stream) {
    static constexpr float kOne = 1;
    if (bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    return cublasLtMatmul(libraries_.blas, what_.get(), &kOne, b, a_.get(), a, b_.get(), &beta_, c, c_.get(),
                          c, c_.get(), &algorithm, workspace, bytes, stream);
  }

  static constexpr std::size_t kMostTried = 4;

  Libraries& libraries_;
  Product product_;
  Types types_;
  uint32_t alignment_;
  bool bias_;
  float beta_;
  std::shared_ptr<cublasLtMatmulDescOpaque_t> what_;
  Layout a_, b_, c_;
  cublasLtMatmulAlgo_t algorithm_{};
  int64_t workspace_ = 0;
  bool found_ = false;
};

/// One for operands that lie well, one for any.
struct Choice {
  Matmul well, any;
  Choice(const Product& p, const Types& types, bool bias, Libraries& libraries)
      : well(p, types, bias, 16, libraries), any(p, types, bias, 4, libraries) {}

  void note(const Call& call, Libraries& libraries) const {
    const Matmul& best = well.usable() ? well : any;
    note_choice(libraries, call, "cuBLASLt", best.engine(), best.workspace(),
                best.usable() ? "" : "no algorithm for these layouts");
  }

  /// Null: the library knows no way.
  Matmul* of(std::initializer_list<const void*> pointers) {
    if (well.usable() &&
        std::all_of(pointers.begin(), pointers.end(), [&](const void* p) { return well.fits(p); }))
      return &well;
    return any.usable() ? &any : nullptr;
  }
};

/// Sizes that are no multiple of 16 bytes, where cuBLASLt has only slow kernels (by gpt2's 50,257 classes in
/// bf16: 6.8 ms on an H200 in place of 0.9). Operands go through scratch then, with zeros up to the next
/// multiple, if each of their elements is used often enough to pay for the copy.
class Padding {
 public:
  /// Changes the product's sizes and strides.
  Padding(Product& p, const Types& types, bool bias, Precision precision) {
    if (precision == Precision::fp32) return;  // without tensor cores, which alone want it
    const auto step = static_cast<int64_t>(16 / bytes_of(types.in));
    const auto up = [step](int64_t n) { return (n + step - 1) / step * step; };
    // A result that is added to would have to be copied in as well; a bias of 4 bytes would be read beyond
    // its end.
    const bool alone = p.beta == 0 && !(bias && types.out == CUDA_R_32F);
    Product q = p;
    if (alone) q.n = up(p.n);
    if (alone && p.transpose_a) q.m = up(p.m);
    if (!p.transpose_a || p.transpose_b) q.k = up(p.k);
    const auto lay = [&](std::size_t k, int64_t rows, int64_t columns, int64_t stride, int64_t to_rows,
                         int64_t& to_stride, cudaDataType_t type) {
      const int64_t to_columns = k == 0 ? q.n : up(columns);
      if (to_rows == rows && to_columns == columns) return;
      const auto bytes = static_cast<int64_t>(bytes_of(type));
      of_[k] = {rows, columns, stride, to_rows, to_columns, scratch_, bytes_of(type)};
      scratch_ += (to_rows * to_columns * bytes + 255) / 256 * 64;
      to_stride = to_columns;
    };
    lay(0, p.m, p.n, p.ldc, q.m, q.ldc, types.out);
    lay(1, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, p.transpose_a ? q.k : q.m, q.lda,
        types.in);
    lay(2, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, p.transpose_b ? q.n : q.k, q.ldb,
        types.in);
    int64_t copied = 0;
    for (const Operand& o : of_) copied += o.to_rows * o.to_columns;
    if (copied == 0 || copied * kUsesForACopy > p.m * p.n * p.k) {
      of_ = {};
      scratch_ = 0;
    } else {
      p = q;
    }
  }
  int64_t scratch() const { return scratch_; }
  /// Where the product has operand k.
  float* at(std::size_t k, const Launch& l) const {
    return of_[k].moves() ? l.scratch + of_[k].place : l.operands[k];
  }
  void fill(const Launch& l) const {
    for (const std::size_t k : {1U, 2U}) {
      const Operand& o = of_[k];
      if (o.moves())
        copy_rows({at(k, l), o.to_rows, o.to_columns, o.to_columns},
                  {l.operands[k], o.rows, o.columns, o.stride}, o.bytes, l.stream);
    }
  }
  void take(const Launch& l) const {
    const Operand& o = of_[0];
    if (o.moves())
      copy_rows({l.operands[0], o.rows, o.columns, o.stride},
                {at(0, l), o.to_rows, o.to_columns, o.to_columns}, o.bytes, l.stream);
  }

 private:
  static constexpr int64_t kUsesForACopy = 128;
  struct Operand {
    int64_t rows = 0, columns = 0, stride = 0;  ///< as they are
    int64_t to_rows = 0, to_columns = 0, place = 0;
    std::size_t bytes = 0;
    bool moves() const { return to_rows > 0; }
  };
  std::array<Operand, 3> of_;
  int64_t scratch_ = 0;
};

/// `plain` stands in where the library knows no way.
Prepared gemm(const Call& call, const Types& types, Libraries& libraries, const Prepared& plain) {
  Product p(call);
  const bool bias = call.operands.size() > 3;
  const Padding padding(p, types, bias, libraries.precision);
  const auto choice = std::make_shared<Choice>(p, types, bias, libraries);
  choice->note(call, libraries);
  return {[choice, plain, bias, padding](const Launch& l) {
            float* const* o = l.operands;
            float *c = padding.at(0, l), *a = padding.at(1, l), *b = padding.at(2, l);
            Matmul* matmul = choice->of({c, a, b, bias ? o[3] : o[0]});
            if (matmul == nullptr) return plain.run(l);
            padding.fill(l);
            matmul->run(c, a, b, bias ? o[3] : nullptr, l.stream);
            padding.take(l);
          },
          std::max(padding.scratch(), plain.scratch)};
}

/// TANDEM_CUDA_FP8_FAST=1: forward products sum fast, as PyTorch's and Transformer Engine's do.
bool sums_fast() {
  static const bool asked = [] {
    const char* const value = std::getenv("TANDEM_CUDA_FP8_FAST");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return asked;
}

/// Inputs as multiply_fp8 lays them: rows of both are packed, k innermost.
Prepared gemm_fp8(const Call& call, Libraries& libraries) {
  const auto format = [&](unsigned operand) {
    return (call.gradients >> operand & 1U) != 0 ? CUDA_R_8F_E5M2 : CUDA_R_8F_E4M3;
  };
  Product p;
  p.transpose_b = true;
  p.m = call.shape[0];
  p.n = p.ldc = call.shape[1];
  p.k = p.lda = p.ldb = call.shape[2];
  p.beta = call.shape[5] != 0 ? 1.0F : 0.0F;
  const bool bias = call.operands.size() > 3;
  const bool fast = sums_fast() && call.pass == Pass::forward;
  const Types types{format(1), call.half(0) ? CUDA_R_16BF : CUDA_R_32F, format(2), fast};
  // Results and parameters' gradients begin at multiples of 4 bytes: such that lie worse are our own
  // kernels'.
  const auto matmul = std::make_shared<Matmul>(p, types, bias, 16, libraries);
  const Prepared plain = fallback_fp8(call);
  note_choice(libraries, call, "cuBLASLt", matmul->engine(), matmul->workspace(),
              matmul->usable() ? "" : "no algorithm for these layouts in fp8");
  return {[matmul, plain](const Launch& l) {
    float* const* o = l.operands;
    if (!matmul->usable() || !matmul->fits(o[0]) || (o[3] != nullptr && !matmul->fits(o[3])))
      return plain.run(l);
    matmul->scale(o[4], o[5]);
    matmul->run(o[0], o[1], o[2], o[3], l.stream);
  }};
}

}  // namespace

Prepared library_gemm(const Call& call, Libraries& libraries) {
  const Precision precision = libraries.precision;
  if (libraries.fp8 && multiplies_fp8(call))
    return multiply_fp8(call, [&](const Call& c) { return gemm_fp8(c, libraries); });
  if (!is_half(precision)) return gemm(call, {}, libraries, prepare_own(call, precision));
  const cudaDataType_t in = type_of(precision);
  return multiply_half(call, precision, [&](const Call& c) {
    return gemm(c, {in, c.half(0) ? in : CUDA_R_32F}, libraries, fallback_half(c, precision));
  });
}

RunProduct library_product(const Product& product, Function function, Libraries& libraries) {
  const auto choice = std::make_shared<Choice>(product, Types{}, false, libraries);
  Call call;
  call.function = function;
  choice->note(call, libraries);
  libraries.choices.back().flops =
      2.0 * static_cast<double>(product.m * product.n) * static_cast<double>(product.k);
  const RunProduct plain = fallback_product(product);
  return [choice, plain](float* c, const float* a, const float* b, const Launch& l) {
    Matmul* matmul = choice->of({a, b, c});
    if (matmul == nullptr) return plain(c, a, b, l);
    matmul->run(c, a, b, nullptr, l.stream);
  };
}

RunProduct aligned_product(const Product& product, Precision stored, Libraries& libraries,
                           ProductsUsed& used) {
  const auto matmul =
      std::make_shared<Matmul>(product, Types{type_of(stored), type_of(stored)}, false, 16, libraries);
  if (!matmul->usable()) {
    used.refused = true;
    return fallback_product(product);
  }
  used.engines.insert(matmul->engine());
  used.workspace = std::max(used.workspace, matmul->workspace());
  return [matmul](float* c, const float* a, const float* b, const Launch& l) {
    matmul->run(c, a, b, nullptr, l.stream);
  };
}

}  // namespace tandem::exec::cuda
