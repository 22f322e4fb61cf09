#include "ops/models/file_model.h"

#include <fmt/format.h>

#include <mutex>

#include "ops/graph/model_of.h"
#include "ops/graph/read_graph.h"
#include "ops/graph/shapes.h"
#include "ops/models/image_options.h"
#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {

/// The graph that was read last. Stages of one process share it; any thread may ask.
struct FileModel::Cache {
  std::mutex mutex;
  std::filesystem::path path;
  std::shared_ptr<const graph::Graph> graph;
  std::string digest;
};

namespace {

void check_samples(const FileModel& model, const graph::Graph& graph, const SampleSpec& samples) {
  const graph::Sizes& input = graph.value(graph.input).shape;
  const Shape wanted = graph::shape_for(graph::Sizes(input.begin() + 1, input.end()), 1);
  // Data sets give [height, width], which may be [steps, features], a channel axis of 1.
  const bool lacks_channel = samples.shape.rank() == wanted.rank() + 1 && samples.shape[0] == 1;
  const Shape given = lacks_channel ? Shape(samples.shape.dims().subspan(1)) : samples.shape;
  if (wanted != given)
    throw Error(
        ErrorCode::bad_options,
        fmt::format("the model in '{}' takes samples of the shape {}, but those of the data "
                    "set have {}",
                    model.file.string(), to_string(wanted), to_string(given)),
        "choose another data set, or export the model for samples of this shape");
  const bool indices = samples.dtype == DType::i64;
  if (indices && is_floating(graph.value(graph.input).dtype))
    throw Error(ErrorCode::bad_options,
                fmt::format("the model in '{}' takes numbers of {}, but the samples are {}",
                            model.file.string(), name_of(graph.value(graph.input).dtype),
                            name_of(samples.dtype)),
                "choose another data set, or export a model of indices");
  const graph::Sizes& output = graph.value(graph.output).shape;
  if (output.size() != 2 || !graph::has_batch_axis(output))
    throw Error(
        ErrorCode::bad_options,
        fmt::format("the model in '{}' returns {}", model.file.string(), graph::to_string(output)),
        "export a module that returns [batch, outputs]");
  const bool binary = output[1].fixed == 1 && samples.classes == 2;
  if (output[1].fixed < samples.classes && !binary)
    throw Error(ErrorCode::bad_options,
                fmt::format("the model in '{}' has {} outputs, but the data set has {} classes",
                            model.file.string(), output[1].fixed, samples.classes),
                fmt::format("export the model with {} outputs", samples.classes));
}

/// `found` is the digest of the graph.
Error another_graph(const FileModel& model, const graph::Graph& graph, const std::string& found) {
  const std::string file = model.file.string(),
                    remedy = "use the file of the run, or start a new run";
  if (graph::operators_in(found) == graph::operators_in(model.digest))
    return {ErrorCode::bad_options,
            fmt::format("the graph in '{}' has the operators of the run, but another value of a "
                        "constant; its constants are {}",
                        file, listed(graph::literals(graph))),
            remedy};
  return {
      ErrorCode::bad_options,
      fmt::format("the graph in '{}' has the digest {}, but `Model::digest` is {} (the run began "
                  "with another graph)",
                  file, found.substr(0, 12), model.digest.substr(0, 12)),
      remedy};
}

/// Whether the loss will be a cross-entropy, which contains the log-softmax.
bool has_classes(const SampleSpec& samples) {
  return samples.classes > 1 && samples.target_dtype == DType::i64;
}

}  // namespace

std::shared_ptr<FileModel::Cache> FileModel::make_cache() { return std::make_shared<Cache>(); }

std::pair<std::shared_ptr<const graph::Graph>, std::string> FileModel::read() const {
  if (file.empty())
    throw Error(ErrorCode::bad_options, "`Model::file` is empty",
                "give the path of a model that torch.export.save has written");
  const std::lock_guard lock(cache->mutex);
  if (!cache->graph || cache->path != file) {
    cache->graph = nullptr;
    cache->graph = std::make_shared<const graph::Graph>(graph::read_graph(file));
    cache->path = file;
    cache->digest = graph::digest(*cache->graph);
  }
  return {cache->graph, cache->digest};
}

std::shared_ptr<const graph::Graph> FileModel::graph() const { return read().first; }

OptionFields FileModel::options() {
  OptionFields fields{
      field("model.file", file,
            "model that PyTorch has exported with torch.export.save (.pt2) or torch.onnx.export "
            "(.onnx); it needs no name",
            {.synonyms = {"path", "pt2", "onnx"}, .setting = "Model::file"}),
      field("model.initialise", initialise,
            "draw new parameters, as PyTorch draws those of each layer; false: begin with those of "
            "the file",
            {.synonyms = {"initialize", "init"}}),
      field("model.digest",
            Converted<std::string>{[this] {
                                     if (!digest.empty() || file.empty()) return digest;
                                     try {
                                       return read().second;
                                     } catch (const Error&) {
                                       return std::string();  // make() throws it
                                     }
                                   },
                                   [this](std::string text) { digest = std::move(text); }},
            "SHA-256 of the operator graph; Troupe records it so that a resumed run refuses "
            "another graph; leave empty"),
      convolution_option(convolution)};
  return fields;
}

void FileModel::check_digest() const {
  if (digest.empty()) return;
  const auto [graph, found] = read();
  if (digest != found) throw another_graph(*this, *graph, found);
}

Model FileModel::make(const SampleSpec& samples) const {
  check_digest();
  const auto graph = this->graph();
  check_samples(*this, *graph, samples);
  check_convolution(convolution, samples);
  Model model = graph::model_of(graph, {.initialise = initialise,
                                        .convolution = convolution,
                                        .drops_log_softmax = has_classes(samples)});
  model.notes = graph->notes;
  if (const auto* softmax = graph::last_softmax(*graph); softmax && has_classes(samples))
    model.notes.push_back(
        softmax->logarithm
            ? fmt::format(
                  "the log-softmax at the end of '{}' is left out: cross-entropy contains it",
                  file.string())
            : fmt::format("'{}' ends with a softmax, and cross-entropy applies another: export the "
                          "model without it",
                          file.string()));
  return model;
}

std::optional<std::int64_t> FileModel::outputs() const {
  try {
    const auto read = graph();
    const graph::Sizes& output = read->value(read->output).shape;
    if (output.empty() || !graph::is_fixed(output.back())) return std::nullopt;
    return output.back().fixed;
  } catch (const Error&) {
    return std::nullopt;  // make() throws it
  }
}

}  // namespace troupe
