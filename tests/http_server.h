#pragma once
// An HTTP server on loopback whose answers a test writes, byte by byte if need be.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace troupe::test {

/// A connection to a client, after its request has been read.
class HttpConnection {
 public:
  HttpConnection(int socket, int number, std::string request)
      : number(number), request(std::move(request)), socket_(socket) {}

  const int number;           ///< of the connection, from 0
  const std::string request;  ///< with its header

  /// The first byte that is requested; 0 without a range.
  std::size_t range_begin() const {
    constexpr std::string_view name = "Range: bytes=";
    const auto at = request.find(name);
    return at == request.npos ? 0 : std::stoul(request.substr(at + name.size()));
  }
  /// Returns false when the client has closed the connection.
  bool send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  /// A header with the status, such as "200 OK", and further lines, each with its line end.
  bool header(const std::string& status, const std::string& lines = "") const {
    return send("HTTP/1.1 " + status + "\r\nConnection: close\r\n" + lines + "\r\n");
  }
  /// The content from the requested byte on, of which at most `most` bytes are sent.
  void content(const std::string& all, std::size_t most = std::string::npos) const {
    const std::size_t begin = range_begin();
    const std::string length = "Content-Length: " + std::to_string(all.size() - begin) + "\r\n";
    if (begin == 0)
      header("200 OK", length);
    else
      header("206 Partial Content", length + "Content-Range: bytes " + std::to_string(begin) + "-" +
                                        std::to_string(all.size() - 1) + "/" +
                                        std::to_string(all.size()) + "\r\n");
    send(all.substr(begin, most));
  }
  /// Waits until the client closes the connection, or the server ends.
  void hold() const {
    char byte = 0;
    while (::recv(socket_, &byte, 1, 0) > 0) {
    }
  }

 private:
  int socket_;
};

/// Answers one connection after the other on a thread of its own, until it is destroyed.
class HttpServer {
 public:
  using Answer = std::function<void(const HttpConnection&)>;

  explicit HttpServer(Answer answer) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, any, size) != 0 || ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, any, &size) != 0)
      throw std::runtime_error("no HTTP server on loopback");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~HttpServer() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      if (connection_ >= 0) ::shutdown(connection_, SHUT_RDWR);
    }
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/"; }
  /// The requests so far, with their headers.
  std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    for (int number = 0;; ++number) {
      const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) return;
      {
        const std::lock_guard lock(mutex_);
        connection_ = socket;
        if (ended_) ::shutdown(socket, SHUT_RDWR);
      }
      std::string request;
      char buffer[4096];
      while (request.find("\r\n\r\n") == request.npos) {
        const ssize_t got = ::recv(socket, buffer, sizeof buffer, 0);
        if (got <= 0) break;
        request.append(buffer, static_cast<std::size_t>(got));
      }
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      answer_(HttpConnection(socket, number, request));
      const std::lock_guard lock(mutex_);
      connection_ = -1;
      ::close(socket);
    }
  }

  Answer answer_;
  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  bool ended_ = false;
  int connection_ = -1;
  std::vector<std::string> requests_;
  std::thread thread_;
};

}  // namespace troupe::test
