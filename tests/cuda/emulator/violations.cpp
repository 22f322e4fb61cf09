#include "violations.h"

#include <cstdio>
#include <mutex>
#include <utility>

namespace cuda_on_cpu {
namespace {

constexpr std::size_t kept = 100, printed = 5;

struct Violations {
  std::mutex mutex;
  std::vector<std::string> texts;
  int count = 0;
};

// Never destroyed: the device's thread runs until the process has ended.
Violations& all() {
  static auto* violations = new Violations;
  return *violations;
}

}  // namespace

void report(std::string text) {
  const std::lock_guard lock(all().mutex);
  ++all().count;
  if (all().texts.size() >= kept) return;
  if (all().texts.size() < printed) std::fprintf(stderr, "cuda_on_cpu: %s\n", text.c_str());
  all().texts.push_back(std::move(text));
}

int errors() {
  const std::lock_guard lock(all().mutex);
  return all().count;
}

std::vector<std::string> take_violations() {
  const std::lock_guard lock(all().mutex);
  all().count = 0;
  return std::exchange(all().texts, {});
}

std::vector<std::string> violations() {
  const std::lock_guard lock(all().mutex);
  return all().texts;
}

}  // namespace cuda_on_cpu
