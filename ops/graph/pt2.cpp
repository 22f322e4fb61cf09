#include "ops/graph/pt2.h"

#include <fmt/format.h>

#include <memory>

#include "ops/graph/pt2_file.h"
#include "ops/graph/pt2_operators.h"
#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe::graph {
namespace {

Pt2Handlers all_handlers() {
  Pt2Handlers handlers;
  add_layers(handlers);
  add_elementwise(handlers);
  add_movement(handlers);
  add_parts(handlers);
  add_products(handlers);
  add_recurrent(handlers);
  add_random(handlers);
  add_constants(handlers);
  add_masks(handlers);
  add_norms(handlers);
  return handlers;
}

/// Nodes without an effect on the result: sizes, checks that export has made, counters.
bool is_skipped(const Pt2Node& node) {
  if (node.returns_sizes() || node.target().starts_with("_assert") ||
      node.target().starts_with("sym_constrain_range"))
    return true;
  return node.in_place() && node.target() == "add.Tensor" && node.is_tensor("self") &&
         node.outputs().size() == 1 &&
         node.context().counts_up(node.name_of("self"), node.outputs().front());
}

void read_node(Pt2Context& context, const Pt2Handlers& handlers, const JsonAccess& json) {
  const Pt2Node node(context, json);
  if (is_skipped(node)) return;
  const auto handler = handlers.find(node.target());
  LacksOperator why;
  if (node.target().ends_with("wrap_with_set_grad_enabled"))
    why = {"torch.no_grad() stops the gradient", freeze_instead};
  try {
    if (handler != handlers.end()) return handler->second(node);
  } catch (const LacksOperator& lacks) {
    why = lacks;
  } catch (const NodeError&) {
    throw;
  } catch (const Error& error) {
    throw Error(ErrorCode::bad_file, fmt::format("{}: {}", node.origin().text(), error.message()),
                error.remedy());
  }
  // Operators of others than PyTorch's own may write memory, too.
  const bool writes = node.in_place() || node.target().starts_with("torch.ops.");
  context.leave_out(
      json,
      {printable(node.target()), printable(node.origin().name), printable(node.origin().module),
       node.origin().source, std::move(why.reason), std::move(why.remedy)},
      node.outputs(), writes);
}

Graph read(Pt2File opened) {
  const auto file = std::make_shared<Pt2File>(std::move(opened));
  Pt2Context context(file);
  const std::string output = context.read_signature();
  const Pt2Handlers handlers = all_handlers();
  const JsonAccess graph = JsonAccess(file->model(), file->origin()).at("graph_module").at("graph");
  for (const JsonAccess& node : graph.at("nodes").items()) read_node(context, handlers, node);
  context.finish(output);
  file->drop_model();
  return std::move(context.builder.graph);
}

}  // namespace

Graph read_pt2(const std::filesystem::path& path) { return read(Pt2File::open(path)); }

Graph parse_pt2(std::span<const std::byte> bytes, const std::string& origin) {
  return read(Pt2File::parse(bytes, origin));
}

}  // namespace troupe::graph
