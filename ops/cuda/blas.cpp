#include "ops/cuda/blas.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "ops/cuda/library_error.h"
#include "ops/cuda/stream.h"
#include "ops/cuda/with_memory.h"
#include "ops/cuda/workspace.h"
#include "ops/gpu_sizes.h"
#include "runtime/text.h"

namespace troupe::cuda {
namespace {

void check(cublasStatus_t status, const char* operation) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw_error({"cuBLASLt", operation, cublasLtGetStatusString(status),
                 status == CUBLAS_STATUS_ALLOC_FAILED});
}

cublasLtHandle_t handle() {  // thread-safe; never destroyed: CUDA may have ended before
  static const cublasLtHandle_t handle = [] {
    cublasLtHandle_t created = nullptr;
    check(cublasLtCreate(&created), "start");
    return created;
  }();
  return handle;
}

template <auto destroy>
struct Destroy {
  void operator()(auto* object) const { destroy(object); }
};
template <class T, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, Destroy<destroy>>;
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Matrix = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// Of a row-major matrix, which cuBLAS takes for its transpose.
Matrix matrix(cudaDataType type, std::int64_t rows, std::int64_t columns, std::int64_t batches,
              std::int64_t step) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), columns),
        "describe a matrix");
  Matrix owned(made);
  const auto count = static_cast<std::int32_t>(batches);
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                         sizeof(count)),
        "describe a matrix");
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                         sizeof(step)),
        "describe a matrix");
  return owned;
}

/// y^T = b^T a^T, since cuBLAS's matrices are column-major.
struct Plan {
  Operation operation;
  Matrix left, right, to;  ///< b, a, y
  std::optional<cublasLtMatmulHeuristicResult_t> choice;
};

void set_operation(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                   bool transposed) {
  const cublasOperation_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)),
        "describe a product");
}

cudaDataType type_of(DType dtype) {
  if (dtype == DType::f64) return CUDA_R_64F;
  if (dtype == DType::bf16) return CUDA_R_16BF;
  return dtype == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

/// How a product is computed.
struct Arithmetic {
  ProductTypes types;
  bool tf32, bias;

  auto operator<=>(const Arithmetic&) const = default;
  cublasComputeType_t compute() const {
    if (types.factors == DType::f64) return CUBLAS_COMPUTE_64F;
    return tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  }
};

std::string text_of(const Product& p, const Arithmetic& how) {
  return fmt::format("{} of [{}, {}]{} by [{}, {}]{} in {}{}", counted(p.batches, "product"),
                     p.rows, p.depth, p.transposed_a ? " (transposed)" : "", p.depth, p.columns,
                     p.transposed_b ? " (transposed)" : "", name_of(how.types.factors),
                     how.tf32 ? " or TF32" : "");
}

Plan make_plan(const Product& p, const Arithmetic& how) {
  const cudaDataType type = type_of(how.types.factors);
  const cudaDataType sums = how.types.factors == DType::f64 ? CUDA_R_64F : CUDA_R_32F;
  cublasLtMatmulDesc_t operation = nullptr;
  check(cublasLtMatmulDescCreate(&operation, how.compute(), sums), "describe a product");
  Plan plan{.operation = Operation(operation), .left = {}, .right = {}, .to = {}, .choice = {}};
  set_operation(operation, CUBLASLT_MATMUL_DESC_TRANSA, p.transposed_b);
  set_operation(operation, CUBLASLT_MATMUL_DESC_TRANSB, p.transposed_a);
  if (how.bias) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    check(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                         sizeof(epilogue)),
          "describe a product");
  }
  plan.left = p.transposed_b ? matrix(type, p.columns, p.depth, p.batches, p.b_step)
                             : matrix(type, p.depth, p.columns, p.batches, p.b_step);
  plan.right = p.transposed_a ? matrix(type, p.depth, p.rows, p.batches, p.a_step)
                              : matrix(type, p.rows, p.depth, p.batches, p.a_step);
  // A bias has the type of the results by default.
  plan.to = matrix(type_of(how.types.results), p.rows, p.columns, p.batches, p.rows * p.columns);
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), "choose an algorithm");
  const Preference owned(preference);
  // No reduction in place by atomics: the order of additions is fixed.
  const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &product_workspace_limit,
                                             sizeof(product_workspace_limit)),
        "choose an algorithm");
  check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                             &reductions, sizeof(reductions)),
        "choose an algorithm");
  // Of all tensors: 16 bytes, whatever the addresses of this call, since the choice changes bits.
  const std::uint32_t aligned = 16;
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &aligned, sizeof(aligned)),
          "choose an algorithm");
  if (how.bias) {  // its alignment counts; nothing is read there
    const void* like = reinterpret_cast<const void*>(std::uintptr_t{16});
    check(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &like,
                                         sizeof(like)),
          "describe a product");
  }
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle(), operation, plan.left.get(), plan.right.get(),
                                     plan.to.get(), plan.to.get(), preference, 1, &best, &found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "choose an algorithm");
  if (status == CUBLAS_STATUS_SUCCESS && found == 1 && best.state == CUBLAS_STATUS_SUCCESS)
    plan.choice = best;
  else
    warn_once(fmt::format("cuBLASLt has no algorithm for {}, so a slower kernel computes it",
                          text_of(p, how)));
  return plan;
}

