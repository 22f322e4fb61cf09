#pragma once
// Inside the Gloo transport: the control messages of ranks, beside the bytes of tensors.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "runtime/fd.h"
#include "runtime/transport/transport.h"

namespace troupe::transport {

/// A control message, sent as it lies in memory: both ends run the same build. A text may follow.
struct ControlMessage {
  enum class Kind : std::uint8_t { offer = 1, done, warning, closing };
  Kind kind = Kind::closing;
  std::uint8_t dtype = 0, layout = 0, rank = 0;  ///< of a tensor
  std::int32_t number = 0;                       ///< of a warning: the ErrorCode
  std::uint32_t text_bytes = 0;
  std::uint64_t tag = 0;  ///< of an offer
  std::uint64_t id = 0;   ///< of an offered tensor
  std::array<std::int64_t, 6> dims{};
};
static_assert(std::is_trivially_copyable_v<ControlMessage>);

/// TCP connections to all peers for control messages. A message costs one system call to send.
/// Through Gloo it would cost three and wake a thread of the peer for each, and Gloo would not read
/// the bytes of tensors on the same connection meanwhile.
class SideChannel {
 public:
  /// Of a warning: message and remedy; of an offer: the tensor itself, if it fits.
  using Text = std::span<const std::byte>;
  static constexpr std::size_t max_text_bytes = 4096;

  struct Listener {
    /// False: this rank sends nothing more. If it throws, the connection is given up.
    std::function<bool(int from, const ControlMessage& message, Text text)> on_message;
    /// The connection has ended, or its bytes are not a control message.
    std::function<void(int from, const std::exception& why)> on_lost;
  };

  /// Connects all ranks of a group. A client that does not send `secret` is refused. Throws Error
  /// with the missing rank.
  SideChannel(const TransportGroup& group, const std::string& secret);
  ~SideChannel() { close(); }
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  /// Begins to receive, on one thread for all peers.
  void listen(Listener listener);
  /// Never blocks: bytes that the system does not take at once are kept until it does. Messages to
  /// one rank arrive in order; they are lost once its connection has ended. Any thread.
  void send(int to, ControlMessage message, Text text = {});
  /// Waits until the system of this rank has received all messages to it, its connection has ended,
  /// or the time is up.
  void flush(int to, std::chrono::steady_clock::time_point until);
  /// Ends all connections, here and at the peers. Messages that were not flushed are lost if the
  /// peer sends something afterwards. Any thread, repeatedly.
  void cut();
  /// Cuts, and waits for the receiving thread: it calls the listener no more.
  void close();

 private:
  struct Line {
    Fd socket;
    std::vector<std::byte> received;  ///< by the receiving thread: the beginning of a message
    std::mutex mutex;
    std::vector<std::byte> unsent;
    bool gone = false;
  };

  void serve();
  bool read(int from);  ///< false: this rank sends nothing more
  bool take_messages(int from);
  static void push(Line& line);  ///< its mutex is held
  void watch(int rank, bool for_room);
  Line& at(int rank) { return *lines_[static_cast<std::size_t>(rank)]; }

  std::vector<std::unique_ptr<Line>> lines_;
  Fd events_;
  Listener listener_;
  std::thread thread_;
};

/// Connections by rank, none for this one. Throws Error with the missing rank.
std::vector<Fd> connect_side_channel(const TransportGroup& group, const std::string& secret);

}  // namespace troupe::transport
