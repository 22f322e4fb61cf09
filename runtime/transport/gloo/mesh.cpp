#include "runtime/transport/gloo/mesh.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "runtime/control/interface.h"
#include "runtime/text.h"
#include "runtime/transport/meeting.h"

namespace troupe::transport {
namespace {

using Clock = std::chrono::steady_clock;
/// Gloo's waits have a time limit, which ends the whole connection; ours have none.
constexpr std::chrono::milliseconds no_limit = std::chrono::hours(24 * 365);
using gloo::transport::tcp::Address;

/// Our store, as Gloo asks for it; all waits together end with the one timeout.
class GlooStore final : public gloo::rendezvous::Store {
 public:
  GlooStore(troupe::Store& store, std::string prefix, Clock::time_point deadline)
      : store_(store), prefix_(std::move(prefix)), deadline_(deadline) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_.put(prefix_ + "/" + key, std::string(data.begin(), data.end())).value();
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = text(key);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) text(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
    wait(keys);
  }

  std::string text(const std::string& key) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
    Result<std::string> value =
        store_.get(prefix_ + "/" + key, std::max(left, std::chrono::milliseconds(0)));
    return std::move(value.value());  // Errors pass through Gloo, which throws its own alike
  }
  std::chrono::milliseconds left() const {
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()),
                    std::chrono::milliseconds(1));
  }

 private:
  troupe::Store& store_;
  const std::string prefix_;
  const Clock::time_point deadline_;
};

/// Gloo writes under a lock that its reading thread only tries, and a write of megabytes holds its
/// core: so the system takes no more than this ahead of what it has sent, and the rest is written
/// by Gloo's thread. What is on the network at once has no such limit (docs/performance.md).
void write_little_ahead(const Fd& socket) {
  constexpr int unsent = 1 << 20;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

/// The connection of this process whose own end has this address.
Fd find_socket(const sockaddr_storage& wanted) {
  const auto port = [](const sockaddr_storage& address) {
    return address.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                                        : reinterpret_cast<const sockaddr_in6&>(address).sin6_port;
  };
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::string name = entry.path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    int listens = 0;
    socklen_t listens_length = sizeof listens;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) != 0) continue;
    if (own.ss_family != wanted.ss_family || port(own) != port(wanted)) continue;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_length) != 0 || listens != 0)
      continue;
    Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy)
      throw Error(ErrorCode::io,
                  fmt::format("gloo: duplicating a connection: {}", std::strerror(errno)),
                  more_open_files);
    return copy;
  }
  return {};
}

}  // namespace

Mesh::Mesh(Store& store, int rank, int size, const GlooOptions& options) : rank_(rank) {
  struct sigaction action {};
  if (::sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL)
    std::signal(SIGPIPE, SIG_IGN);
  gloo::transport::tcp::attr attributes;
  attributes.hostname = address_of_interface(options.interface);
  const auto deadline = Clock::now() + options.timeout;
  GlooStore board(store, options.group, deadline);
  try {
    if (rank == 0) {
      const std::string secret = random_word();
      board.set("token", {secret.begin(), secret.end()});
    }
    auto device = gloo::transport::tcp::CreateDevice(attributes);  // one thread for both contexts
    for (auto& [context, name] : {std::pair{&up_, "/up"}, std::pair{&down_, "/down"}}) {
      GlooStore addresses(store, options.group + name, deadline);
      *context = std::make_shared<Context>(rank, size);
      (*context)->setTimeout(board.left());
      (*context)->connectFullMesh(addresses, device);
    }
    secret_ = board.text("token");
    expose_strangers(size, board.left());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::peer_lost) throw;
    throw Error(
        error.code(),
        fmt::format("gloo: rank {} of {} at {}: not all ranks have appeared "
                    "within {}: {}",
                    rank, size, attributes.hostname, in_words(options.timeout), error.message()),
        "see the logs of the others; parallel.timeout is the time to wait "
        "(in a program: TransportOptions::timeout)");
  } catch (const std::system_error&) {
    throw;  // no thread, or no open file
  } catch (const std::exception& error) {
    throw Error(
        ErrorCode::timed_out,
        fmt::format("gloo: rank {} of {} at {}: {}", rank, size, attributes.hostname, error.what()),
        "name the interface that reaches the other hosts with parallel.interface");
  }
  sockets_.resize(static_cast<std::size_t>(size));
  find_sockets(*up_, 0);
  find_sockets(*down_, 1);
}

