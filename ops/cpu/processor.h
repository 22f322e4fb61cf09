#pragma once
#include <cstdint>
#include <string>

namespace troupe::cpu {

/// The vendors whose processors the kernels were measured on. Processors of other vendors use AMD's
/// rules.
enum class ProcessorMaker : std::uint8_t { amd, intel };
ProcessorMaker maker_of_this_processor();

/// Whether oneDNN may use AVX-512 here: the processor has it, and ONEDNN_MAX_CPU_ISA allows it.
bool has_avx512();

/// Whether oneDNN may use instructions for bf16 here: AVX-512 BF16 or AMX, as has_avx512().
bool has_bf16();

/// Whether oneDNN may multiply tiles of bf16 (Intel's AMX) here, as has_avx512().
bool has_amx();

/// The fingerprint of this processor (Backend::fingerprint), such as "intel with AVX-512 and AMX".
std::string arithmetic_of_this_processor();

}  // namespace troupe::cpu
