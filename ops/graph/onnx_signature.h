#pragma once
// Which tensors of an ONNX file PyTorch trains, by the signature that its export writes.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ops/graph/onnx_file.h"

namespace troupe::graph::onnx {

/// What the initializers of a file are.
struct Signature {
  enum class Role { parameter, buffer, constant };

  std::map<std::string, Role> roles;  ///< of initializers; also of buffers that the file lacks
  std::set<std::string> transient;    ///< buffers that are not in the state_dict
  std::set<std::string> changed;      ///< buffers that the module writes to
  std::map<std::string, std::string> tied;  ///< names that the file lacks, and that of their tensor
  std::vector<std::string> notes;           ///< for Graph::notes

  Role role_of(const std::string& initializer) const;
};

/// Throws Error (unsupported) with the export line for a file that the export has optimised: one
/// whose batch norm is folded into convolutions, or that lacks a parameter.
Signature read_signature(const File& file);

}  // namespace troupe::graph::onnx
