#pragma once
// What a user can ask for: the options file as a struct, with its defaults. docs/options.md lists
// every key; the names are fixed.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

struct Options {
  std::uint64_t seed = 1;
  std::string precision = "f32";     ///< f32 | f64 (plain reference kernels, for checking)
  std::string convolution = "auto";  ///< auto | direct | winograd
  bool trace = false;

  struct Model {
    std::string name = "wide_resnet";  ///< wide_resnet | mnist_cnn | mlp
    std::int64_t in_channels = 1;
    std::vector<std::int64_t> widths;  ///< empty: the model's own
    std::int64_t classes = 10;
    double dropout = 0.01;
    std::filesystem::path
        weights;  ///< safetensors file or checkpoint to start from; empty for none
  } model;

  struct Data {
    std::string name = "fashion_mnist";  ///< fashion_mnist | synthetic
    std::filesystem::path path;  ///< folder of the files; empty: where Debian's package puts them
    std::vector<std::int64_t> shape = {1, 28, 28};  ///< synthetic
    std::int64_t classes = 10;                      ///< synthetic
    std::int64_t count = 6400;                      ///< synthetic: training samples
    std::vector<double> mean = {0.286};
    std::vector<double> std = {0.353};
    bool shuffle = true;
    std::vector<std::string> augment = {};  ///< flip, crop; in this order
    bool drop_last = true;
    int workers = 1;              ///< threads that prepare batches; 0: the loader actor itself
    std::int64_t limit = 0;       ///< only the first N training samples; 0: all
    std::int64_t test_limit = 0;  ///< only the first N test samples; 0: all
  } data;

  struct Train {
    std::int64_t epochs = 1;
    std::int64_t steps = 0;  ///< ends the run after so many; 0: as the epochs say
    std::int64_t batch_size = 64;
    std::int64_t micro_batches = 4;
    double lr = 0.1;
    double momentum = 0.9;
    double weight_decay = 0.0005;
    bool nesterov = false;
    std::string schedule = "constant";  ///< constant | step | cosine | one_cycle
    std::int64_t warmup_steps = 0;
    std::int64_t step_epochs = 10;  ///< schedule step: epochs between two drops
    double step_factor = 0.1;       ///< schedule step: what a drop multiplies the rate by
    bool stop_on_nan = true;        ///< fail at a loss that is not finite
    bool evaluate = true;           ///< count the test set at the end of each epoch
  } train;

  struct Parallel {
    std::int64_t pipeline = 1;
    std::int64_t data = 1;
    std::string schedule = "1f1b";        ///< a name of schedule_names
    std::vector<std::int64_t> partition;  ///< blocks that each stage takes; empty: auto
    int actor_threads = 0;                ///< 0: as many as pipeline * data, at most the cores
    int intra_op_threads = 1;
    double bucket_cap_mb = 25;  ///< MiB of gradients that are reduced together, at most
    std::string aggregation = "synchronous";  ///< synchronous | asynchronous
    std::int64_t staleness = 1;               ///< asynchronous: steps after which a sum is applied
    // Where a launcher has started several processes:
    std::string transport = "auto";    ///< auto | shm | gloo: how tensors travel between them
    std::string interface;             ///< network interface to use; empty: found by itself
    std::chrono::seconds timeout{30};  ///< for processes to appear and to answer; all others derive
  } parallel;

  struct Checkpoint {
    std::int64_t every_steps = 0;  ///< 0: only at the end
    std::int64_t keep = 3;         ///< newest ones kept; 0: all
  } checkpoint;

  struct Log {
    std::int64_t every_steps = 1;
  } log;

  struct Fault {
    std::string actor;  ///< "stage/1", or "stage/1/0" of replica 0; any of the graph
    std::int64_t step = 0;
    std::int64_t micro_batch = 0;
  };
  std::vector<Fault> faults;  ///< handlers that throw, once each: to see recovery work

  struct Restarts {
    int max = 3;  ///< restarts of one actor within `within`
    std::chrono::seconds within{60};
  } restarts;
};

}  // namespace troupe
