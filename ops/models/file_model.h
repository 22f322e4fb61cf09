#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "ops/graph/graph.h"
#include "ops/models/model.h"

namespace troupe {

/// A model that PyTorch has exported: torch.export.save (.pt2) or torch.onnx.export (.onnx). Its
/// parameters begin with the values of the file; those that were frozen stay so. See
/// docs/from-pytorch.md.
///
///     const PipelineOptions options{.model = FileModel{.file = "net.pt2"}, …};
///
/// Blocks: ops/graph/partition.h. The copies of one definition read the file once.
struct FileModel {
  static constexpr std::string_view name = "file";

  std::filesystem::path file;
  bool initialise = false;  ///< draw new parameters; false: those of the file
  ConvolutionAlgorithm convolution = ConvolutionAlgorithm::automatic;
  /// Of the graph that is expected; another one is refused. Empty: any.
  std::string digest = {};
  struct Cache;
  std::shared_ptr<Cache> cache = make_cache();

  OptionFields options();
  /// Throws Error: bad_options for a data set with samples of another shape, or with more classes
  /// than the model has outputs; unsupported for operators that Troupe lacks; bad_file; io.
  Model make(const SampleSpec& samples) const;
  /// Throws Error{bad_options} if the file has another graph than that of `digest`.
  void check_digest() const;
  /// The graph of the file.
  std::shared_ptr<const graph::Graph> graph() const;
  /// The size of the last axis of the output; nothing if the file cannot be read.
  std::optional<std::int64_t> outputs() const;

 private:
  /// The graph and its digest.
  std::pair<std::shared_ptr<const graph::Graph>, std::string> read() const;
  static std::shared_ptr<Cache> make_cache();
};

}  // namespace troupe
