#include "apps/launch/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "apps/launch/print_message.h"
#include "runtime/error.h"
#include "runtime/quiet_thread.h"

namespace troupe {
namespace {

constexpr std::size_t longest_line = 64 << 10;
constexpr int chunk_bytes = 16 << 10;  // of one read

/// Writes everything, or gives up if there is no reader or the disk is full: the process
/// that wrote it must not suffer for it. Then false, and errno says why.
bool write_all(int number, std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(number, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {
      pollfd ready{.fd = number, .events = POLLOUT, .revents = 0};
      ::poll(&ready, 1, -1);
      continue;
    }
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

OutputPump::OutputPump()
    : wake_(new_descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
      thread_(quiet_thread([this] { run(); })) {}

Fd OutputPump::add(const std::filesystem::path& file, int console, std::string prefix) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ErrorCode::io,
                fmt::format("launch: cannot create a pipe: {}", std::strerror(errno)),
                "raise the limit of open files: ulimit -n");
  Source source{.reading = Fd(ends[0]),
                .file = new_file(file),
                .path = file,
                .console = console,
                .prefix = std::move(prefix),
                .line = {}};
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const std::lock_guard lock(mutex_);
  sources_.push_back(std::move(source));
  ::eventfd_write(wake_.get(), 1);
  return Fd(ends[1]);
}

void OutputPump::finish() {
  finishing_ = true;
  ::eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

void OutputPump::run() {
  while (!finishing_) {
    std::vector<pollfd> ready{{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    std::vector<std::list<Source>::iterator> sources;
    {
      const std::lock_guard lock(mutex_);
      for (auto source = sources_.begin(); source != sources_.end(); ++source) {
        ready.push_back({.fd = source->reading.get(), .events = POLLIN, .revents = 0});
        sources.push_back(source);
      }
    }
    ::poll(ready.data(), ready.size(), -1);
    eventfd_t times = 0;
    ::eventfd_read(wake_.get(), &times);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (ready[i + 1].revents == 0 || copy(*sources[i])) continue;
      const std::lock_guard lock(mutex_);
      sources_.erase(sources[i]);
    }
  }
  for (auto& source : sources_) {
    drain(source);
    print_lines(source, true);
  }
}

/// Copies what the pipe holds now. A process that still has the other end may keep writing.
void OutputPump::drain(Source& source) {
  int held = 0;
  ::ioctl(source.reading.get(), FIONREAD, &held);
  for (; held > 0; held -= chunk_bytes)
    if (!copy(source)) return;
}

bool OutputPump::copy(Source& source) {
  std::array<char, chunk_bytes> chunk;
  const auto got = ::read(source.reading.get(), chunk.data(), chunk.size());
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  const std::string_view text(chunk.data(), static_cast<std::size_t>(got));
  if (source.file && !write_all(source.file.get(), text)) {
    print_message("{} cannot be written: {}; later output is missing there", source.path.string(),
                  std::strerror(errno));
    source.file.reset();
  }
  source.line += text;
  print_lines(source, got == 0);
  return got != 0;
}

void OutputPump::print_lines(Source& source, bool all) {
  std::string lines;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = source.line.find('\n', begin)) != source.line.npos;
       begin = end + 1)
    lines += source.prefix + source.line.substr(begin, end + 1 - begin);
  source.line.erase(0, begin);
  if (!source.line.empty() && (all || source.line.size() > longest_line))
    lines += source.prefix + std::exchange(source.line, {}) + "\n";
  write_all(source.console, lines);
}

std::string prefix_of(std::string text, const std::map<std::string, std::string>& macros) {
  for (const auto& [name, value] : macros) {
    const std::string macro = fmt::format("${{{}}}", name);
    for (std::size_t at = 0; (at = text.find(macro, at)) != text.npos; at += value.size())
      text.replace(at, macro.size(), value);
  }
  return text;
}

Fd new_file(const std::filesystem::path& file) {
  std::error_code failed;
  std::filesystem::create_directories(file.parent_path(), failed);
  Fd descriptor(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!descriptor)
    throw Error(
        ErrorCode::io,
        fmt::format("launch: {} cannot be written: {}", file.string(), std::strerror(errno)),
        "choose another folder with --log-dir");
  return descriptor;
}

}  // namespace troupe
