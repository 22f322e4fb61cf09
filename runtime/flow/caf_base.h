#pragma once
// Internal to the runtime: the base of its CAF actors.

#include <caf/all.hpp>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace troupe::flow {

/// An actor for which `enqueue` never throws: an exception there ends the process. CAF puts a
/// message into the mailbox first and then allocates to schedule the receiver: if that failed with
/// an exception, the receiver would never run again, and the run would hang. std::terminate reports
/// the exception.
class QueueingActor : public caf::event_based_actor {
 public:
  using caf::event_based_actor::enqueue;
  using caf::event_based_actor::event_based_actor;

  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit* unit) noexcept override {
    caf::event_based_actor::enqueue(std::move(message), unit);
  }
};

#if defined(__SANITIZE_THREAD__)

/// Declares the guarantees of CAF's mailboxes to the thread sanitizer: a handler sees what the
/// sender did before it sent, and the handlers of an actor run one after another. Atomics inside
/// libcaf_core provide them, which the sanitizer does not see in Debian's build.
class CafBase : public QueueingActor {
 public:
  using QueueingActor::enqueue;
  using QueueingActor::QueueingActor;

  void launch(caf::execution_unit* unit, bool lazy, bool hide) override {
    __tsan_release(this);
    QueueingActor::launch(unit, lazy, hide);
  }
  void initialize() override {
    __tsan_acquire(this);
    QueueingActor::initialize();
    __tsan_release(this);
  }
  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit* unit) noexcept override {
    __tsan_release(this);
    QueueingActor::enqueue(std::move(message), unit);
  }
  caf::invoke_message_result consume(caf::mailbox_element& message) override {
    __tsan_acquire(this);
    const auto result = QueueingActor::consume(message);
    __tsan_release(this);
    return result;
  }
};

#else

using CafBase = QueueingActor;

#endif

template <class State>
using CafActor = caf::stateful_actor<State, CafBase>;

}  // namespace troupe::flow
