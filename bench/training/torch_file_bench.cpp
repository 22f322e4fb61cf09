// A .pt file of 400 MB, opened and all of its tensors read, against a copy of as many bytes in
// memory. The file is in the page cache. Readings interleave; tensors are compared first. Prints
// lines of GB a second.
//
//   torch_file_bench FOLDER [repetitions]    makes and removes FOLDER/weights.pt

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "runtime/error.h"
#include "runtime/file/torch_file.h"

namespace {

using namespace troupe;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t tensors = 100, elements = 1'000'000;
constexpr double gigabytes = 4e-9 * tensors * elements;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::vector<NamedTensor> weights() {
  std::vector<NamedTensor> result;
  std::uint32_t state = 1;
  for (int i = 0; i < tensors; ++i) {
    Tensor tensor = Tensor::empty({elements}, DType::f32, Device::cpu());
    for (float& value : tensor.elements<float>())
      value = static_cast<float>((state = state * 1664525 + 1013904223) >> 8);
    result.push_back({fmt::format("layers.{}.weight", i), tensor});
  }
  return result;
}

double read_all(const std::filesystem::path& path) {
  const auto begin = Clock::now();
  const TensorSource source = open_torch_file(path).tensors;
  for (const TensorInfo& tensor : source.tensors) (void)source.read(tensor.name);
  return gigabytes / since(begin);
}

/// Into the memory of the tensors, as a run does at its start.
double read_and_copy(const std::filesystem::path& path, const std::vector<NamedTensor>& into) {
  const auto begin = Clock::now();
  const TensorSource source = open_torch_file(path).tensors;
  for (const NamedTensor& tensor : into)
    std::memcpy(tensor.tensor.raw(), source.read(tensor.name).raw(), tensor.tensor.bytes());
  return gigabytes / since(begin);
}

double copy(const std::vector<NamedTensor>& from, const std::vector<NamedTensor>& into) {
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < from.size(); ++i)
    std::memcpy(into[i].tensor.raw(), from[i].tensor.raw(), from[i].tensor.bytes());
  return gigabytes / since(begin);
}

void check(const std::filesystem::path& path, const std::vector<NamedTensor>& expected) {
  const TensorSource source = open_torch_file(path).tensors;
  for (const auto& [name, tensor] : expected)
    if (std::memcmp(source.read(name).raw(), tensor.raw(), tensor.bytes()) != 0)
      throw Error(ErrorCode::internal, fmt::format("{} has other elements", name));
}

void measure(const std::filesystem::path& path, int repetitions) {
  const std::vector<NamedTensor> made = weights();
  std::vector<NamedTensor> into = made;
  for (NamedTensor& tensor : into) tensor.tensor = tensor.tensor.clone();
  stream_torch_file(path, TensorSource::of(made)).value();
  check(path, made);
  std::vector<double> reads, copies, read_copies;
  for (int i = 0; i < repetitions; ++i) {
    reads.push_back(read_all(path));
    copies.push_back(copy(made, into));
    read_copies.push_back(read_and_copy(path, into));
  }
  fmt::print("read: {:.3f}\n", fmt::join(reads, " "));
  fmt::print("copy: {:.3f}\n", fmt::join(copies, " "));
  fmt::print("read and copy: {:.3f}\n", fmt::join(read_copies, " "));
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) return EXIT_FAILURE;
  const std::filesystem::path path = std::filesystem::path(words[1]) / "weights.pt";
  try {
    measure(path, count > 2 ? std::atoi(words[2]) : 7);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return EXIT_FAILURE;
  }
  std::filesystem::remove(path);
  return EXIT_SUCCESS;
}
