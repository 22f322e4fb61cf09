#include "apps/memory_shortage.h"

#include <execinfo.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "actors/memory_bound.h"
#include "runtime/bytes_text.h"
#include "runtime/print.h"
#include "runtime/program.h"
#include "runtime/shell_text.h"

namespace troupe {
namespace {

std::terminate_handler usual_end = nullptr;

/// Whether an allocation or the start of a thread failed. An exception in flight has no known type:
/// it unwinds a scheduler that has started some of its threads.
bool is_resource_shortage() {
  const std::exception_ptr thrown = std::current_exception();
  if (!thrown) return std::uncaught_exceptions() > 0;
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const std::filesystem::filesystem_error&) {
    return false;
  } catch (const std::system_error& error) {
    return error.code() == std::errc::resource_unavailable_try_again ||
           error.code() == std::errc::not_enough_memory;
  } catch (...) {
    return false;
  }
}

void end() {
  if (!is_resource_shortage()) usual_end();
  // This allocates nothing.
  constexpr std::string_view text =
      ": error: out of memory or threads\n"
      "  try: use fewer threads, lower train.batch_size, or raise the limits (ulimit -v, ulimit "
      "-u)\n";
  for (const std::string_view part : {program_name(), text})
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, part.data(), part.size());
  std::_Exit(exit_failed);
}

/// ", of which 80 MiB for workspaces of kernels": the largest part there.
std::string largest_part(const MemoryBound& bound, MemoryBound::Place place) {
  const MemoryBound::Part* largest = nullptr;
  for (const auto& part : bound.parts)
    if (part.place == place && (!largest || part.bytes > largest->bytes)) largest = &part;
  if (!largest) return {};
  return fmt::format(", of which {} for {}", bytes_text(largest->bytes), largest->what);
}

/// "; its edge stage/0.output → stage/1.input holds 4 × 20.0 MiB": the edge whose slots take the
/// most memory of the device, among those of the actor whose name begins the message. Empty if no
/// edge of the actor takes any.
std::string largest_edge(const Graph& graph, std::string_view message, Device device) {
  const auto bytes = [](const Graph::Edge& edge) {
    return edge.options.slots * edge.options.slot_bytes;
  };
  const auto is_failed = [&](std::size_t actor) {
    return message.starts_with(graph.actors()[actor].name + ": ");
  };
  const auto& edges = graph.edges();
  const Graph::Edge* largest = nullptr;
  for (const auto& edge : edges)
    if (edge.options.device == device && bytes(edge) > 0 &&
        (is_failed(edge.from) || is_failed(edge.to)) && (!largest || bytes(edge) > bytes(*largest)))
      largest = &edge;
  if (!largest) return {};
  return fmt::format("; its edge {} holds {} × {}",
                     graph.edge_name(static_cast<std::size_t>(largest - edges.data())),
                     largest->options.slots, bytes_text(largest->options.slot_bytes));
}

/// The largest edge, and the bound if the blocks were measured. Empty if there is no memory to find
/// them out.
std::string bound_text(const PipelineOptions& pipeline, std::string_view message, bool of_device) {
  try {
    const Graph graph = build_pipeline(pipeline);
    const Device on = pipeline.stream.device;
    std::string edge = largest_edge(graph, message, of_device ? on : Device::cpu());
    if (pipeline.block_costs.empty()) return edge;
    const std::size_t dataset = pipeline.data.dataset.bytes_in_memory();
    using enum MemoryBound::Place;
    MemoryBound largest;
    for (std::uint32_t process = 0; process < pipeline.processes; ++process) {
      MemoryBound bound = memory_bound(pipeline, graph, dataset, process);
      if (process == 0 || bound.total() > largest.total()) largest = std::move(bound);
    }
    if (on != Device::cpu())
      return fmt::format("{}; the bound of a process is {} on cpu, and {} on {}{}", edge,
                         bytes_text(largest.total(cpu)), bytes_text(largest.total(device)),
                         to_string(on), of_device ? largest_part(largest, device) : "");
    return fmt::format("{}; the bound of a process is {}{}", edge, bytes_text(largest.total(cpu)),
                       largest_part(largest, cpu));
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace

void prepare_for_memory_shortage() {
  // The C library loads its unwinder at the first exception, and ends the process if that fails:
  // load it now.
  void* here = nullptr;
  ::backtrace(&here, 1);
  if (usual_end == nullptr) usual_end = std::set_terminate(end);
}

Error with_memory_bound(const Error& error, const PipelineOptions& pipeline,
                        const std::filesystem::path& options) {
  if (error.code() != ErrorCode::out_of_memory) return error;
  const Device device = pipeline.stream.device;
  const bool of_device =
      device != Device::cpu() && error.message().find(to_string(device)) != std::string::npos;
  std::string remedy = error.remedy();
  const auto add = [&](bool is_set, std::string_view path, std::string_view setting) {
    if (of_device && is_set && remedy.find(setting) == std::string::npos)
      remedy = fmt::format("set {} to false, or {}", path, remedy);
  };
  add(pipeline.cuda_graphs, "cuda_graphs", "cuda_graphs");
  add(pipeline.data.resident, "data.resident", "resident");  // the library's name of it
  return {error.code(), error.message() + bound_text(pipeline, error.message(), of_device),
          fmt::format("{}; {} plan {} lists the memory of each part", remedy, program_name(),
                      shell_word(options.string()))};
}

}  // namespace troupe
