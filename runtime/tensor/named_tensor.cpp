#include "runtime/tensor/named_tensor.h"

#include <fmt/format.h>

#include <memory>
#include <unordered_map>

#include "runtime/error.h"

namespace troupe {

TensorSource TensorSource::of(const std::vector<NamedTensor>& tensors) {
  auto by_name = std::make_shared<std::unordered_map<std::string, Tensor>>();
  TensorSource source;
  for (const NamedTensor& named : tensors) {
    if (!by_name->emplace(named.name, named.tensor).second)
      throw Error(ErrorCode::internal, fmt::format("two tensors are called '{}'", named.name));
    source.tensors.push_back(TensorInfo::of(named));
  }
  source.read = [by_name](const std::string& name) { return by_name->at(name); };
  return source;
}

}  // namespace troupe
