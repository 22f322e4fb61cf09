#include "runtime/control/member.h"

#include <fmt/format.h>

#include <thread>

#include "runtime/control/detail/member_loop.h"
#include "runtime/quiet_thread.h"
#include "runtime/text.h"

namespace troupe {

class Member::Implementation final : public Store {
 public:
  explicit Implementation(const MemberOptions& options)
      : loop(options), joined(loop.joined()), thread_(quiet_thread([this] { loop.run(); })) {}
  ~Implementation() override {
    loop.stop();
    thread_.join();
  }

  Status put(const std::string& key, std::string value) override {
    wire::Envelope envelope;
    envelope.mutable_put()->set_key(key);
    envelope.mutable_put()->set_value(std::move(value));
    return ask(std::move(envelope), loop.options().timeout, {},
               fmt::format("the coordinator did not store '{}'", key));
  }

  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override {
    wire::Envelope envelope;
    envelope.mutable_get()->set_key(key);
    wire::Envelope cancel = envelope;
    cancel.mutable_get()->set_cancel(true);
    return fetch(std::move(envelope), timeout, std::move(cancel),
                 fmt::format("no process put '{}' into the store", key));
  }

  Result<std::string> claim(const std::string& key, std::chrono::milliseconds timeout) override {
    wire::Envelope envelope;
    envelope.mutable_get()->set_key(key);
    wire::Envelope cancel = envelope;
    envelope.mutable_get()->set_claim(true);
    cancel.mutable_get()->set_cancel(true);
    return fetch(std::move(envelope), timeout, std::move(cancel),
                 fmt::format("the process that claimed '{}' did not put it into the store", key));
  }

  Status ask(wire::Envelope envelope, std::chrono::milliseconds timeout, wire::Envelope last_word,
             const std::string& complaint) {
    auto answer = fetch(std::move(envelope), timeout, std::move(last_word), complaint);
    if (answer) return success();
    return answer.error();
  }

  control::MemberLoop loop;
  std::future<Status> joined;

 private:
  /// Waits for the answer to a request; gives up after the timeout with `complaint`.
  Result<std::string> fetch(wire::Envelope envelope, std::chrono::milliseconds timeout,
                            wire::Envelope last_word, const std::string& complaint) {
    if (loop.is_own_thread())
      throw Error(ErrorCode::internal, "a callback of a member waits for the coordinator",
                  "wait on another thread: the callback's thread receives the answer");
    auto [id, answer] = loop.request(std::move(envelope));
    if (answer.wait_for(timeout) == std::future_status::ready) return answer.get();
    if (last_word.has_get()) last_word.mutable_get()->set_id(id);
    if (last_word.has_arrive()) last_word.mutable_arrive()->set_id(id);
    if (!loop.forget(id, std::move(last_word))) return answer.get();  // it has just come
    return Error(ErrorCode::timed_out, fmt::format("{} within {}", complaint, in_words(timeout)));
  }

  std::thread thread_;
};

std::string to_string(const PeerLost& lost) {
  if (lost.rank == PeerLost::coordinator)
    return fmt::format("the coordinator on {} is lost: {}", lost.host, lost.reason);
  return fmt::format("rank {} on {} (process {}) is lost: {}", lost.rank, lost.host, lost.pid,
                     lost.reason);
}

Result<std::unique_ptr<Member>> Member::join(const MemberOptions& options) {
  try {
    auto implementation = std::make_unique<Implementation>(options);
    const std::stop_callback give_up(options.stop, [&] { implementation->loop.give_up(); });
    if (const Status joined = implementation->joined.get(); !joined) return joined.error();
    return std::unique_ptr<Member>(new Member(std::move(implementation)));
  } catch (const Error& error) {
    return error;
  } catch (const zmq::error_t& error) {
    return Error(ErrorCode::io,
                 fmt::format("cannot listen for the job's processes: {}", error.what()),
                 "raise the limit of open files (ulimit -n), or set `interface`");
  }
}

Member::Member(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}

Member::~Member() = default;

int Member::rank() const { return implementation_->loop.rank(); }
int Member::size() const { return static_cast<int>(processes().size()); }
std::uint32_t Member::generation() const { return implementation_->loop.generation(); }
const std::vector<ProcessInfo>& Member::processes() const {
  return implementation_->loop.processes();
}
const std::string& Member::endpoint() const { return implementation_->loop.endpoint(); }
Store& Member::store() { return *implementation_; }
std::string Member::lost_coordinator() const { return implementation_->loop.lost_coordinator(); }
bool Member::is_given_up() const { return implementation_->loop.is_given_up(); }
ControlCounters Member::counters() const { return implementation_->loop.counters(); }

void Member::send(int to, std::string body) {
  if (to < 0 || to >= size() || to == rank())
    throw Error(ErrorCode::bad_graph,
                fmt::format("rank {} of {} sends to rank {}", rank(), size(), to),
                "send to another rank of the world");
  if (body.size() > control::max_message_bytes)
    throw Error(ErrorCode::bad_graph,
                fmt::format("a control message of {} bytes to rank {}; at most {}", body.size(), to,
                            control::max_message_bytes),
                "send large data through a Communicator");
  implementation_->loop.send(to, std::move(body));
}

void Member::open(OnMessage on_message, OnLost on_lost) {
  implementation_->loop.open(std::move(on_message), std::move(on_lost));
}

Status Member::barrier(const std::string& name) {
  wire::Envelope envelope;
  envelope.mutable_arrive()->set_barrier(name);
  wire::Envelope cancel = envelope;
  cancel.mutable_arrive()->set_cancel(true);
  return implementation_->ask(std::move(envelope), implementation_->loop.options().timeout,
                              std::move(cancel),
                              fmt::format("not every rank reached the barrier '{}'", name));
}

Status Member::leave() {
  wire::Envelope envelope;
  envelope.mutable_leave();
  return implementation_->ask(std::move(envelope), implementation_->loop.options().timeout, {},
                              "not all sent messages have arrived");
}

Status Member::leave_at_once(std::chrono::milliseconds patience) {
  implementation_->loop.leave_at_once();
  wire::Envelope envelope;
  envelope.mutable_leave();
  return implementation_->ask(std::move(envelope), patience, {}, "the coordinator did not answer");
}

}  // namespace troupe