/// The plans of the process, made once for each kind of product.
const Plan& plan_of(const Product& p, const Arithmetic& how) {
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, std::int64_t,
                         std::int64_t, std::int64_t, Arithmetic>;
  static std::mutex mutex;
  static auto* plans = new std::map<Key, Plan>;
  const Key key{p.rows,   p.depth,  p.columns, p.transposed_a, p.transposed_b, p.batches,
                p.a_step, p.b_step, how};
  const std::lock_guard lock(mutex);
  const auto found = plans->find(key);
  return found != plans->end() ? found->second
                               : plans->emplace(key, make_plan(p, how)).first->second;
}

/// The factor of a product or of what is added to, in the type of the sums.
struct Factor {
  double f64;
  float f32;

  explicit Factor(double value) : f64(value), f32(static_cast<float>(value)) {}
  const void* of(DType factors) const {
    return factors == DType::f64 ? static_cast<const void*>(&f64) : &f32;
  }
};

}  // namespace

bool multiply_by_library(const Stream& stream, const Product& p, const ProductTypes& types,
                         const void* a, const void* b, const void* bias, void* y) {
  const DType factors = types.factors;
  if (p.depth == 0 || p.batches > INT32_MAX || (factors == DType::f64 && bias)) return false;
  for (const void* at : {a, b, bias, static_cast<const void*>(y)})
    if (reinterpret_cast<std::uintptr_t>(at) % 16 != 0) return false;
  const bool tf32 = stream.matmul_tf32 && factors == DType::f32;
  const cudaStream_t given = native(stream);
  return with_memory(stream, [&] {
    const Plan& plan = plan_of(p, {types, tf32, bias != nullptr});
    if (!plan.choice) return false;
    // A plan is shared by actors: the address of the bias belongs to the call.
    cublasLtMatmulDescOpaque_t operation = *plan.operation;
    if (bias)
      check(cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                           sizeof(bias)),
            "take a bias");
    const Factor alpha(1.0), beta(p.adds ? 1.0 : 0.0);
    const Tensor memory = workspace(stream, plan.choice->workspaceSize);
    check(cublasLtMatmul(handle(), &operation, alpha.of(factors), b, plan.left.get(), a,
                         plan.right.get(), beta.of(factors), y, plan.to.get(), y, plan.to.get(),
                         &plan.choice->algo, memory.raw(), plan.choice->workspaceSize, given),
          "multiply");
    return true;
  });
}

std::string blas_version() {
  const std::size_t version = cublasLtGetVersion();  // 130100
  return fmt::format("cuBLASLt {}.{}.{}", version / 10'000, version / 100 % 100, version % 100);
}

}  // namespace troupe::cuda
