#include "runtime/remote/flow_wire.h"

#include <fmt/format.h>

#include <mutex>
#include <set>

#include "remote/flow.pb.h"

namespace troupe::remote {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::bad_message, fmt::format("a message of another process has {}", what),
              "run the same version of the program in every process");
}

/// An enumeration's value, which must be at most `last`.
template <class E>
E enumerator(std::uint32_t value, E last, const char* what) {
  if (value > static_cast<std::uint32_t>(last)) refuse(fmt::format("{} {}", what, value));
  return static_cast<E>(value);
}

// A label points to a literal in the process that made it; here the few that there are are kept.
std::string_view keep(const std::string& name) {
  static std::mutex mutex;
  static std::set<std::string> names;
  const std::lock_guard lock(mutex);
  if (names.size() >= 1024 && !names.contains(name)) return "?";
  return *names.insert(name).first;
}

void put(flow_wire::Key& to, const MessageKey& key) {
  to.set_step(key.step);
  to.set_purpose(static_cast<std::uint32_t>(key.purpose));
  to.set_micro_batch(key.micro_batch);
}

MessageKey get(const flow_wire::Key& key) {
  return {key.step(), enumerator(key.purpose(), Purpose::evaluate, "purpose"), key.micro_batch()};
}

void put(flow_wire::Failure& to, const Error& error) {
  to.set_code(static_cast<std::uint32_t>(error.code()));
  to.set_message(error.message());
  to.set_remedy(error.remedy());
}

Error get(const flow_wire::Failure& error) {
  return {enumerator(error.code(), ErrorCode::internal, "error code"), error.message(),
          error.remedy()};
}

void put(flow_wire::Commit& to, const Commit& commit) {
  to.set_step(commit.step);
  to.set_snapshot(commit.snapshot);
  to.set_last(commit.last);
  to.set_stop_requested(commit.stop_requested);
}

Commit get(const flow_wire::Commit& commit) {
  return {commit.step(), commit.snapshot(), commit.last(), commit.stop_requested()};
}

void put(flow_wire::Tensor& to, const std::optional<TensorMeta>& meta) {
  if (!meta) return to.set_undefined(true);
  to.set_dtype(static_cast<std::uint32_t>(meta->dtype));
  to.set_layout(static_cast<std::uint32_t>(meta->layout));
  for (const std::int64_t dim : meta->shape.dims()) to.add_dims(dim);
}

std::optional<TensorMeta> get(const flow_wire::Tensor& tensor) {
  if (tensor.undefined()) return {};
  if (tensor.dims_size() > Shape::max_rank)
    refuse(fmt::format("a tensor of {} axes", tensor.dims_size()));
  const std::vector<std::int64_t> dims(tensor.dims().begin(), tensor.dims().end());
  TensorMeta meta{.dtype = enumerator(tensor.dtype(), DType::boolean, "element type"),
                  .layout = enumerator(tensor.layout(), Layout::nchw16c, "layout")};
  try {
    meta.shape = Shape(dims);
  } catch (const Error& error) {
    refuse(error.message());
  }
  return meta;
}

struct NoteWriter {
  flow_wire::Flow& to;

