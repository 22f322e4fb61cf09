#include "apps/launch/connect_hosts.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <future>

#include "apps/launch/print_message.h"
#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {
namespace {

void print_place(const Place& place, int processes) {
  const int last = place.first_rank + processes - 1;
  print_message("all hosts are connected; {} is host {} of {}, with rank{} {}{} of {}{}",
                place.host, place.node, place.nodes, processes == 1 ? "" : "s", place.first_rank,
                processes == 1 ? "" : fmt::format(" to {}", last), place.size,
                place.node == 0 ? "" : fmt::format("; rank 0 reports on {}", place.leading_host));
}

}  // namespace

std::unique_ptr<NodeGroup> connect_hosts(const LaunchOptions& options, const Signals& signals) {
  if (!options.endpoint) return NodeGroup::rendezvous(options);
  print_message("waiting for {} at {} (up to {})", counted(options.nodes - 1, "other host"),
                text_of(*options.endpoint), in_words(options.join_timeout));
  const Fd connected = new_descriptor(::eventfd(0, EFD_CLOEXEC));
  std::stop_source stop;
  auto group = std::async(std::launch::async, [&] {
    struct Ring {
      int number;
      ~Ring() { ::eventfd_write(number, 1); }
    } ring{connected.get()};
    return NodeGroup::rendezvous(options, stop.get_token());
  });
  for (;;) {
    std::array<pollfd, 2> ready{{{.fd = connected.get(), .events = POLLIN, .revents = 0},
                                 {.fd = signals.descriptor(), .events = POLLIN, .revents = 0}}};
    ::poll(ready.data(), ready.size(), -1);
    if (ready[0].revents != 0) {
      auto all = group.get();
      print_place(all->place(), options.processes);
      return all;
    }
    const int number = signals.next();
    if (number == 0 || number == SIGCHLD) continue;
    constexpr std::chrono::seconds moment{1};
    print_message("received SIG{}: the launcher no longer waits for other hosts",
                  ::sigabbrev_np(number));
    stop.request_stop();
    if (group.wait_for(moment) == std::future_status::ready) try {
        group.get().reset();
      } catch (const Error&) {  // it was stopped
      }
    ::_exit(128 + number);
  }
}

}  // namespace troupe
