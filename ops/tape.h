#pragma once
#include <algorithm>
#include <concepts>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/pass.h"

namespace troupe {

/// Names a tensor that flows through a Tape.
struct Value {
  int index = -1;
};

/// The input gradient of a primitive for one of its inputs.
struct InputGradient {
  bool wanted = true;  ///< false: the primitive may leave it out
  Tensor grad;         ///< shape and layout of the input; of any floating-point type
  /// What others have given to this input, if it may be written. A primitive whose gradient is zero
  /// in most places may add to it there instead of giving `grad`; it then sets `added`.
  Tensor sum = {};
  bool added = false;
};

/// Records the forward pass of a micro-batch, for the backward pass.
///
/// A primitive is a small object: its members are its attributes and what it saves. It has
///
///     static constexpr std::string_view name;
///     Tensor forward(const Pass&, const Tensor& x, ...);              // saves what backward needs
///     void input_gradient(const Pass&, const Tensor& grad, std::span<InputGradient> inputs);
///     void weight_gradient(const Pass&, const Tensor& grad);          // only where it has weights
///     void weight_gradient(const Pass&);  // where it needs no grad: none is kept for it
///     std::array<ParameterIndex, N> parameters() const;  // with weight_gradient: those it writes
///     std::vector<Tensor> saved() const;                              // only where it saves any
///
/// `record` runs it and keeps it. The two backward halves may run apart, the input half first: a
/// schedule may defer the weight half. When both have run, the tensors that the primitive saved are
/// freed. A value that several primitives use gets the sum of their gradients, in the reverse order
/// of recording. `weight_gradient` is not called where none of the parameters is trained;
/// operations before the first that is trained are not kept. In evaluation nothing is kept. A Tape
/// belongs to one stage and one micro-batch; dropping it frees everything saved.
class Tape {
 public:
  explicit Tape(const Pass& pass) : pass_(pass) {}
  Tape(Tape&&) = default;
  Tape& operator=(Tape&&) = default;

  const Pass& pass() const { return pass_; }

  /// Adds an input. Its gradient is computed only if `wants_gradient`.
  Value input(Tensor tensor, bool wants_gradient);

  /// Runs `primitive.forward(pass, inputs...)`, keeps the primitive, and names the output.
  template <class Primitive, std::same_as<Value>... Inputs>
  Value record(Primitive primitive, Inputs... inputs) {
    auto operation = std::make_unique<OperationOf<Primitive>>(std::move(primitive));
    Tensor output = operation->primitive.forward(pass_, tensor(inputs)...);
    return keep(std::move(operation), {inputs...}, std::move(output));
  }
  /// The same for a primitive of any number of inputs:
  /// `primitive.forward(pass, std::span<const Tensor>)`.
  template <class Primitive>
  Value record(Primitive primitive, std::span<const Value> inputs) {
    auto operation = std::make_unique<OperationOf<Primitive>>(std::move(primitive));
    std::vector<Tensor> tensors;
    for (const Value input : inputs) tensors.push_back(tensor(input));
    Tensor output = operation->primitive.forward(pass_, std::span<const Tensor>(tensors));
    return keep(std::move(operation), {inputs.begin(), inputs.end()}, std::move(output));
  }

  const Tensor& tensor(Value value) const {
    return values_[static_cast<std::size_t>(value.index)].tensor;
  }

  /// Ends the forward pass: drops every value that no primitive has saved, except `kept` (if
  /// given). May be called again.
  void seal(Value kept = {});

