#pragma once
// The state of a part of a model: its parameters and buffers (StateSpec) and one committed version
// of them (StateVersion).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ops/optim/loss_scale.h"
#include "ops/pass.h"
#include "runtime/tensor/named_tensor.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// The distribution of a parameter's initial values. They depend only on the seed and the
/// parameter's name.
struct Initializer {
  enum class Kind : std::uint8_t { uniform, constant, normal, given };
  Kind kind = Kind::constant;
  double value = 0.0;  ///< the constant, the bound b of U(-b, b), or the deviation s of N(0, s^2)
  /// Of `given`: reads the values, of any floating-point type, in the shape of the parameter.
  /// Throws Error where it cannot.
  std::function<Tensor()> read = {};
};

struct ParameterSpec {
  std::string name;  ///< PyTorch's state_dict key, e.g. "block1.layer1.cbr.0.weight"
  Shape shape;
  Initializer initializer;
  std::int64_t offset = 0;  ///< element of the flat array where it begins; set by StateSpec
  bool frozen = false;      ///< no optimizer changes it (PyTorch: requires_grad=False)
};

/// A running statistic. At a commit it is folded once for each micro-batch, in global order:
/// running = (1 - momentum) * running + momentum * observed, as PyTorch's batch norm.
struct BufferSpec {
  std::string name;
  Shape shape;
  double initial = 0.0;
  double momentum = 0.1;
  std::int64_t offset = 0;
  std::function<Tensor()> read = {};  ///< in place of `initial`: reads the initial values
};

/// A counter of folded micro-batches (PyTorch's num_batches_tracked): an i64 scalar.
struct CounterSpec {
  std::string name;
  std::function<Tensor()> read = {};  ///< the initial value; empty: 0
};

/// Another name of a parameter: PyTorch's tied weights have one for each module.
struct AliasSpec {
  std::string name;
  ParameterIndex of;
};

/// A tensor of the state_dict that training never changes.
struct ConstantSpec {
  std::string name;
  Tensor value;  ///< in the CPU's memory
  /// Modules compute with this value, so a file's value must be the same. False: no module reads
  /// it, so a file's value takes its place in the state.
  bool fixed = true;
};

/// Whether a parameter keeps its value in training, as Optimizer::freezes tells.
using Freezes = std::function<bool(std::string_view parameter)>;

/// The parameters and buffers of a sequence of modules, collected by Module::declare. Parameters
/// lie behind one another in one flat array, buffers in another, so that the optimizer, the reducer
/// and a snapshot each make one pass over memory. Every offset is a multiple of 16 elements; the
/// elements between are zero.
class StateSpec {
 public:
  // Each name is unique: the functions throw Error{bad_options} for one that is there already.
  ParameterIndex add_parameter(std::string name, Shape shape, Initializer initializer,
                               bool frozen = false);
  /// Freezes the parameters for which it is true.
  void freeze(const Freezes& freezes);
  BufferIndex add_buffer(std::string name, Shape shape, double initial, double momentum,
                         std::function<Tensor()> read = {});
  void add_counter(std::string name, std::function<Tensor()> read = {});
  /// Checkpoints and exports hold the parameter under this name too, as PyTorch's state_dict does.
  void add_alias(std::string name, ParameterIndex of);
  void add_constant(ConstantSpec constant);

  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  const std::vector<BufferSpec>& buffers() const { return buffers_; }
  const std::vector<CounterSpec>& counters() const { return counters_; }
  const std::vector<AliasSpec>& aliases() const { return aliases_; }
  const std::vector<ConstantSpec>& constants() const { return constants_; }
  std::int64_t parameter_elements() const { return parameter_elements_; }  ///< padded
  std::int64_t buffer_elements() const { return buffer_elements_; }        ///< padded
  std::int64_t parameter_count() const;                                    ///< without padding

  /// Zeroes the padding between the parameters of a flat array whose parameters alone were written,
  /// such as a gradient. `flat` may be a part of the array that begins at element `begin` and
  /// contains whole parameters only.
  void clear_padding(const Stream& stream, Tensor& flat, std::int64_t begin = 0) const;

  /// Views of a flat array, by index.
  std::vector<Tensor> parameter_views(const Tensor& flat) const;
  std::vector<Tensor> buffer_views(const Tensor& flat) const;

