#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace troupe {

/// Variables of one library or program.
struct VariableFamily {
  std::string_view owner;   ///< "NCCL"
  std::string_view prefix;  ///< "NCCL_"
  std::span<const std::string_view> names;
  std::size_t most_edits;  ///< that still count as a slip of the pen
};

/// NCCL, libfabric, OpenMP, CUDA, PyTorch, Gloo, MPICH, Slurm, Troupe.
std::span<const VariableFamily> variable_families();

/// A name that people write, and why it does nothing.
struct MistakenVariable {
  std::string_view wrong, right, why;
};
std::span<const MistakenVariable> mistaken_variables();

/// The known variable that somebody who wrote `name` most likely meant: a letter or two differ, a
/// word of the name is missing, or words are exchanged. Nothing if `name` is known itself, is of no
/// family, or is like none.
std::optional<std::string> meant_variable(std::string_view name);

/// Whether `name` begins as Troupe's variables do, and is none of them.
bool is_unknown_of_ours(std::string_view name);

}  // namespace troupe
