#pragma once
#include <string>

namespace troupe {

/// What this program consists of, a line each: the compiler, the libraries that compute and
/// communicate, and the CPU. Without a newline at the end.
std::string components_text();

/// Whether this program has CUDA, and the GPUs of this host. Asks the driver.
std::string gpus_text();

/// The host of this process, such as "node1: AMD EPYC 9654, x86_64, 8 cores". The cores are those
/// that this process may use.
std::string host_text();

}  // namespace troupe
