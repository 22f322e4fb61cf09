// cuBLASLt's functions that ops/cuda/blas.cpp calls, by their description in cublasLt.h, on the
// emulator. A kernel of ops/cuda multiplies.

#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "ops/cuda/tile_product.h"

using troupe::DType;
using troupe::cuda::Matrices;
using troupe::cuda::TileProduct;

namespace {

constexpr std::uint32_t alignment = 16;
constexpr std::size_t workspace_bytes = 512;
constexpr std::uint64_t known_algorithm = 7;

// What the opaque descriptors hold.
struct Layout {
  std::int32_t type, batches = 1;
  std::int64_t rows, columns, leading, step = 0;
};
struct Operation {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  std::int32_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t a_alignment = 256, b_alignment = 256, c_alignment = 256, d_alignment = 256;
};

template <class Held, class Opaque>
cublasStatus_t create(Opaque** made, const Held& held) {
  static_assert(sizeof(Held) <= sizeof(Opaque));
  *made = new Opaque{};
  std::memcpy(*made, &held, sizeof(held));
  return CUBLAS_STATUS_SUCCESS;
}

template <class Held>
Held held_by(const void* opaque) {
  Held held;
  std::memcpy(static_cast<void*>(&held), opaque, sizeof(held));
  return held;
}

/// Changes a member of what a descriptor holds.
template <class Held, class Member>
cublasStatus_t set(void* opaque, Member Held::*member, const void* value, std::size_t bytes) {
  auto held = held_by<Held>(opaque);
  if (bytes != sizeof(held.*member)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&(held.*member), value, bytes);
  std::memcpy(opaque, &held, sizeof(held));
  return CUBLAS_STATUS_SUCCESS;
}

std::optional<DType> dtype_of(std::int32_t type) {
  switch (type) {
    case CUDA_R_64F:
      return DType::f64;
    case CUDA_R_32F:
      return DType::f32;
    case CUDA_R_16BF:
      return DType::bf16;
    case CUDA_R_16F:
      return DType::f16;
    default:
      return std::nullopt;
  }
}

struct Matmul {
  Operation operation;
  Layout a, b, c, d;

  bool transposes_a() const { return operation.a == CUBLAS_OP_T; }
  bool transposes_b() const { return operation.b == CUBLAS_OP_T; }
  std::int64_t depth() const { return transposes_a() ? a.rows : a.columns; }
  bool has_bias() const { return operation.epilogue == CUBLASLT_EPILOGUE_BIAS; }

  bool fits() const {
    for (const Layout* one : {&a, &b, &c, &d})
      if (one->leading < one->rows || one->batches != d.batches) return false;
    return (transposes_a() ? a.columns : a.rows) == d.rows &&
           (transposes_b() ? b.rows : b.columns) == d.columns &&
           (transposes_b() ? b.columns : b.rows) == depth() && c.rows == d.rows &&
           c.columns == d.columns && c.leading == d.leading && c.step == d.step;
  }
  /// Of the types that cublasLt.h names for cublasLtMatmul.
  bool is_supported() const {
    if (a.type != b.type || c.type != d.type || !dtype_of(a.type)) return false;
    const auto bias = reinterpret_cast<std::uintptr_t>(operation.bias);
    if (has_bias() && (bias == 0 || bias % alignment != 0)) return false;
    switch (operation.compute) {
      case CUBLAS_COMPUTE_64F:
        return operation.scale == CUDA_R_64F && a.type == CUDA_R_64F && d.type == a.type &&
               !has_bias();
      case CUBLAS_COMPUTE_32F:
        return operation.scale == CUDA_R_32F && a.type != CUDA_R_64F &&
               (d.type == a.type || d.type == CUDA_R_32F);
      case CUBLAS_COMPUTE_32F_FAST_TF32:
        return operation.scale == CUDA_R_32F && a.type == CUDA_R_32F && d.type == a.type;
      default:
        return false;
    }
  }
};

Matmul matmul_of(const void* operation, const void* a, const void* b, const void* c,
                 const void* d) {
  return {held_by<Operation>(operation), held_by<Layout>(a), held_by<Layout>(b), held_by<Layout>(c),
          held_by<Layout>(d)};
}

/// A product that also writes to its workspace, as one does that sums parts there.
template <class T, class F, class Y>
__global__ void multiply(TileProduct<T, F, Y> product, std::byte* workspace) {
  if (blockIdx.x + blockIdx.y == 0)
    for (std::size_t i = threadIdx.x; i < workspace_bytes; i += blockDim.x)
      workspace[i] = std::byte{};
  troupe::cuda::tile_product_kernel(product);
}

/// A factor of a product in TF32: f32 without the last 13 bits of the mantissa, rounded to nearest.
struct Tf32 {
  float stored;
  explicit operator float() const {
    const auto bits = std::bit_cast<std::uint32_t>(stored);
    return std::isfinite(stored) ? std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu) : stored;
  }
};

