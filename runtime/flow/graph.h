#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/flow/actor.h"
#include "runtime/flow/payload.h"
#include "runtime/tensor/device.h"

namespace troupe {

/// A reference to an actor of a graph.
template <class A>
struct ActorRef {
  std::size_t index = 0;
  bool operator==(const ActorRef&) const = default;  ///< of one graph: the same actor
};

struct EdgeOptions {
  std::uint32_t slots = 2;     ///< messages that may be in flight or in use
  std::size_t slot_bytes = 0;  ///< largest payload; for the memory bound of a plan
  std::size_t step_bytes = 0;  ///< of all payloads of a training step; for a plan
  Device device;               ///< the device of the tensors in its messages; selects their route
};

/// Actors by name, each with a factory, and the typed edges between them. Building a graph starts
/// no actor. `run` (runtime/flow/run.h) runs the graph and does not change it. One thread builds a
/// graph. Functions that refuse their arguments throw Error{bad_graph}.
///
///     Graph graph;
///     auto loader = graph.add<Loader>("loader", {.dataset = data, .sampler = batches});
///     auto stage = graph.add<Stage>("stage/0", {.program = program});
///     graph.connect(loader, &Loader::samples, stage, &Stage::input, {.slots = 4});
class Graph {
 public:
  struct ActorSpec {
    std::string name;
    std::function<std::unique_ptr<Actor>()> make;
    std::unique_ptr<Actor> prototype;  ///< has the ports and firing rules; never runs
    std::uint32_t process = 0;         ///< in a run over several processes
  };
  struct Edge {
    std::size_t from = 0, to = 0;       ///< actors
    std::size_t output = 0, input = 0;  ///< ports, by index in the actor
    EdgeOptions options;
    PayloadCodec codec;  ///< empty: its messages cannot leave their process
  };

  /// Adds an actor `A(args...)`. The graph keeps the arguments and creates replacements from them.
  /// Refuses a name that is taken.
  template <class A, class... Args>
  ActorRef<A> add(const std::string& name, Args... args) {
    return {add_actor(
        name, [args...]() -> std::unique_ptr<Actor> { return std::make_unique<A>(args...); })};
  }
  /// The same for an actor made from `A::Options`, which the caller may write as {.member = value}.
  template <class A>
  ActorRef<A> add(const std::string& name, typename A::Options options) requires
      std::constructible_from<A, typename A::Options> {
    return {add_actor(name, [options = std::move(options)]() -> std::unique_ptr<Actor> {
      return std::make_unique<A>(options);
    })};
  }

  /// The actor of this name, to connect more actors to a graph that was built elsewhere. Refuses an
  /// unknown name and an actor of a different type from `A`.
  template <class A>
  ActorRef<A> find(std::string_view name) const {
    const std::size_t index = find_actor(name);
    if (!dynamic_cast<const A*>(actors_[index].prototype.get())) refuse_type(index);
    return {index};
  }

  /// Places the actor in this process of a run over several (RunOptions::processes).
  template <class A>
  void place(ActorRef<A> actor, std::uint32_t process) {
    actors_.at(actor.index).process = process;
  }

  /// Connects an output of `from` to an input of `to`. The compiler checks the types. Refuses an
  /// edge without slots.
  template <class A, class B, class T, class OwnerA, class OwnerB>
  void connect(ActorRef<A> from, Output<T> OwnerA::*output, ActorRef<B> to, Input<T> OwnerB::*input,
               EdgeOptions options = {}) {
    connect_ports(from.index, port_index(from.index, &(actor<A>(from).*output)), to.index,
                  port_index(to.index, &(actor<B>(to).*input)), options, payload_codec<T>());
  }

  /// The same for an output that is not a member: `output` returns its address.
  ///
  ///     graph.connect(splitter, [](Splitter& s) { return &s.part(2); }, stage, &Stage::input);
  template <class A, class B, class Find, class T, class OwnerB>
      void connect(ActorRef<A> from, Find output, ActorRef<B> to, Input<T> OwnerB::*input,
                   EdgeOptions options = {}) requires std::same_as < std::invoke_result_t<Find, A&>,
      Output<T>
  * > {
    connect_ports(from.index, port_index(from.index, output(actor<A>(from))), to.index,
                  port_index(to.index, &(actor<B>(to).*input)), options, payload_codec<T>());
  }

  /// The same by indices in Actor::outputs() and Actor::inputs().
  void connect_ports(std::size_t from, std::size_t output, std::size_t to, std::size_t input,
                     EdgeOptions options, PayloadCodec codec = {});

  const std::vector<ActorSpec>& actors() const { return actors_; }
  const std::vector<Edge>& edges() const { return edges_; }
  /// Throws Error{bad_graph} for a Connection::required port without an edge.
  void check_connected() const;
  /// "loader.samples → stage/0.input".
  std::string edge_name(std::size_t edge) const;

  /// Makes an actor with its ports attached to its edges.
  std::unique_ptr<Actor> make_actor(std::size_t index) const;

 private:
  std::size_t add_actor(std::string name, std::function<std::unique_ptr<Actor>()> make);
  std::size_t find_actor(std::string_view name) const;
  [[noreturn]] void refuse_type(std::size_t index) const;
  template <class A>
  A& actor(ActorRef<A> ref) {
    return static_cast<A&>(*actors_.at(ref.index).prototype);
  }
  std::size_t port_index(std::size_t index, const OutputPort* port) const;
  std::size_t port_index(std::size_t index, const InputPort* port) const;

  std::vector<ActorSpec> actors_;
  std::vector<Edge> edges_;
};

}  // namespace troupe
