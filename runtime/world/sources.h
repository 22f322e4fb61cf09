#pragma once
// One function per launcher, for world.cpp. Each function reads the variables of its launcher and
// returns no world if they are missing. All throw as world_from_environment does.

#include <optional>
#include <string>
#include <string_view>

#include "runtime/error.h"
#include "runtime/world/world.h"

namespace troupe {

std::optional<World> launched_world(const Environment& environment);  ///< RANK and WORLD_SIZE
std::optional<World> openmpi_world(const Environment& environment);   ///< OMPI_COMM_WORLD_*
std::optional<World> slurm_world(const Environment& environment);     ///< a step of srun
std::optional<World> pmix_world(const Environment& environment);      ///< PMIX_*, PMI_*

/// Whether this process was started from the shell of `srun --pty bash`, which is itself a task of
/// a step. SLURM_PTY_PORT alone is not enough: steps started from such a shell inherit it, but have
/// no terminal.
bool in_slurm_shell(const Environment& environment);

/// The world of OpenMPI, Slurm or PMIx, whichever is innermost.
std::optional<World> scheduled_world(const Environment& environment);

/// Throws Error (usage): two variables contradict each other.
[[noreturn]] void contradict(const std::string& message, const std::string& remedy);

/// Throws if `name`, the source of rank or local rank, is not below its size.
void require_below(std::string_view name, int value, std::string_view size_name, int size);

}  // namespace troupe
