#include "runtime/transport/gloo/mesh.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "runtime/text.h"
#include "runtime/transport/rendezvous.h"

namespace troupe::transport {
namespace {

using Clock = std::chrono::steady_clock;
/// Gloo's waits have a time limit, and exceeding it ends the connection. Here they have none.
constexpr std::chrono::milliseconds no_limit = std::chrono::hours(24 * 365);
using gloo::transport::tcp::Address;

/// The store of the group behind Gloo's interface. All waits share one deadline.
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

/// Gloo writes under a lock that its reading thread also needs, and a write of megabytes keeps its
/// core busy. So the system accepts at most this much unsent data at once, and Gloo's thread writes
/// the rest. It does not limit the data on the network.
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

Mesh::Mesh(const TransportGroup& group) : rank_(group.rank) {
  struct sigaction action {};
  if (::sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL)
    std::signal(SIGPIPE, SIG_IGN);
  const int size = group.size;
  gloo::transport::tcp::attr attributes;
  attributes.hostname = group.address;
  const auto deadline = Clock::now() + group.timeout;
  GlooStore store(group.store, group.name, deadline);
  try {
    if (rank_ == 0) {
      const std::string secret = random_token();
      store.set("token", {secret.begin(), secret.end()});
    }
    auto device = gloo::transport::tcp::CreateDevice(attributes);  // one thread for both contexts
    for (auto& [context, name] : {std::pair{&up_, "/up"}, std::pair{&down_, "/down"}}) {
      GlooStore addresses(group.store, group.name + name, deadline);
      *context = std::make_shared<Context>(rank_, size);
      (*context)->setTimeout(store.left());
      (*context)->connectFullMesh(addresses, device);
    }
    secret_ = store.text("token");
    check_secrets(size, store.left());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::peer_lost) throw;
    throw Error(error.code(),
                fmt::format("gloo: rank {} of {} at {}: not all ranks have connected within {}: {}",
                            rank_, size, group.address, in_words(group.timeout), error.message()),
                "see the logs of the other ranks; to wait longer, raise `timeout`");
  } catch (const std::system_error&) {
    throw;  // no thread, or no open file
  } catch (const std::exception& error) {
    throw Error(
        ErrorCode::timed_out,
        fmt::format("gloo: rank {} of {} at {}: {}", rank_, size, group.address, error.what()),
        "set `interface` to the one that reaches the other hosts");
  }
  sockets_.resize(static_cast<std::size_t>(size));
  find_sockets(*up_, 0);
  find_sockets(*down_, 1);
}

/// Both ends of every connection send the secret first.
void Mesh::check_secrets(int size, std::chrono::milliseconds patience) {
  struct Greeting {
    int peer = 0;
    std::string received;
    Buffer sending, receiving;
  };
  constexpr std::uint64_t slot = 0;
  std::vector<Greeting> greetings;
  greetings.reserve(2 * static_cast<std::size_t>(size));
  for (const auto& context : {up_, down_})
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank_) continue;
      Greeting& greeting = greetings.emplace_back(Greeting{.peer = peer, .received = secret_});
      greeting.received.assign(secret_.size(), ' ');
      greeting.sending = context->createUnboundBuffer(secret_.data(), secret_.size());
      greeting.receiving =
          context->createUnboundBuffer(greeting.received.data(), greeting.received.size());
      greeting.receiving->recv(peer, slot);
      greeting.sending->send(peer, slot);
    }
  for (Greeting& greeting : greetings) {
    greeting.receiving->waitRecv(patience);
    greeting.sending->waitSend(patience);
    if (greeting.received != secret_)
      throw Error(ErrorCode::peer_lost,
                  fmt::format("gloo: rank {} of {}: a process without the group's secret has "
                              "connected in place of rank {}",
                              rank_, size, greeting.peer),
                  "set `interface` to one of a private network");
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

/// A buffer that a thread waits for. When a connection fails, Gloo fails the buffers whose messages
/// have not begun, but not the one that is half received: cut() aborts the wait for that.
class Mesh::Waiting {
 public:
  Waiting(Mesh& mesh, gloo::transport::UnboundBuffer& buffer) : mesh_(mesh), buffer_(buffer) {
    const std::lock_guard lock(mesh.mutex_);
    if (mesh.cut_) throw std::runtime_error("the connections are cut");
    mesh.waiting_.insert(&buffer);
  }
  ~Waiting() {
    const std::lock_guard lock(mesh_.mutex_);
    mesh_.waiting_.erase(&buffer_);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Mesh& mesh_;
  gloo::transport::UnboundBuffer& buffer_;
};

void Mesh::await_receive(gloo::transport::UnboundBuffer& buffer) {
  const Waiting waiting(*this, buffer);
  if (!buffer.waitRecv(no_limit)) throw std::runtime_error("the receive was aborted");
}

void Mesh::await_send(gloo::transport::UnboundBuffer& buffer) {
  const Waiting waiting(*this, buffer);
  if (!buffer.waitSend(no_limit)) throw std::runtime_error("the send was aborted");
}

void Mesh::cut() {
  for (const auto& pair : sockets_)
    for (const Fd& socket : pair)
      if (socket) ::shutdown(socket.get(), SHUT_RDWR);
  {
    const std::lock_guard lock(mutex_);
    cut_ = true;
    for (gloo::transport::UnboundBuffer* buffer : waiting_) {
      buffer->abortWaitRecv();
      buffer->abortWaitSend();
    }
  }
  // Gloo still reads what the system had received before the shutdown.
  for (const auto& context : {up_, down_}) context->closeConnections();
  // closeConnections() makes sockets drop, when they are closed, what the peer has not read yet.
  constexpr linger keep_it{0, 0};
  for (const auto& pair : sockets_)
    for (const Fd& socket : pair)
      if (socket) ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &keep_it, sizeof keep_it);
}

}  // namespace troupe::transport
