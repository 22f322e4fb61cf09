#pragma once
// ZeroMQ sockets that accept only the job's key.

#include <atomic>
#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <zmq.hpp>

#include "runtime/control/job_key.h"
#include "runtime/control/messaging.h"
#include "runtime/fd.h"

namespace troupe {

/// Declared in messaging.h. A ZeroMQ context and the thread that authenticates clients (ZAP,
/// https://rfc.zeromq.org/spec/27/). The sockets of a process share it. Thread-safe.
class MessagingContext {
 public:
  explicit MessagingContext(int io_threads = 1, int max_sockets = 4096);
  ~MessagingContext();

  zmq::context_t& zmq() { return zmq_; }

  /// A socket that accepts only clients with the job's key.
  zmq::socket_t server(zmq::socket_type type, const JobKey& key);

  /// A socket that accepts only servers with the job's key.
  zmq::socket_t client(zmq::socket_type type, const JobKey& key);

  /// An address in this context that nobody has bound.
  std::string new_inproc_address();

 private:
  void answer(zmq::socket_t& handler);
  void run(zmq::socket_t handler);
  bool is_allowed(const std::string& domain, const std::string& public_key);

  zmq::context_t zmq_;
  std::mutex mutex_;
  std::map<std::string, std::set<std::string>> allowed_;
  std::atomic<std::uint64_t> addresses_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

namespace control {

/// Repeats a call of ZeroMQ that a signal has interrupted. Every call first looks for commands to
/// its socket; if a signal interrupts that, the call fails with EINTR and has done nothing.
template <class Call>
auto undisturbed(Call call) {
  for (;;) try {
      return call();
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
    }
}

/// Passes a part of a message to a socket, without waiting.
inline void send_now(zmq::socket_t& socket, std::string_view part,
                     zmq::send_flags more = zmq::send_flags::none) {
  undisturbed([&] { socket.send(zmq::buffer(part), more | zmq::send_flags::dontwait); });
}

/// Wakes a thread that sleeps in zmq::poll.
class Wakeup {
 public:
  Wakeup();
  void ring();   ///< any thread
  void quiet();  ///< the thread that sleeps
  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
};

/// The events of a ZeroMQ socket, such as its connections. Their queue is not bounded: a full one
/// would block the I/O thread for good.
class SocketEvents {
 public:
  SocketEvents(MessagingContext& context, zmq::socket_t& watched, int events);

  /// On the thread of the watched socket, which must still be open: without a reader the next event
  /// would block its I/O thread.
  ~SocketEvents();
  SocketEvents(const SocketEvents&) = delete;
  SocketEvents& operator=(const SocketEvents&) = delete;

  struct Event {
    int what = 0;   ///< ZMQ_EVENT_…
    int value = 0;  ///< the descriptor, or the reason
  };
  bool next(Event& event);
  void close();  ///< as the destructor; then the watched socket can be closed first
  zmq::socket_t& socket() { return socket_; }

 private:
  zmq::socket_t& watched_;
  zmq::socket_t socket_;
};

/// Receives all parts of one message without waiting; false when there is none.
bool receive_parts(zmq::socket_t& socket, std::vector<zmq::message_t>& parts);

}  // namespace control
}  // namespace troupe