/// Both ends of every connection say the secret first.
void Mesh::expose_strangers(int size, std::chrono::milliseconds patience) {
  struct Greeting {
    int peer = 0;
    std::string heard;
    Buffer said, hears;
  };
  constexpr std::uint64_t slot = 0;
  std::vector<Greeting> greetings;
  greetings.reserve(2 * static_cast<std::size_t>(size));
  for (const auto& context : {up_, down_})
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank_) continue;
      Greeting& greeting = greetings.emplace_back(Greeting{.peer = peer, .heard = secret_});
      greeting.heard.assign(secret_.size(), ' ');
      greeting.said = context->createUnboundBuffer(secret_.data(), secret_.size());
      greeting.hears = context->createUnboundBuffer(greeting.heard.data(), greeting.heard.size());
      greeting.hears->recv(peer, slot);
      greeting.said->send(peer, slot);
    }
  for (Greeting& greeting : greetings) {
    greeting.hears->waitRecv(patience);
    greeting.said->waitSend(patience);
    if (greeting.heard != secret_)
      throw Error(ErrorCode::peer_lost,
                  fmt::format("gloo: rank {} of {}: a stranger took the place of rank {}", rank_,
                              size, greeting.peer),
                  "name an interface of a private network with parallel.interface");
  }
}

void Mesh::find_sockets(const Context& context, std::size_t which) {
  for (int peer = 0; peer < context.size; ++peer) {
    if (peer == rank_) continue;
    // getPair() is not const, and changes nothing.
    const auto& pair = const_cast<Context&>(context).getPair(peer);
    const auto& address = dynamic_cast<const Address&>(pair->address());
    Fd& socket = sockets_[static_cast<std::size_t>(peer)].at(which);
    socket = find_socket(address.getSockaddr());
    if (!socket)
      throw Error(ErrorCode::internal,
                  fmt::format("gloo: rank {}'s connection to rank {} was not found", rank_, peer));
    write_little_ahead(socket);
  }
}

Mesh::~Mesh() { cut(); }

/// A buffer that somebody waits for. Gloo tells a failed connection to the buffers of operations
/// that have not begun, but not to the one whose message is half received: that is done here.
class Mesh::Waiting {
 public:
  Waiting(Mesh& mesh, int peer, gloo::transport::UnboundBuffer& buffer) : mesh_(mesh) {
    const std::lock_guard lock(mesh.mutex_);
    if (mesh.cut_ || mesh.forsaken_.contains(peer))
      throw std::runtime_error("the connections are cut");
    at_ = mesh.waiting_.emplace(peer, &buffer);
  }
  ~Waiting() {
    const std::lock_guard lock(mesh_.mutex_);
    mesh_.waiting_.erase(at_);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Mesh& mesh_;
  std::multimap<int, gloo::transport::UnboundBuffer*>::iterator at_;
};

void Mesh::await_receive(int peer, gloo::transport::UnboundBuffer& buffer) {
  const Waiting waiting(*this, peer, buffer);
  if (!buffer.waitRecv(no_limit)) throw std::runtime_error("the connections are cut");
}

void Mesh::await_send(int peer, gloo::transport::UnboundBuffer& buffer) {
  const Waiting waiting(*this, peer, buffer);
  if (!buffer.waitSend(no_limit)) throw std::runtime_error("the connections are cut");
}

void Mesh::abort_waits(int peer) {
  for (auto [at, end] = waiting_.equal_range(peer); at != end; ++at) {
    at->second->abortWaitRecv();
    at->second->abortWaitSend();
  }
}

void Mesh::forsake(int peer) {
  constexpr std::chrono::milliseconds moment{1}, moments{20};
  for (const Fd& socket : sockets_[static_cast<std::size_t>(peer)]) {
    pollfd end{socket.get(), POLLRDHUP, 0};
    while (::poll(&end, 1, -1) < 0 && errno == EINTR) {  // cut() ends it as well
    }
    // Gloo reads what is left, unless it has given the connection up: then nobody does.
    const auto enough = Clock::now() + std::chrono::seconds(1);
    for (char byte = 0; Clock::now() < enough; std::this_thread::sleep_for(moment)) {
      if (::recv(socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) break;
      const std::lock_guard lock(mutex_);
      if (cut_) return;
    }
  }
  std::unique_lock lock(mutex_);
  // For the last bytes, which it may just have read.
  if (changed_.wait_for(lock, moments, [&] { return cut_; })) return;
  forsaken_.insert(peer);
  abort_waits(peer);
}

void Mesh::cut() {
  for (const auto& pair : sockets_)
    for (const Fd& socket : pair)
      if (socket) ::shutdown(socket.get(), SHUT_RDWR);
  {
    const std::lock_guard lock(mutex_);
    cut_ = true;
    changed_.notify_all();
    for (std::size_t peer = 0; peer < sockets_.size(); ++peer) abort_waits(static_cast<int>(peer));
  }
  // A socket that was shut down still has what the system had received, and Gloo reads it.
  for (const auto& context : {up_, down_}) context->closeConnections();
  // That tells sockets to drop, at their end, what the peer has not read yet.
  constexpr linger keep_it{0, 0};
  for (const auto& pair : sockets_)
    for (const Fd& socket : pair)
      if (socket) ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &keep_it, sizeof keep_it);
}

}  // namespace troupe::transport
