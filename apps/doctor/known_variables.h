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
  std::size_t most_edits;  ///< that still count as a misspelling
};

/// NCCL, libfabric, OpenMP, CUDA, PyTorch, Gloo, MPICH, Slurm, Troupe.
std::span<const VariableFamily> variable_families();

/// A wrong name in common use, and why it has no effect.
struct MistakenVariable {
  std::string_view wrong, right, why;
};
std::span<const MistakenVariable> mistaken_variables();

/// The known variable that `name` most likely misspells: a letter or two differ, a word is missing,
/// or words are swapped. Nothing if `name` is known, belongs to no family, or resembles none.
std::optional<std::string> meant_variable(std::string_view name);

/// Whether `name` has the prefix of Troupe's variables but is not one.
bool is_unknown_of_ours(std::string_view name);

}  // namespace troupe
