#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// Host names written as Slurm writes them: `gpu[001-003,010],login1` is gpu001, gpu002, gpu003,
/// gpu010 and login1. A name may hold several brackets (`rack[1-2]n[01-04]`), the rightmost
/// counting fastest; leading zeros give the width. The order is kept, and so are repeated names, as
/// in the output of `scontrol show hostnames`.
///
/// Throws Error (usage) for unmatched brackets, descending or non-numeric ranges, empty names, and
/// more than 65,536 hosts.
std::vector<std::string> expand_host_list(std::string_view list);

/// Tasks of each node as Slurm writes them: `2(x3),1` is 2, 2, 2, 1. Throws Error (usage) for
/// anything else and for more than 65,536 nodes.
std::vector<int> expand_task_counts(std::string_view counts);

}  // namespace troupe
