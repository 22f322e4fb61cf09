#include "runtime/control/detail/context.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>
#include <zmq_addon.hpp>

#include "runtime/control/detail/wire.h"
#include "runtime/error.h"
#include "runtime/quiet_thread.h"

namespace troupe {
namespace {

constexpr const char* zap_endpoint = "inproc://zeromq.zap.01";
/// ZMQ_ZAP_ENFORCE_DOMAIN: without it a socket whose domain finds no handler accepts all clients. A
/// draft option: Debian's header omits its name, but the library has it.
constexpr int zap_enforce_domain = 93;

/// Writing to a closed connection must be an error of the write, not the end of the process.
void ignore_broken_pipes() {
  struct sigaction now {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
    std::signal(SIGPIPE, SIG_IGN);
}

std::string z85(const zmq::message_t& raw) {
  std::array<char, 41> text{};
  if (raw.size() != 32) return {};
  zmq_z85_encode(text.data(), raw.data<std::uint8_t>(), raw.size());
  return text.data();
}

void common_options(zmq::socket_t& socket) {
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, 0);  // a full queue would drop or block; credits bound it
  socket.set(zmq::sockopt::rcvhwm, 0);
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(control::max_frame_bytes));
}

}  // namespace

std::shared_ptr<MessagingContext> new_messaging_context() {
  return std::make_shared<MessagingContext>();
}

MessagingContext::MessagingContext(int io_threads, int max_sockets)
    : zmq_(io_threads, max_sockets) {
  ignore_broken_pipes();
  zmq_.set(zmq::ctxopt::blocky, 0);
  zmq::socket_t handler(zmq_, zmq::socket_type::rep);
  handler.set(zmq::sockopt::linger, 0);
  control::undisturbed([&] { handler.bind(zap_endpoint); });
  thread_ =
      quiet_thread([this, handler = std::move(handler)]() mutable { run(std::move(handler)); });
}

MessagingContext::~MessagingContext() {
  stopping_ = true;
  zmq_.shutdown();  // ends the handler's wait
  thread_.join();
}

zmq::socket_t MessagingContext::server(zmq::socket_type type, const JobKey& key) {
  {
    const std::lock_guard lock(mutex_);
    allowed_[key.public_key].insert(key.public_key);
  }
  zmq::socket_t socket(zmq_, type);
  common_options(socket);
  socket.set(zmq::sockopt::backlog,
             4096);  // a large world that connects at once, or many other clients
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::curve_secretkey, key.secret_key);
  socket.set(zmq::sockopt::zap_domain, key.public_key);
  const int enforce = 1;
  if (zmq_setsockopt(socket.handle(), zap_enforce_domain, &enforce, sizeof enforce) != 0)
    throw Error(ErrorCode::unsupported,
                "this libzmq lacks ZMQ_ZAP_ENFORCE_DOMAIN, so its ports would be insecure",
                "use libzmq 4.3 or later");
  return socket;
}

zmq::socket_t MessagingContext::client(zmq::socket_type type, const JobKey& key) {
  zmq::socket_t socket(zmq_, type);
  common_options(socket);
  socket.set(zmq::sockopt::curve_serverkey, key.public_key);
  socket.set(zmq::sockopt::curve_publickey, key.public_key);
  socket.set(zmq::sockopt::curve_secretkey, key.secret_key);
  socket.set(zmq::sockopt::reconnect_ivl, 5);
  socket.set(zmq::sockopt::reconnect_ivl_max, 200);
  return socket;
}

std::string MessagingContext::new_inproc_address() {
  return fmt::format("inproc://troupe.{}", ++addresses_);
}

bool MessagingContext::is_allowed(const std::string& domain, const std::string& public_key) {
  const std::lock_guard lock(mutex_);
  const auto keys = allowed_.find(domain);
  return keys != allowed_.end() && keys->second.count(public_key) != 0;
}

/// Request: version, id, domain, address, identity, mechanism, credentials. Reply: version, id,
/// status, text, user id, metadata.
void MessagingContext::answer(zmq::socket_t& handler) {
  std::vector<zmq::message_t> request;
  if (!zmq::recv_multipart(handler, std::back_inserter(request)) || request.size() < 2) return;
  const bool ok = request.size() == 7 && request[5].to_string_view() == "CURVE" &&
                  is_allowed(request[2].to_string(), z85(request[6]));
  const std::array<zmq::const_buffer, 6> reply{zmq::str_buffer("1.0"),
                                               zmq::buffer(request[1].data(), request[1].size()),
                                               ok ? zmq::str_buffer("200") : zmq::str_buffer("400"),
                                               zmq::str_buffer(""),
                                               zmq::str_buffer(""),
                                               zmq::str_buffer("")};
  zmq::send_multipart(handler, reply);
}

void MessagingContext::run(zmq::socket_t handler) {
  while (!stopping_) {
    try {
      answer(handler);
    } catch (const zmq::error_t& error) {
      if (error.num() == ETERM) return;
    }
  }
}

namespace control {

Wakeup::Wakeup() : fd_(new_descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))) {}

void Wakeup::ring() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(fd(), &one, sizeof one);
}

void Wakeup::quiet() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = read(fd(), &count, sizeof count);
}

SocketEvents::SocketEvents(MessagingContext& context, zmq::socket_t& watched, int events)
    : watched_(watched), socket_(context.zmq(), zmq::socket_type::pair) {
  const std::string endpoint = context.new_inproc_address();
  while (zmq_socket_monitor(watched.handle(), endpoint.c_str(), events) != 0)
    if (zmq_errno() != EINTR)
      throw Error(ErrorCode::io,
                  fmt::format("cannot watch a socket: {}", zmq_strerror(zmq_errno())),
                  "raise the limit of open files: ulimit -n");
  socket_.set(zmq::sockopt::rcvhwm, 0);
  socket_.set(zmq::sockopt::linger, 0);
  undisturbed([&] {
    socket_.connect(endpoint);
  });  // before the watched socket binds or connects, or that would block
}

SocketEvents::~SocketEvents() { close(); }

void SocketEvents::close() {
  if (watched_) zmq_socket_monitor(watched_.handle(), nullptr, 0);
}

bool SocketEvents::next(Event& event) {
  std::vector<zmq::message_t> parts;
  if (!receive_parts(socket_, parts) || parts.empty() || parts[0].size() < 6) return false;
  std::uint16_t what = 0;
  std::int32_t value = 0;
  std::memcpy(&what, parts[0].data<char>(), sizeof what);
  std::memcpy(&value, parts[0].data<char>() + sizeof what, sizeof value);
  event = {what, value};
  return true;
}

bool receive_parts(zmq::socket_t& socket, std::vector<zmq::message_t>& parts) {
  parts.clear();
  bool more = true;
  while (more) {
    zmq::message_t part;
    const auto flags = parts.empty() ? zmq::recv_flags::dontwait : zmq::recv_flags::none;
    if (!undisturbed([&] { return socket.recv(part, flags); })) return false;
    more = part.more();
    parts.push_back(std::move(part));
  }
  return true;
}

}  // namespace control
}  // namespace troupe
