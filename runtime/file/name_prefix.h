#pragma once
#include <string>
#include <string_view>

#include "runtime/tensor/named_tensor.h"

namespace troupe {

/// Whether the part of a file (torch_path) is a prefix of names, such as "student.".
inline bool is_name_prefix(std::string_view part) { return part.ends_with('.'); }

/// The tensors whose names begin with the prefix, by their names without it. Throws
/// Error{bad_file} that names `origin` if there are none.
TensorSource without_prefix(TensorSource source, std::string_view prefix,
                            const std::string& origin);

}  // namespace troupe