/// op(A) or op(B). If it is not transposed, the elements of a column are contiguous.
template <class F>
Matrices<const F> factor(const Layout& layout, const void* data, bool transposed) {
  const Matrices<const F> plain{static_cast<const F*>(data), 1, layout.leading, layout.step};
  return transposed ? plain.transposed() : plain;
}

template <class T>
std::optional<bool> adds(const void* alpha, const void* beta) {
  const T factor = *static_cast<const T*>(beta);
  if (*static_cast<const T*>(alpha) != T(1) || (factor != T(0) && factor != T(1))) return {};
  return factor == T(1);
}

/// Transposed, D^T = op(B)^T op(A)^T, since the kernel adds one element of the bias to each column.
template <class T, class F, class Y>
cublasStatus_t launch(const Matmul& matmul, const void* alpha, const void* beta, const void* a,
                      const void* b, void* d, void* workspace, cudaStream_t stream) {
  using P = TileProduct<T, F, Y>;
  const auto add = adds<T>(alpha, beta);
  if (!add) return CUBLAS_STATUS_NOT_SUPPORTED;  // by this file
  const Layout& to = matmul.d;
  const P product{
      .a = factor<F>(matmul.b, b, matmul.transposes_b()).transposed(),
      .b = factor<F>(matmul.a, a, matmul.transposes_a()).transposed(),
      .c = {static_cast<Y*>(d), to.leading, 1, to.step},
      .count = to.batches,
      .m = to.columns,
      .n = to.rows,
      .k = matmul.depth(),
      .add = *add,
      .bias = matmul.has_bias() ? static_cast<const Y*>(matmul.operation.bias) : nullptr};
  const std::int64_t tiles =
      (product.m + P::tile - 1) / P::tile * ((product.n + P::tile - 1) / P::tile);
  const dim3 blocks(static_cast<unsigned>(tiles),
                    static_cast<unsigned>(std::min<std::int64_t>(product.count, 65'535)));
  const cudaError_t error = cuda_on_cpu::launch(
      stream, blocks, troupe::cuda::block_threads, cuda_on_cpu::Where::current(),
      [product, workspace] { multiply<T, F, Y>(product, static_cast<std::byte*>(workspace)); });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

/// Whether the library has algorithms at all; tests of what replaces them say no.
bool has_algorithms() {
  const char* given = std::getenv("CUDA_ON_CPU_CUBLASLT");
  return !given || std::string_view(given) != "0";
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static std::uint64_t one = known_algorithm;
  *handle = reinterpret_cast<cublasLtHandle_t>(&one);
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                               : "another status of cuBLASLt";
}
std::size_t cublasLtGetVersion() { return 0; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  return create(made, Layout{.type = type,
                             .rows = static_cast<std::int64_t>(rows),
                             .columns = static_cast<std::int64_t>(columns),
                             .leading = leading});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return set(layout, &Layout::batches, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return set(layout, &Layout::step, value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return create(made, Operation{.compute = compute, .scale = scale});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete operation;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(operation, &Operation::a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(operation, &Operation::b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(operation, &Operation::epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(operation, &Operation::bias, value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  return create(made, Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(preference, &Preference::workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(preference, &Preference::reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(preference, &Preference::a_alignment, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(preference, &Preference::b_alignment, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(preference, &Preference::c_alignment, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(preference, &Preference::d_alignment, value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t given, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  *found = 0;
  const Matmul matmul = matmul_of(operation, a, b, c, d);
  if (!matmul.fits() || requested < 1) return CUBLAS_STATUS_INVALID_VALUE;
  const auto p = held_by<Preference>(given);
  // The one algorithm adds parts in its workspace, in an order that does not vary.
  if (!has_algorithms() || !matmul.is_supported() || p.workspace < workspace_bytes ||
      p.reductions != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE ||
      std::min({p.a_alignment, p.b_alignment, p.c_alignment, p.d_alignment}) < alignment)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  results[0] = {.algo = {.data = {known_algorithm}},
                .workspaceSize = workspace_bytes,
                .state = CUBLAS_STATUS_SUCCESS};
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t given_bytes, cudaStream_t stream) {
  const Matmul matmul = matmul_of(operation, a_layout, b_layout, c_layout, d_layout);
  if (!matmul.fits() || c != d || algorithm->data[0] != known_algorithm ||
      given_bytes < workspace_bytes)
    return CUBLAS_STATUS_INVALID_VALUE;
  for (const void* one : {a, b, static_cast<const void*>(d), matmul.operation.bias,
                          static_cast<const void*>(workspace)})
    if (reinterpret_cast<std::uintptr_t>(one) % alignment != 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (!matmul.is_supported()) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (matmul.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
    return launch<float, Tf32, float>(matmul, alpha, beta, a, b, d, workspace, stream);
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  troupe::cuda::visit_stored(*dtype_of(matmul.a.type), [&]<class F, class T>(F, T) {
    const auto run = [&]<class Y>(Y) {
      status = launch<T, F, Y>(matmul, alpha, beta, a, b, d, workspace, stream);
    };
    matmul.d.type == matmul.a.type ? run(F{}) : run(T{});
  });
  return status;
}
