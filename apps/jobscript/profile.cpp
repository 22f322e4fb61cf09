#include "apps/jobscript/profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/jobscript/slurm_time.h"
#include "runtime/error.h"
#include "runtime/options/field.h"
#include "runtime/text.h"

namespace troupe {
namespace {

using Profile = ClusterProfile;

constexpr double most = 1e6;  // cores, GPUs, gibibytes, nodes: far above any cluster

OptionFields node_fields(Profile::NodeKind& n) {
  return {field("name", n.name, "name that partitions refer to"),
          field("architecture", n.architecture, "processor architecture",
                {.choices = {"x86_64", "aarch64"}, .synonyms = {"arch"}}),
          field("cores", n.cores, "cores of a node for jobs",
                {.at_least = 1, .at_most = most, .synonyms = {"cpus"}}),
          field("gpus", n.gpus, "GPUs of a node", {.at_least = 0, .at_most = 64}),
          field("gpu", n.gpu, "name of the GPU"),
          field("gpu_cuda", n.gpu_cuda, "whether CUDA runs on them"),
          field("gpu_request", n.gpu_request,
                "Slurm option that requests them, with {gpus} of a node or {gpus_per_task}"),
          field("gpu_cores", n.gpu_cores, "cores for each GPU",
                {.at_least = 0, .at_most = most, .synonyms = {"cores_per_gpu"}}),
          field("gpu_memory", n.gpu_memory, "GiB of the node's memory for each GPU",
                {.at_least = 0, .at_most = most, .synonyms = {"memory_per_gpu"}}),
          field("core_memory", n.core_memory, "GiB for each core",
                {.at_least = 0, .at_most = most, .synonyms = {"memory_per_core"}}),
          field("gpu_counts", n.gpu_counts, "numbers of GPUs of a node that the site allocates",
                {.at_least = 1, .at_most = 64})};
}

/// The time as it stands in the file, until it is known where.
struct RawPartition : Profile::Partition {
  std::string time;
};

OptionFields partition_fields(RawPartition& p) {
  return {
      field("name", p.name, "for --partition; empty if the site chooses"),
      field("nodes", p.nodes, "name of its nodes"),
      field("min_nodes", p.min_nodes, "fewest nodes of a job", {.at_least = 1, .at_most = most}),
      field("max_nodes", p.max_nodes, "most nodes of a job; 0: unknown",
            {.at_least = 0, .at_most = most}),
      field("max_gpus", p.max_gpus, "most GPUs of a job; 0: unknown",
            {.at_least = 0, .at_most = most}),
      field("max_node_gpus", p.max_node_gpus, "most GPUs of one node; 0: all",
            {.at_least = 0, .at_most = 64}),
      field("max_time", p.time, "longest job, as Slurm writes it", {.synonyms = {"time"}}),
      field("qos", p.qos, "for --qos"),
      field("whole_nodes", p.whole_nodes, "whether jobs get whole nodes",
            {.synonyms = {"exclusive"}}),
      field("by_name", p.by_name, "whether it is used only on request"),
      field("note", p.note, "note for its users")};
}

std::vector<std::string_view> conditions() {
  return {"gpu",       "cpu",    "native",        "container", "edf",
          "apptainer", "podman", "several_nodes", "all_gpus"};
}

OptionFields line_fields(Profile::Line& line) {
  return {field("text", line.text, "the line"), field("why", line.why, "its reason"),
          field("when", line.when, "conditions for it", {.choices = conditions()})};
}

OptionFields variable_fields(Profile::Line& line) {
  return {field("name", line.name, "name of the variable"),
          field("value", line.text, "value of the variable", {.synonyms = {"text"}}),
          field("why", line.why, "its reason"),
          field("when", line.when, "conditions for it", {.choices = conditions()})};
}

/// The profile while it is read: what the file says before it is understood.
struct Raw {
  Profile profile;
  std::string like;
  std::vector<RawPartition> partitions;
};

OptionFields profile_fields(Raw& raw) {
  Profile& p = raw.profile;
  const auto lines = [](Profile::Line& line) { return line_fields(line); };
  const auto variables = [](Profile::Line& line) { return variable_fields(line); };
  OptionFields fields = {
      field("like", raw.like, "profile that this one extends"),
      field("title", p.title, "name of cluster and centre"),
      field("site", p.site, "address of the centre's page"),
      field("checked", p.checked, "month in which the facts were last checked"),
      field("closed", p.closed, "since when it is closed, and its replacement"),
      field("note", p.note, "note for its users"),
      field("needs_account", p.needs_account, "whether jobs need --account"),
      field("interface", p.interface, "interface of the fast network"),
      list_field<Profile::NodeKind>("nodes", p.nodes, "kinds of nodes", node_fields),
      list_field<RawPartition>("partitions", raw.partitions, "in order of preference",
                               partition_fields),
      list_field<Profile::Line>("directives", p.directives, "further #SBATCH options", lines),
      list_field<Profile::Line>("setup", p.setup, "shell lines before the run", lines),
      list_field<Profile::Line>("environment", p.environment, "variables", variables),
      list_field<Profile::Line>("srun", p.srun, "further options of srun", lines),
      field("container.kinds", p.container.kinds, "container engines of the site",
            {.choices = {"edf", "apptainer", "podman"}}),
      field("container.mounts", p.container.mounts, "folders of the site that jobs need"),
      field("container.options", p.container.options, "of apptainer exec or podman run"),
      list_field<Profile::Line>("container.annotations", p.container.annotations, "of an EDF",
                                variables)};
  return fields;
}

[[noreturn]] void refuse(const std::string& where, const std::string& what,
                         const std::string& remedy) {
  throw Error(ErrorCode::bad_options, fmt::format("{}: {}", where, what), remedy);
}

/// Where the item of a list stands, or its list if the profile has it from another.
std::string where_of(const OptionTree& root, std::string_view list, std::size_t item) {
  const OptionTree* tree = root.find(list);
  if (tree == nullptr) return root.where;
  return item < tree->items.size() ? tree->items[item].where : tree->where;
}

/// Texts become parts of lines of a script, so they must not contain line breaks.
void check_lines(const OptionTree& tree) {
  if (std::ranges::any_of(tree.scalar, is_control))
    refuse(tree.where, "the text has a line break or another control character",
           "write it in one line; several lines are several items");
  for (const OptionTree& item : tree.items) check_lines(item);
  for (const auto& entry : tree.entries) check_lines(entry.value);
}

void check_names(const Profile& profile, const OptionTree& root) {
  constexpr std::string_view digits = "0123456789";
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
  const std::string word = letters + std::string(digits);
  for (std::size_t i = 0; i < profile.environment.size(); ++i) {
    const std::string& name = profile.environment[i].name;
    if (name.empty() || name.find_first_not_of(word) != std::string::npos ||
        digits.find(name.front()) != std::string_view::npos)
      refuse(where_of(root, "environment", i),
             fmt::format("\"{}\" is not a name of a variable", name),
             "use letters, digits and _, and begin with no digit");
  }
  for (std::size_t i = 0; i < profile.partitions.size(); ++i)
    if (profile.partitions[i].name.find_first_not_of(word + "-.") != std::string::npos)
      refuse(where_of(root, "partitions", i),
             fmt::format("\"{}\" is not a name of a partition", profile.partitions[i].name),
             "use letters, digits, _, - and .");
}

void check_nodes(const Profile& profile, const OptionTree& root) {
  if (profile.nodes.empty())
    refuse(root.where, "a profile needs nodes", "add nodes: with name, architecture and cores");
  for (std::size_t i = 0; i < profile.nodes.size(); ++i) {
    const Profile::NodeKind& kind = profile.nodes[i];
    const std::string where = where_of(root, "nodes", i);
    if (kind.name.empty() || kind.cores == 0 || kind.architecture.empty())
      refuse(where, "nodes need name, architecture and cores", "add the missing keys");
    if (kind.gpus > 0 && (kind.gpu_request.empty() || kind.gpu_cores == 0))
      refuse(where, fmt::format("nodes {} have GPUs, but no gpu_request or gpu_cores", kind.name),
             "add for instance gpu_request: --gpus-per-node={gpus} and gpu_cores: 8");
    if (kind.gpu_cores * kind.gpus > kind.cores)
      refuse(where,
             fmt::format("nodes {} have {} cores, but {} GPUs of {} cores each", kind.name,
                         kind.cores, kind.gpus, kind.gpu_cores),
             fmt::format("lower gpu_cores to {} or less", kind.cores / kind.gpus));
  }
}

/// Takes over the partitions and checks values that must go together.
void finish_partitions(Raw& raw, const OptionTree& root) {
  Profile& profile = raw.profile;
  if (raw.partitions.empty())
    refuse(root.where, "a profile needs partitions", "add partitions: with nodes and max_time");
  std::vector<std::string_view> kinds;
  for (const auto& kind : profile.nodes) kinds.push_back(kind.name);
  for (std::size_t i = 0; i < raw.partitions.size(); ++i) {
    RawPartition& partition = raw.partitions[i];
    const std::string where = where_of(root, "partitions", i);
    if (std::find(kinds.begin(), kinds.end(), partition.nodes) == kinds.end())
      refuse(where,
             fmt::format("partition {} has nodes {}, which are not described", partition.name,
                         partition.nodes.empty() ? "\"\"" : partition.nodes),
             fmt::format("did you mean {}?", nearest(partition.nodes, kinds)));
    const auto time = parse_slurm_time(partition.time);
    if (!time)
      refuse(where,
             fmt::format("partition {} has max_time {}, which is not a time", partition.name,
                         partition.time.empty() ? "\"\"" : partition.time),
             "write 12:00:00, or 3-00:00:00 for three days");
    partition.max_time = *time;
    if (partition.max_nodes > 0 && partition.max_nodes < partition.min_nodes)
      refuse(where, fmt::format("partition {} has max_nodes below min_nodes", partition.name),
             "swap them");
    profile.partitions.push_back(partition);
  }
}

Raw read_raw(const std::filesystem::path& file, int depth) {
  constexpr int deepest = 4;
  if (depth > deepest)
    refuse(file.string(), "profiles refer to each other with `like` in a circle",
           "remove one `like`");
  const OptionTree root = read_yaml(file);
  check_lines(root);
  Raw raw;
  if (const OptionTree* like = root.find("like"); like != nullptr) {
    OptionTree only;  // the other keys come after what they replace
    only.kind = OptionTree::Kind::map;
    only.entries.push_back({"like", like->where, *like});
    read_fields(only, profile_fields(raw));
    const auto beside = file.parent_path() / (raw.like + ".yaml");
    raw = read_raw(std::filesystem::exists(beside) ? beside : profile_file(raw.like), depth + 1);
    raw.profile.partitions.clear();
    raw.profile.closed.clear();
  }
  read_fields(root, profile_fields(raw));
  raw.profile.name = file.stem().string();
  check_nodes(raw.profile, root);
  finish_partitions(raw, root);
  check_names(raw.profile, root);
  return raw;
}

}  // namespace

const ClusterProfile::NodeKind& ClusterProfile::kind_of(const Partition& partition) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const auto& kind) { return kind.name == partition.nodes; });
  return found == nodes.end() ? nodes.front() : *found;
}

bool ClusterProfile::has_cuda_gpus() const {
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const auto& kind) { return kind.gpus > 0 && kind.gpu_cuda; });
}

ClusterProfile read_profile(const std::filesystem::path& file) { return read_raw(file, 0).profile; }

}  // namespace troupe
