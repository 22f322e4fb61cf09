#include "runtime/file/name_prefix.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {

TensorSource without_prefix(TensorSource source, std::string_view prefix,
                            const std::string& origin) {
  std::erase_if(source.tensors, [&](const TensorInfo& tensor) {
    return !tensor.name.starts_with(prefix) || tensor.name.size() == prefix.size();
  });
  if (source.tensors.empty())
    throw Error(ErrorCode::bad_file,
                fmt::format("reading '{}': no name of its tensors begins with '{}'", origin,
                            printable(prefix)),
                "correct the prefix behind '#' by the names that the file has, or leave it out");
  for (TensorInfo& tensor : source.tensors) tensor.name.erase(0, prefix.size());
  source.read = [prefix = std::string(prefix), read = std::move(source.read)](
                    const std::string& name) { return read(prefix + name); };
  return source;
}

}  // namespace troupe
