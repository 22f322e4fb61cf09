#pragma once
// The flags of `troupe launch`, checked.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/control/endpoint.h"

namespace troupe {

/// The flags as they were written; torchrun's names and meanings.
struct LaunchFlags {
  bool standalone = false;
  std::string nnodes = "1";
  std::string nproc_per_node = "1";
  std::optional<int> node_rank;
  std::string rdzv_backend = "c10d";
  std::string rdzv_endpoint;
  std::string rdzv_id = "none";
  std::string rdzv_conf;
  std::string master_addr;
  int master_port = 0;
  std::string local_addr;
  int max_restarts = 0;
  double monitor_interval = 0.1;
  std::string start_method = "spawn";
  std::string log_dir;
  std::string redirects = "0";
  std::string tee = "0";
  std::string role = "default";
  std::string local_ranks_filter;
  std::string log_line_prefix_template;
  double grace_period = 30;
  bool no_python = false;
  std::vector<std::string> verbs;  ///< the other verbs of the command
  std::vector<std::string> command;
};

/// Which of a process's two outputs; combined as torchrun numbers them.
enum Outputs : unsigned {
  no_output = 0,
  standard_output = 1,
  standard_error = 2,
  both_outputs = 3
};

constexpr int usual_rendezvous_port = 29400;  ///< torchrun's

/// A program and its arguments, including the first.
struct Program {
  std::filesystem::path path;
  std::vector<std::string> words;
  bool is_own = false;  ///< a verb of this command
};

struct LaunchOptions {
  int nodes = 1;
  int processes = 1;                    ///< on this node
  std::optional<int> node_rank;         ///< assigned by the coordinator if it is not given
  std::optional<HostAndPort> endpoint;  ///< nothing: a run of one node
  std::string run_id;                   ///< the same for all launchers of the job
  std::string master_address;
  std::uint16_t master_port = 0;  ///< for the processes; 0: any free port
  std::string local_address;      ///< of this node, if given
  int max_restarts = 0;
  std::chrono::milliseconds join_timeout{300'000};
  std::chrono::milliseconds grace_period{30'000};
  std::filesystem::path log_folder;  ///< empty: a temporary one where one is needed
  std::vector<unsigned> redirects;   ///< Outputs of each local rank that go to files
  std::vector<unsigned> tees;        ///< Outputs that go to files and, line by line, to ours
  std::vector<bool> shown;           ///< whether a local rank's outputs reach ours at all
  std::string role = "default";
  std::string prefix = "[${role_name}${local_rank}]:";
  Program program;
};

/// Throws Error (usage) naming the flag, its value and the remedy.
LaunchOptions check(const LaunchFlags& flags);

/// `3` (all), or `0:1,1:2` (local rank 0 standard output, 1 standard error), for so many processes.
std::vector<unsigned> outputs_of(std::string_view flag, std::string_view text, int processes);

/// HOST, HOST:PORT or [IPv6]:PORT.
HostAndPort endpoint_of(std::string_view text);

/// What to start: one of the `verbs` of this command, or a program.
Program program_of(const std::vector<std::string>& command, const std::vector<std::string>& verbs);

}  // namespace troupe