  void operator()(const Vote& vote) const {
    auto& out = *to.mutable_vote();
    out.set_node(vote.actor);
    out.set_generation(vote.incarnation);
    out.set_step(vote.step);
  }
  void operator()(const ActorDied& death) const {
    auto& out = *to.mutable_death();
    out.set_node(death.actor);
    out.set_generation(death.incarnation);
    out.set_cause(death.cause);
    if (death.lasting) put(*out.mutable_lasting(), *death.lasting);
  }
  void operator()(const ActorNews& news) const {
    auto& out = *to.mutable_news();
    out.set_node(news.actor);
    if (news.accepts_snapshot) out.set_accepts_snapshot(*news.accepts_snapshot);
    out.set_finished(news.finished);
  }
  void operator()(const StopWanted&) const { to.mutable_stop(); }
  void operator()(const RunFailed& failed) const { put(*to.mutable_failure(), failed.error); }
  void operator()(const ProcessEnded& ended) const;
  void operator()(const Commit& commit) const { put(*to.mutable_commit(), commit); }
  void operator()(const Replacement& replacement) const {
    auto& out = *to.mutable_replacement();
    out.set_phase(static_cast<std::uint32_t>(replacement.phase));
    out.set_generation(replacement.incarnation);
    out.set_steps(replacement.steps);
    for (const std::uint32_t actor : replacement.actors) out.add_nodes(actor);
    if (replacement.newest) put(*out.mutable_newest(), *replacement.newest);
  }
  void operator()(const PhaseDone& done) const {
    auto& out = *to.mutable_phase();
    out.set_phase(static_cast<std::uint32_t>(done.phase));
    out.set_generation(done.incarnation);
  }
  void operator()(const EndRun& end) const {
    auto& out = *to.mutable_end();
    if (end.failure) put(*out.mutable_failure(), *end.failure);
    out.set_steps(end.steps);
    out.set_generation(end.replacements);
    out.set_stopped(end.stopped);
  }
  void operator()(const Flushed& flushed) const {
    to.mutable_flushed()->set_generation(flushed.incarnation);
  }
};

void NoteWriter::operator()(const ProcessEnded& ended) const {
  auto& out = *to.mutable_ended();
  out.set_begun(ended.begun);
  for (const ActorReport& report : ended.actors) {
    auto& actor = *out.add_actors();
    actor.set_name(report.name);
    actor.set_process(report.process);
    const TimeSplit& time = report.time;
    for (const auto part : {time.compute, time.no_input, time.no_credit, time.other})
      actor.add_nanoseconds(part.count());
    actor.set_actions(report.actions);
    actor.set_dropped(report.dropped);
    actor.set_peak_mailbox(report.peak_mailbox);
    actor.set_mailbox_bound(report.mailbox_bound);
  }
  for (const TraceEvent& event : ended.trace) {
    auto& shown = *out.add_trace();
    shown.set_node(static_cast<std::uint32_t>(event.actor));
    shown.set_name(std::string(event.label.name));
    put(*shown.mutable_key(), event.label.key);
    shown.set_begin(event.begin.count());
    shown.set_end(event.end.count());
  }
}

ReplacementPhase phase(std::uint32_t value) {
  return enumerator(value, ReplacementPhase::start, "phase");
}

ProcessEnded get(const flow_wire::Ended& ended) {
  ProcessEnded result{.begun = ended.begun()};
  for (const auto& actor : ended.actors()) {
    if (actor.nanoseconds_size() != 4) refuse("a time split that is not in four");
    using std::chrono::nanoseconds;
    result.actors.push_back(
        {.name = actor.name(),
         .process = actor.process(),
         .time = {nanoseconds(actor.nanoseconds(0)), nanoseconds(actor.nanoseconds(1)),
                  nanoseconds(actor.nanoseconds(2)), nanoseconds(actor.nanoseconds(3))},
         .actions = actor.actions(),
         .dropped = actor.dropped(),
         .peak_mailbox = actor.peak_mailbox(),
         .mailbox_bound = actor.mailbox_bound()});
  }
  for (const auto& event : ended.trace())
    result.trace.push_back({event.node(),
                            {keep(event.name()), get(event.key())},
                            std::chrono::nanoseconds(event.begin()),
                            std::chrono::nanoseconds(event.end())});
  return result;
}

