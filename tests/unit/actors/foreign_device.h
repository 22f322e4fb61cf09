#pragma once
#include "runtime/tensor/device.h"

namespace troupe::testing {

/// A device whose memory only kernels can touch. It computes with the
/// CPU's kernels, and so gives the CPU's bits. Its memory is mapped without access (PROT_NONE) and
/// opened while a kernel runs. Any other access by the host ends the process with SIGSEGV, after a
/// message that names the violation and the calls that led to it. A kernel that gets a tensor of
/// the CPU throws an error that names the kernel and the argument.
///
/// While a kernel runs, other threads can touch the memory too: run one thread to find everything.
Device foreign_device();

}  // namespace troupe::testing
