#pragma once
#include <string>
#include <vector>

namespace cuda_on_cpu {

/// A mistake of the code that runs on the emulator. The first ones are also printed. Thread-safe.
void report(std::string text);
int errors();  ///< reported so far, less the taken ones
/// The texts so far; of very many the first ones. They count no more.
std::vector<std::string> take_violations();
std::vector<std::string> violations();

}  // namespace cuda_on_cpu
