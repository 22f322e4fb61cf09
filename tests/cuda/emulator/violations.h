#pragma once
#include <string>
#include <vector>

namespace cuda_on_cpu {

/// A mistake of the code that runs on the emulator. The first ones are also printed. Thread-safe.
void report(std::string text);
int errors();  ///< reported and not taken yet
/// The texts of those, of very many the first ones. From now on errors() does not count them.
std::vector<std::string> take_violations();
std::vector<std::string> violations();  ///< the same, which are not taken

}  // namespace cuda_on_cpu
