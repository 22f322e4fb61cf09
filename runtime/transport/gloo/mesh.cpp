#include "runtime/transport/gloo/mesh.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "runtime/control/interface.h"

namespace troupe::transport {
namespace {

using Clock = std::chrono::steady_clock;
/// Gloo's waits have a time limit, which ends the whole connection; ours have none.
constexpr std::chrono::milliseconds no_limit = std::chrono::hours(24 * 365);
using gloo::transport::tcp::Address;

/// Our store, as Gloo asks for it; all waits together end with the one timeout.
class GlooStore final : public gloo::rendezvous::Store {
 public:
  GlooStore(troupe::Store& store, const GlooOptions& options)
      : store_(store), group_(options.group), deadline_(Clock::now() + options.timeout) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_.put(group_ + "/" + key, std::string(data.begin(), data.end())).value();
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
        store_.get(group_ + "/" + key, std::max(left, std::chrono::milliseconds(0)));
    return std::move(value.value());  // Errors pass through Gloo, which throws its own alike
  }
  std::chrono::milliseconds left() const {
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()),
                    std::chrono::milliseconds(1));
  }

 private:
  troupe::Store& store_;
  const std::string group_;
  const Clock::time_point deadline_;
};

std::string random_token() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    throw Error(ErrorCode::io, "gloo: the system gives no random numbers");
  return fmt::format("{:02x}", fmt::join(bytes, bytes + sizeof bytes, ""));
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
    return Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  return {};
}

}  // namespace

Mesh::Mesh(Store& store, int rank, int size, const GlooOptions& options) {
  struct sigaction action {};
  if (::sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL)
    std::signal(SIGPIPE, SIG_IGN);
  gloo::transport::tcp::attr attributes;
  attributes.hostname = address_of_interface(options.interface);
  GlooStore words(store, options);
  try {
    if (rank == 0) {
      token_ = random_token();
      words.set("token", {token_.begin(), token_.end()});
    }
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    context_ = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context_->setTimeout(words.left());
    context_->connectFullMesh(words, device);
    token_ = words.text("token");
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("gloo: rank {} of {} at {}: not all ranks have appeared "
                            "within {}: {}",
                            rank, size, attributes.hostname, options.timeout, error.message()),
                "see the logs of the others; parallel.timeout is the time to wait "
                "(in a program: TransportOptions::timeout)");
  } catch (const std::exception& error) {
    throw Error(
        ErrorCode::timed_out,
        fmt::format("gloo: rank {} of {} at {}: {}", rank, size, attributes.hostname, error.what()),
        "name the interface that reaches the other hosts with parallel.interface");
  }
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const auto& address = dynamic_cast<const Address&>(context_->getPair(peer)->address());
    sockets_.push_back(find_socket(address.getSockaddr()));
    if (!sockets_.back())
      throw Error(ErrorCode::internal,
                  fmt::format("gloo: rank {}'s connection to rank {} was not found", rank, peer));
  }
}

Mesh::~Mesh() { cut(); }

/// A buffer that somebody waits for. Gloo tells a failed connection to the buffers of operations
/// that have not begun, but not to the one whose message is half received: cut() must do that.
class Mesh::Waiting {
 public:
  Waiting(Mesh& mesh, gloo::transport::UnboundBuffer& buffer) : mesh_(mesh) {
    const std::lock_guard lock(mesh.mutex_);
    if (mesh.cut_) throw std::runtime_error("the connections are cut");
    at_ = mesh.waiting_.insert(&buffer);
  }
  ~Waiting() {
    const std::lock_guard lock(mesh_.mutex_);
    mesh_.waiting_.erase(at_);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Mesh& mesh_;
  std::multiset<gloo::transport::UnboundBuffer*>::iterator at_;
};

void Mesh::await_receive(gloo::transport::UnboundBuffer& buffer) {
  const Waiting waiting(*this, buffer);
  if (!buffer.waitRecv(no_limit)) throw std::runtime_error("the connections are cut");
}

void Mesh::await_send(gloo::transport::UnboundBuffer& buffer) {
  const Waiting waiting(*this, buffer);
  if (!buffer.waitSend(no_limit)) throw std::runtime_error("the connections are cut");
}

void Mesh::cut() {
  for (const Fd& socket : sockets_) ::shutdown(socket.get(), SHUT_RDWR);
  const std::lock_guard lock(mutex_);
  cut_ = true;
  for (gloo::transport::UnboundBuffer* buffer : waiting_) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
}

}  // namespace troupe::transport