 private:
  void add_name(const std::string& name);

  std::vector<ParameterSpec> parameters_;
  std::vector<BufferSpec> buffers_;
  std::vector<CounterSpec> counters_;
  std::vector<AliasSpec> aliases_;
  std::vector<ConstantSpec> constants_;
  std::set<std::string> names_;
  std::int64_t parameter_elements_ = 0;
  std::int64_t buffer_elements_ = 0;
};

/// The state of a stage after a commit. Immutable once published: the optimizer writes the next
/// version into other memory, so the writer and the supervisor may hold this one for any time, and
/// a failed step does not change it.
struct StateVersion {
  std::int64_t step = 0;                     ///< number of optimizer steps in it
  std::int64_t updates = 0;                  ///< those that applied a gradient
  Tensor weights;                            ///< flat, StateSpec::parameter_elements()
  std::vector<NamedTensor> optimizer_state;  ///< flat, each as `weights`; none before a step
  Tensor buffers;                            ///< flat, StateSpec::buffer_elements()
  std::vector<std::int64_t> counters;
  std::vector<Tensor> constants;        ///< of StateSpec::constants(), in the CPU's memory
  std::optional<LossScale> loss_scale;  ///< of the next step; none before a step with one
};
using StatePtr = std::shared_ptr<const StateVersion>;

/// The state itself if it lies on the stream's device, else a copy there.
StatePtr on_device(const Stream& stream, const StatePtr& state);
/// The state itself if it lies in the CPU's memory, else a copy there. `stream` is of its device.
StatePtr on_cpu(const Stream& stream, const StatePtr& state);

/// Step 0, in the CPU's memory: parameters from their initializers, the seed and their names.
/// Random ones are f32 numbers whatever `dtype` is, so that runs of two precisions begin at the
/// same point. Throws Error{bad_file} where values that are read have another shape or no
/// floating-point type.
StatePtr initial_state(const StateSpec& spec, DType dtype, std::uint64_t seed);

/// What a checkpoint or an export holds of a state: parameters, buffers and counters by name,
/// aliases and constants, and if requested the optimizer's state tensors as "optimizer.<state
/// tensor>.<parameter>". Shares the memory.
std::vector<NamedTensor> named_tensors(const StateSpec& spec, const StateVersion& state,
                                       bool with_optimizer);

/// Throws Error{other_model} with the names of the tensors that are missing, that have a wrong
/// shape or a type that cannot be converted, or (if `strict`) that are not expected. A state tensor
/// of the optimizer in `optimizer_state` (Optimizer::state_names) is expected for all parameters if
/// the file has it for any parameter. Other ones, "optimizer.*", are ignored, as by state_from. A
/// parameter may have the name of an alias; further aliases are ignored. Constants may be missing;
/// fixed ones with other values are among the names. Reads headers and fixed constants only, so a
/// process that loads a part of a model can check the file against the whole.
void check_tensors(const StateSpec& spec, const TensorSource& tensors,
                   const std::vector<std::string>& optimizer_state, bool strict);

/// Whether a tensor of a file has the value of the constant, as far as the element type of the file
/// can tell.
bool has_value(const ConstantSpec& constant, const Tensor& found);

/// A file's tensors by the names of `spec`: a parameter that the file has under an alias alone gets
/// its own name; other aliases are left out. If none of the names fits, but some do behind modules
/// such as "module." of DistributedDataParallel, "_orig_mod." of torch.compile or the attribute of
/// a LightningModule, these are removed. A file with some of the names, but no counter, such as one
/// of PyTorch before 0.4.1, gets the counters of a new model, as in load_state_dict.
TensorSource by_own_names(const StateSpec& spec, TensorSource source);

/// The inverse of named_tensors, in the CPU's memory: a state whose tensors are found by name, read
/// one after the other and converted to `dtype`. All of its steps count as updates. A state tensor
/// of the optimizer that the file lacks is left out: the next step begins it. Throws Error as
/// check_tensors.
StatePtr state_from(const StateSpec& spec, DType dtype, const TensorSource& source,
                    std::int64_t step, const std::vector<std::string>& optimizer_state,
                    bool strict);

}  // namespace troupe
