// PyTorch's exported models: whatever the JSON, a graph and a model or an Error, in memory that the
// file's size bounds. The input is models/model.json and the configurations of the weights and of
// the constants, with a zero byte between two; those of an odd size are packed.

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ops/graph/model_of.h"
#include "ops/graph/pt2.h"
#include "ops/graph/read_graph.h"
#include "runtime/error.h"
#include "tests/unit/runtime/file/zip_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool packed = size % 2 != 0;
  std::vector<troupe::test::MadeMember> members;
  for (const char* name : {"models/model.json", "data/weights/model_weights_config.json",
                           "data/constants/model_constants_config.json"}) {
    const auto end = std::min(text.find('\0'), text.size());
    members.push_back({.name = std::string("m/") + name,
                       .content = std::string(text.substr(0, end)),
                       .deflated = packed});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  for (int i = 0; i < 32; ++i)
    for (const char* name : {"weights/weight_", "constants/tensor_"})
      members.push_back({.name = "m/data/" + (name + std::to_string(i)),
                         .content = std::string(i < 12 ? 6000 : 1000, '\0'),
                         .deflated = packed});
  const std::string bytes = troupe::test::zip_of(members);
  try {
    const auto graph = std::make_shared<troupe::graph::Graph>(
        troupe::graph::parse_pt2(std::as_bytes(std::span(bytes)), "'net.pt2'"));
    (void)troupe::graph::digest(*graph);
    const troupe::Model model = troupe::graph::model_of(graph, {.drops_log_softmax = true});
    troupe::StateSpec spec;
    for (const auto& block : model.blocks) block->declare(spec);
  } catch (const troupe::Error&) {
  }
  return 0;
}