  /// Runs both halves, one operation after the other. Returns the gradients of the inputs that want
  /// one, in their order. `grad` is only read, and is converted to the output's layout and type. It
  /// may be undefined if the output depends on nothing that wants a gradient.
  /// Throws Error if its shape is not the output's, or if the output does not depend on a recorded
  /// operation whose weights are trained.
  std::vector<Tensor> backward(Value output, const Tensor& grad);
  /// The same in parts; other work may run between them:
  ///
  ///     const std::size_t middle = tape.recorded();  // in the forward pass
  ///     …
  ///     tape.begin_backward(output, grad);
  ///     tape.backward_to(middle);  // both halves of all that was recorded since
  ///     tape.backward_to(0);
  ///     const auto gradients = tape.end_backward();  // those of the inputs
  void begin_backward(Value output, const Tensor& grad);
  void backward_to(std::size_t mark) { walk_to(mark, true); }
  std::vector<Tensor> end_backward();
  /// The number of recorded operations that backward has not visited. It grows in the forward pass
  /// and shrinks in the backward pass.
  std::size_t recorded() const { return operations_.size(); }
  /// Runs the input half alone, of all operations; keeps the gradients that the weight half reads.
  /// Values of recorded() stay valid: `backward_to` then runs the weight half of the operations
  /// recorded since.
  std::vector<Tensor> backward_inputs(Value output, const Tensor& grad);
  /// Runs the weight half of all operations; afterwards the tape is empty.
  void backward_weights() { backward_to(0); }

  /// Bytes that the tape holds for backward, weights left out and shared storage counted once.
  std::size_t saved_bytes() const;

 private:
  struct Operation {
    virtual ~Operation() = default;
    virtual void input_gradient(const Pass&, const Tensor& grad,
                                std::span<InputGradient> inputs) = 0;
    virtual void weight_gradient(const Pass&, const Tensor& grad) = 0;
    virtual bool trains(const Pass&) const = 0;  ///< any of its parameters
    virtual bool weights_read_gradient() const = 0;
    virtual std::string_view name() const = 0;
    virtual std::vector<Tensor> saved() const = 0;

    std::vector<Value> inputs;
    Value output;
    bool weights_deferred = false;  ///< its input half ran, its weight half did not
    Tensor grad;                    ///< kept between the halves where the second reads it
  };
  template <class Primitive>
  struct OperationOf final : Operation {
    explicit OperationOf(Primitive p) : primitive(std::move(p)) {}
    static constexpr bool reads_gradient =
        requires(Primitive p, const Pass& pass, const Tensor& grad) {
      p.weight_gradient(pass, grad);
    };
    static constexpr bool weighted = reads_gradient || requires(Primitive p, const Pass& pass) {
      p.weight_gradient(pass);
    };
    static_assert(
        weighted || !requires { &Primitive::weight_gradient; },
        "weight_gradient takes (const Pass&), or (const Pass&, const Tensor& grad)");
    void input_gradient(const Pass& pass, const Tensor& grad,
                        std::span<InputGradient> inputs) override {
      primitive.input_gradient(pass, grad, inputs);
    }
    void weight_gradient(const Pass& pass, const Tensor& grad) override {
      if constexpr (reads_gradient)
        primitive.weight_gradient(pass, grad);
      else if constexpr (weighted)
        primitive.weight_gradient(pass);
    }
    bool trains(const Pass& pass) const override {
      if constexpr (weighted)
        return std::ranges::any_of(primitive.parameters(),
                                   [&](ParameterIndex index) { return pass.trains(index); });
      else
        return false;
    }
    bool weights_read_gradient() const override { return reads_gradient; }
    std::string_view name() const override { return Primitive::name; }
    std::vector<Tensor> saved() const override {
      if constexpr (requires { primitive.saved(); })
        return primitive.saved();
      else
        return {};
    }
    Primitive primitive;
  };
  struct SavedTensor {
    Tensor tensor;
    Shape shape;  ///< of the tensor, known after it was freed
    Layout layout = Layout::row_major;
    DType dtype = DType::f32;
    Tensor grad;  ///< of that shape, layout and type
    bool wants_gradient = false;
  };

  SavedTensor& saved_tensor(Value value) { return values_[static_cast<std::size_t>(value.index)]; }
  Value add(Tensor tensor, bool wants_gradient);
  Value keep(std::unique_ptr<Operation> operation, std::vector<Value> inputs, Tensor output);
  void walk_to(std::size_t mark, bool with_weights);
  void visit(std::unique_ptr<Operation>& operation, bool with_weights);
  void accumulate(SavedTensor& into, InputGradient& given, std::string_view from);

  Pass pass_;
  std::vector<SavedTensor> values_;
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<Value> sources_;
  Tensor given_;  ///< to begin_backward; held until the end
};

}  // namespace troupe
