#pragma once
// Inside the Gloo transport: what ranks say to each other beside the bytes of tensors.

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
#include "runtime/transport/communicator.h"

namespace troupe::transport {

/// A message. Between processes of one build, as it lies in memory; a text may follow.
struct Word {
  enum class Kind : std::uint8_t { offer = 1, done, warning, goodbye };
  Kind kind = Kind::goodbye;
  std::uint8_t dtype = 0, layout = 0, rank = 0;  ///< of a tensor
  std::int32_t number = 0;                       ///< of a warning: the ErrorCode
  std::uint32_t follow = 0;                      ///< bytes of the text
  std::uint64_t tag = 0;                         ///< of an offer
  std::uint64_t id = 0;                          ///< of an offered tensor
  std::array<std::int64_t, 6> dims{};
};
static_assert(std::is_trivially_copyable_v<Word>);

/// TCP connections to all peers. One system call says a word and none is needed to be able to hear
/// one; by Gloo it took three, and each of them woke a thread of the peer and kept Gloo from
/// reading what came on the same connection meanwhile.
class Words {
 public:
  /// Of a warning: message and remedy; of an offer: the tensor itself, if it is so small.
  using Text = std::span<const std::byte>;
  static constexpr std::size_t longest_text = 4096;

  struct Listener {
    /// False: nothing more is awaited from this rank. May throw: the connection is given up.
    std::function<bool(int from, const Word& word, Text text)> hear;
    /// The connection has ended, or what came on it is not a word.
    std::function<void(int from, const std::exception& why)> lost;
  };

  /// Connects all ranks of a group; who does not say `secret` is a stranger. Throws who is missing.
  Words(Store& store, int rank, int size, const GlooOptions& options, const std::string& secret);
  ~Words() { close(); }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  /// Begins to hear, on one thread for all peers.
  void listen(Listener listener);
  /// Never blocks: what the system does not take at once is kept until it does. Any thread. Words
  /// to one rank arrive in their order, or not at all once its connection has ended.
  void say(int to, Word word, Text text = {});
  /// Waits until this rank's system has all that was said to it, or its connection is gone; until
  /// then at most.
  void flush(int to, std::chrono::steady_clock::time_point until);
  /// Ends all connections, here and at the peers. What was not flushed is lost if the peer says
  /// something after this. Any thread, again and again.
  void cut();
  /// Cuts, and waits for the listening thread: nothing is heard any more.
  void close();

 private:
  struct Line {
    Fd socket;
    std::vector<std::byte> heard;  ///< of the listening thread: the beginning of a word
    std::mutex mutex;
    std::vector<std::byte> unsent;
    bool gone = false;
  };

  void serve();
  bool read(int from);  ///< false: nothing more is awaited
  bool hear_all(int from);
  static void push(Line& line);  ///< its mutex is held
  void watch(int rank, bool for_room);
  Line& at(int rank) { return *lines_[static_cast<std::size_t>(rank)]; }

  std::vector<std::unique_ptr<Line>> lines_;
  Fd events_;
  Listener listener_;
  std::thread thread_;
};

/// Connections by rank, none to this one; throws who is missing.
std::vector<Fd> connect_words(Store& store, int rank, int size, const GlooOptions& options,
                              const std::string& secret);

}  // namespace troupe::transport
