#include "runtime/world/world.h"

#include <fmt/format.h>

#include <cctype>

#include "runtime/world/sources.h"

namespace troupe {
namespace {

/// Node and nodes from torchrun's GROUP_*; without them from ranks that fill node after node.
void place_on_node(World& world, const Environment& environment) {
  const auto node = environment.number("GROUP_RANK");
  const auto nodes = environment.number("GROUP_WORLD_SIZE", 1);
  if (node && nodes) {
    require_below("GROUP_RANK", *node, "GROUP_WORLD_SIZE", *nodes);
    world.node = *node;
    world.nodes = *nodes;
    return;
  }
  const bool blocks =
      world.size % world.local_size == 0 && world.rank % world.local_size == world.local_rank;
  world.node = blocks ? world.rank / world.local_size : -1;
  world.nodes = blocks ? world.size / world.local_size : -1;
}

void take_master(World& world, const Environment& environment) {
  if (const auto address = environment.get("MASTER_ADDR")) world.master_address = *address;
  world.master_port =
      static_cast<std::uint16_t>(environment.number("MASTER_PORT", 1, 65'535).value_or(0));
}

std::string run_of(const World& world, const Environment& environment) {
  if (const auto run = environment.get("TROUPE_RUN_ID")) return run_id_of(*run, world.restart);
  return file_name_of(fmt::format("torchrun-{}-{}-{}-{}",
                                  environment.get("TORCHELASTIC_RUN_ID").value_or("none"),
                                  world.master_address, world.master_port, world.restart));
}

/// RANK or WORLD_SIZE without the rest: fine where they repeat what the scheduler says, as job
/// scripts do for the sake of other programs. Anything else is an error.
void require_agreement(const Environment& environment) {
  const auto rank = environment.number("RANK");
  const auto size = environment.number("WORLD_SIZE", 1);
  const auto scheduled = scheduled_world(environment);
  if (scheduled) {
    if (rank && *rank != scheduled->rank)
      contradict(fmt::format("RANK={} is set, but {} gives this process rank {}", *rank,
                             scheduled->launcher, scheduled->rank),
                 "unset RANK: a job script that exports it gives all processes the same one");
    if (size && *size != scheduled->size)
      contradict(fmt::format("WORLD_SIZE={} is set, but {} started {} processes", *size,
                             scheduled->launcher, scheduled->size),
                 "unset WORLD_SIZE, or start as many processes");
    return;
  }
  if (size.value_or(2) == 1 && rank.value_or(0) == 0) return;
  const char* present = rank ? "RANK" : "WORLD_SIZE";
  const char* lacking = !rank                            ? "RANK"
                        : !size                          ? "WORLD_SIZE"
                        : !environment.has("LOCAL_RANK") ? "LOCAL_RANK"
                                                         : "LOCAL_WORLD_SIZE";
  contradict(fmt::format("the environment sets {}={} but not {}", present,
                         *environment.get(present), lacking),
             fmt::format("unset {} for a run of one process, start with a launcher, or export "
                         "RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE for each process",
                         present));
}

}  // namespace

std::string file_name_of(std::string_view text) {
  std::string name(text.substr(0, 128));
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-') c = '_';
  if (name.empty() || name.front() == '.') name.insert(0, 1, '_');
  return name;
}

std::string run_id_of(std::string_view run, int restart) {
  return file_name_of(fmt::format("{}-{}", run.substr(0, 100), restart));
}

void contradict(const std::string& message, const std::string& remedy) {
  throw Error(ErrorCode::usage, message, remedy);
}

void require_below(std::string_view name, int value, std::string_view size_name, int size) {
  if (value < size) return;
  contradict(fmt::format("{}={} is set, which is not below {}={}", name, value, size_name, size),
             fmt::format("ranks count from 0; unset {} for a run of one process, or correct the "
                         "launcher's setting",
                         name));
}

std::optional<World> launched_world(const Environment& environment) {
  const auto rank = environment.number("RANK");
  const auto size = environment.number("WORLD_SIZE", 1);
  if (!rank && !size) return std::nullopt;
  const auto local_rank = environment.number("LOCAL_RANK");
  const auto local_size = environment.number("LOCAL_WORLD_SIZE", 1);
  if (!rank || !size || !local_rank || !local_size) {
    require_agreement(environment);
    return std::nullopt;
  }
  require_below("RANK", *rank, "WORLD_SIZE", *size);
  require_below("LOCAL_RANK", *local_rank, "LOCAL_WORLD_SIZE", *local_size);
  if (*local_size > *size)
    contradict(
        fmt::format("LOCAL_WORLD_SIZE={} is set, more than WORLD_SIZE={}", *local_size, *size),
        "WORLD_SIZE counts the processes of all hosts together");
  World world{.rank = *rank, .size = *size, .local_rank = *local_rank, .local_size = *local_size};
  world.launcher = environment.get("TROUPE_LAUNCHER").value_or("torchrun");
  world.restart = environment.number("TORCHELASTIC_RESTART_COUNT").value_or(0);
  place_on_node(world, environment);
  take_master(world, environment);
  world.run_id = run_of(world, environment);
  return world;
}

std::optional<World> scheduled_world(const Environment& environment) {
  if (auto world = openmpi_world(environment)) return world;
  if (in_slurm_shell(environment)) return std::nullopt;
  if (auto world = slurm_world(environment)) return world;
  return pmix_world(environment);
}

std::optional<World> world_from_environment(const Environment& environment) {
  if (auto world = launched_world(environment)) return world;
  auto world = scheduled_world(environment);
  if (!world) return world;
  take_master(*world, environment);
  if (world->master_address.empty() && !world->hosts.empty())
    world->master_address = world->hosts.front();
  return world;
}

}  // namespace troupe
