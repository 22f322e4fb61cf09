#include "ops/cpu/backend.h"

#include "ops/cpu/f64_kernels.h"
#include "ops/cpu/kernel_caches.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/processor.h"
#include "ops/reference/kernels.h"

namespace troupe {
namespace cpu {
namespace {

constexpr KernelTable f32_kernels{
#define TROUPE_KERNEL(name, signature) .name = cpu::name,
#include "ops/kernel_list.inc"
};

constexpr KernelTable f64_kernels = [] {
  KernelTable table{
#define TROUPE_KERNEL(name, signature) .name = reference::name,
#include "ops/kernel_list.inc"
  };
  table.accumulate = accumulate_f64;
  table.activate = activate_f64;
  table.activate_backward = activate_backward_f64;
  table.adam_step = adam_step_f64;
  table.arithmetic = arithmetic_f64;
  table.attention = attention;
  table.attention_backward = attention_backward;
  table.batch_norm = batch_norm;
  table.batch_norm_backward = batch_norm_backward;
  table.channel_moments = channel_moments;
  table.convolution = convolution_f64;
  table.copy_elements = copy_elements;
  table.dropout = dropout;
  table.layer_norm = layer_norm_f64;
  table.layer_norm_backward = layer_norm_backward_f64;
  table.linear = linear_f64;
  table.matmul = matmul;
  table.max_pool = max_pool;
  table.max_pool_backward = max_pool_backward;
  table.momentum_step = momentum_step_f64;
  return table;
}();

}  // namespace

KernelCaches& kernel_caches() {
  static auto* caches = new KernelCaches;
  return *caches;
}

}  // namespace cpu

const Backend& cpu_backend() {
  static constexpr Backend all{
      .name = "cpu",
      .in_cpu_memory = true,
      .allocator = [](std::int16_t) -> CachingAllocator& {
        return CachingAllocator::of(Device::cpu());
      },
      .kernels = [](DType dtype) -> const KernelTable* {
        if (dtype == DType::f32) return &cpu::f32_kernels;
        if (dtype == DType::f64) return &cpu::f64_kernels;
        return nullptr;
      },
      .multiplies =
          [](DType products) {
            return products == DType::f32 || (products == DType::bf16 && cpu::has_bf16());
          },
      .take_scratch =
          [](std::int16_t) { return std::set{cpu::kernel_caches().scratch.take_peak()}; },
      .fingerprint = cpu::arithmetic_of_this_processor};
  return all;
}

}  // namespace troupe
