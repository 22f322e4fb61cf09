#include "ops/cpu/processor.h"

#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.hpp>

namespace troupe::cpu {

ProcessorMaker maker_of_this_processor() {
#if defined(__x86_64__)
  if (__builtin_cpu_is("intel")) return ProcessorMaker::intel;
#endif
  return ProcessorMaker::amd;
}

namespace {

bool has(dnnl::cpu_isa isa) {
  const int wanted = static_cast<int>(isa);
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

}  // namespace

bool has_avx512() { return has(dnnl::cpu_isa::avx512_core); }
bool has_bf16() { return has(dnnl::cpu_isa::avx512_core_bf16); }
bool has_amx() { return has(dnnl::cpu_isa::avx512_core_amx); }

std::string arithmetic_of_this_processor() {
  return fmt::format("{} with{} AVX-512{}",
                     maker_of_this_processor() == ProcessorMaker::intel ? "intel" : "amd",
                     has_avx512() ? "" : "out", has_amx() ? " and AMX" : "");
}

}  // namespace troupe::cpu
