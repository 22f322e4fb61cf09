#pragma once
// Profiles of clusters of a test's own.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/error.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {

/// "MESSAGE | REMEDY" of the Error that a call throws.
template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message() + " | " + error.remedy();
  }
  return "no error";
}

/// A folder of profiles, searched before all others.
class ProfileFolder : public testing::Test {
 protected:
  ProfileFolder() { ::setenv("TROUPE_CLUSTER_PATH", root_.c_str(), 1); }
  ~ProfileFolder() override { ::unsetenv("TROUPE_CLUSTER_PATH"); }

  std::filesystem::path file(const std::string& name, const std::string& content) const {
    std::ofstream(root_ / name, std::ios::binary) << content;
    return root_ / name;
  }

  const test::TemporaryFolder folder_;
  const std::filesystem::path& root_ = folder_.path();
};

inline const char* const small_profile =
    "title: Small\n"
    "nodes:\n"
    "  - {name: fat, architecture: x86_64, cores: 64, gpus: 4, gpu: X1,\n"
    "     gpu_request: '--gres=gpu:x1:{gpus}', gpu_cores: 16, gpu_memory: 30.5}\n"
    "  - {name: thin, architecture: x86_64, cores: 32, core_memory: 2}\n"
    "partitions:\n"
    "  - {name: short, nodes: fat, max_nodes: 4, max_time: '01:00:00'}\n"
    "  - {name: long, nodes: fat, max_nodes: 2, max_time: '2-00:00:00', max_gpus: 8}\n"
    "  - {name: cpu, nodes: thin, max_nodes: 8, max_time: '1-00:00:00'}\n"
    "  - {name: test, nodes: fat, max_nodes: 1, max_time: '00:10:00', by_name: true}\n"
    "environment:\n"
    "  - {name: ALWAYS, value: '1', why: a reason}\n"
    "  - {name: WITH_GPU, value: a b, why: another, when: [gpu]}\n"
    "  - {name: AMONG_SEVERAL, value: '2', why: a third, when: [gpu, several_nodes]}\n"
    "container: {kinds: [apptainer], mounts: [/data]}\n";

}  // namespace troupe
