// mpirun of OpenMPI (tried with 4.1.4) and whatever else speaks PMIx or PMI: prterun, hydra, PALS.
#include <fmt/format.h>

#include <initializer_list>

#include "runtime/world/sources.h"

namespace troupe {
namespace {

struct Found {
  std::string_view name;
  int value = 0;
};

/// The first of several spellings that is set.
std::optional<Found> first_of(const Environment& environment,
                              std::initializer_list<std::string_view> names, int least) {
  for (const auto name : names)
    if (const auto value = environment.number(name, least)) return Found{name, *value};
  return std::nullopt;
}

int required(const Environment& environment, std::string_view name, int least) {
  if (const auto value = environment.number(name, least)) return *value;
  contradict(fmt::format("OMPI_COMM_WORLD_RANK={} is set, but {} is not",
                         *environment.get("OMPI_COMM_WORLD_RANK"), name),
             "start with mpirun, or unset OMPI_COMM_WORLD_RANK for a run of one process");
}

/// mpirun does not number its nodes for the processes; one node needs no number.
void place_on_node(World& world, std::optional<int> nodes) {
  const bool alone = world.local_size == world.size;
  world.node = alone ? 0 : -1;
  world.nodes = alone ? 1 : nodes.value_or(-1);
}

}  // namespace

std::optional<World> openmpi_world(const Environment& environment) {
  if (!environment.has("OMPI_COMM_WORLD_RANK")) return std::nullopt;
  World world;
  world.launcher = "openmpi";
  world.rank = *environment.number("OMPI_COMM_WORLD_RANK");
  world.size = required(environment, "OMPI_COMM_WORLD_SIZE", 1);
  world.local_rank = required(environment, "OMPI_COMM_WORLD_LOCAL_RANK", 0);
  world.local_size = required(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", 1);
  require_below("OMPI_COMM_WORLD_RANK", world.rank, "OMPI_COMM_WORLD_SIZE", world.size);
  require_below("OMPI_COMM_WORLD_LOCAL_RANK", world.local_rank, "OMPI_COMM_WORLD_LOCAL_SIZE",
                world.local_size);
  if (world.local_size > world.size)
    contradict(fmt::format("OMPI_COMM_WORLD_LOCAL_SIZE={} is more than OMPI_COMM_WORLD_SIZE={}",
                           world.local_size, world.size),
               "start with mpirun and leave its variables");
  place_on_node(world, environment.number("OMPI_MCA_orte_num_nodes", 1));
  world.run_id = file_name_of("openmpi-" + environment.get("PMIX_NAMESPACE").value_or("0"));
  return world;
}

std::optional<World> pmix_world(const Environment& environment) {
  const auto rank = first_of(environment, {"PMIX_RANK", "PMI_RANK"}, 0);
  if (!rank) return std::nullopt;
  const auto size = first_of(environment, {"PMIX_SIZE", "PMI_SIZE"}, 1);
  if (!size)
    contradict(fmt::format("{}={} is set, but no variable contains the number of processes",
                           rank->name, rank->value),
               "start with srun or mpirun, which set it, or export PMI_SIZE, PMI_LOCAL_RANK and "
               "PMI_LOCAL_SIZE for each process");
  const auto local_rank =
      first_of(environment,
               {"PMIX_LOCAL_RANK", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID", "MPI_LOCALRANKID"}, 0);
  const auto local_size = first_of(
      environment, {"PMIX_LOCAL_SIZE", "PMI_LOCAL_SIZE", "PALS_LOCAL_SIZE", "MPI_LOCALNRANKS"}, 1);
  if ((!local_rank || !local_size) && size->value > 1)
    contradict(fmt::format("{}={} of {} is set, but the local rank is not", rank->name, rank->value,
                           size->value),
               "export PMI_LOCAL_RANK and PMI_LOCAL_SIZE for each process");
  World world;
  world.launcher = "pmix";
  world.rank = rank->value;
  world.size = size->value;
  world.local_rank = local_rank ? local_rank->value : 0;
  world.local_size = local_size ? local_size->value : 1;
  require_below(rank->name, world.rank, size->name, world.size);
  if (local_rank && local_size)
    require_below(local_rank->name, world.local_rank, local_size->name, world.local_size);
  if (world.local_size > world.size)
    contradict(fmt::format("{}={} is more than {}={}", local_size->name, world.local_size,
                           size->name, world.size),
               "export the processes of this node in the first, of all nodes in the second");
  place_on_node(world, std::nullopt);
  const auto job = environment.get("PMIX_NAMESPACE");
  world.run_id = file_name_of("pmix-" + (job ? *job : environment.get("PMI_JOBID").value_or("0")));
  return world;
}

}  // namespace troupe