RunMessage note_of(const flow_wire::Flow& flow) {
  switch (flow.body_case()) {
    case flow_wire::Flow::kVote:
      return Vote{flow.vote().node(), flow.vote().generation(), flow.vote().step()};
    case flow_wire::Flow::kDeath: {
      const auto& death = flow.death();
      ActorDied died{death.node(), death.generation(), death.cause(), {}};
      if (death.has_lasting()) died.lasting = get(death.lasting());
      return died;
    }
    case flow_wire::Flow::kNews: {
      ActorNews news{.actor = flow.news().node(), .finished = flow.news().finished()};
      if (flow.news().has_accepts_snapshot())
        news.accepts_snapshot = flow.news().accepts_snapshot();
      return news;
    }
    case flow_wire::Flow::kStop:
      return StopWanted{};
    case flow_wire::Flow::kFailure:
      return RunFailed{get(flow.failure())};
    case flow_wire::Flow::kEnded:
      return get(flow.ended());
    case flow_wire::Flow::kCommit:
      return get(flow.commit());
    case flow_wire::Flow::kReplacement: {
      const auto& from = flow.replacement();
      Replacement replacement{.phase = phase(from.phase()),
                              .incarnation = from.generation(),
                              .steps = from.steps(),
                              .actors = {from.nodes().begin(), from.nodes().end()}};
      if (from.has_newest()) replacement.newest = get(from.newest());
      return replacement;
    }
    case flow_wire::Flow::kPhase:
      return PhaseDone{phase(flow.phase().phase()), flow.phase().generation()};
    case flow_wire::Flow::kEnd: {
      EndRun end{.steps = flow.end().steps(),
                 .replacements = flow.end().generation(),
                 .stopped = flow.end().stopped()};
      if (flow.end().has_failure()) end.failure = get(flow.end().failure());
      return end;
    }
    case flow_wire::Flow::kFlushed:
      return Flushed{flow.flushed().generation()};
    default:
      refuse("no content that is known here");
  }
}

PacketOnWire get(const flow_wire::Packet& packet) {
  PacketOnWire result{.actor = packet.node(),
                      .incarnation = packet.node_generation(),
                      .header = {.run = packet.run(),
                                 .incarnation = packet.generation(),
                                 .edge = packet.edge(),
                                 .sequence = packet.sequence(),
                                 .key = get(packet.key()),
                                 .slot = packet.slot(),
                                 .samples = packet.samples(),
                                 .batch_samples = packet.batch_samples(),
                                 .micro_batches = packet.micro_batches(),
                                 .length = packet.length()},
                      .numbers = {packet.numbers().begin(), packet.numbers().end()},
                      .texts = {packet.texts().begin(), packet.texts().end()},
                      .tag = packet.tag()};
  std::uint64_t length = 0;
  for (const auto& tensor : packet.tensors()) {
    result.tensors.push_back(get(tensor));
    if (result.tensors.back()) length += result.tensors.back()->bytes();
  }
  if (length != packet.length())
    refuse(fmt::format("tensors of {} bytes where its header says {}", length, packet.length()));
  return result;
}

}  // namespace

std::string encode(const PacketOnWire& packet) {
  flow_wire::Flow flow;
  auto& out = *flow.mutable_packet();
  const Header& header = packet.header;
  out.set_node(packet.actor);
  out.set_node_generation(packet.incarnation);
  out.set_run(header.run);
  out.set_generation(header.incarnation);
  out.set_edge(header.edge);
  out.set_sequence(header.sequence);
  put(*out.mutable_key(), header.key);
  out.set_slot(header.slot);
  out.set_samples(header.samples);
  out.set_batch_samples(header.batch_samples);
  out.set_micro_batches(header.micro_batches);
  out.set_length(header.length);
  for (const auto& meta : packet.tensors) put(*out.add_tensors(), meta);
  for (const std::uint64_t number : packet.numbers) out.add_numbers(number);
  for (const std::string& text : packet.texts) out.add_texts(text);
  out.set_tag(packet.tag);
  return flow.SerializeAsString();
}

std::string encode(const RemoteCredit& remote) {
  flow_wire::Flow flow;
  auto& out = *flow.mutable_credit();
  out.set_node(remote.actor);
  out.set_edge(remote.credit.edge);
  out.set_generation(remote.credit.incarnation);
  out.set_slot(remote.credit.slot);
  return flow.SerializeAsString();
}

std::string encode(const RunMessage& note) {
  flow_wire::Flow flow;
  std::visit(NoteWriter{flow}, note);
  return flow.SerializeAsString();
}

FlowMessage decode(const std::string& bytes) {
  flow_wire::Flow flow;
  if (!flow.ParseFromString(bytes))
    refuse(fmt::format("{} bytes that are no message", bytes.size()));
  if (flow.has_packet()) return get(flow.packet());
  if (flow.has_credit()) {
    const auto& credit = flow.credit();
    return RemoteCredit{credit.node(), {credit.edge(), credit.generation(), credit.slot()}};
  }
  return note_of(flow);
}

}  // namespace troupe::remote
