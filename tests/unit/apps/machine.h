#pragma once
// Machines that are made up, for the doctor's tests.
#include <string>

#include "apps/doctor/checks.h"

namespace troupe::test {

/// A node on which all is well: process 1 of 4 on the first of two nodes.
inline Machine healthy() {
  Machine machine;
  machine.host = "node0";
  machine.architecture = "x86_64";
  machine.features = {"sse4_2", "avx2", "fma"};
  machine.compiled_for = {"sse4_2"};
  machine.cores = 4;
  machine.affinity = 8;
  machine.world = World{.rank = 1,
                        .size = 4,
                        .local_rank = 1,
                        .local_size = 2,
                        .node = 0,
                        .nodes = 2,
                        .launcher = "slurm"};
  machine.environment = {{"OMP_NUM_THREADS", "4"}, {"HOME", "/home/me"}, {"SLURM_JOB_ID", "7"}};
  machine.folders = {{"TMPDIR", "/tmp", "tmpfs"}};
  machine.interfaces = {{"lo"}, {"eth0"}, {"hsn0"}, {"hsn1"}};
  machine.open_files = 65536;
  return machine;
}

inline std::string text_of(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings)
    text += (finding.severity == Finding::Severity::error ? "error " : "warning ") +
            finding.message + " | " + finding.remedy + "\n";
  return text;
}

}  // namespace troupe::test
