#include "agent/relay.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "os/io.h"
#include "os/pidfd.h"
#include "os/syscalls.h"

namespace cella::agent {
namespace {

// What /proc/sys/fs/pipe-max-size allows a guest to make of its pipe, at most: more than this was not written before.
constexpr size_t kLargestPipe = (size_t{1} << 20) + 65536;

template <typename T>
std::string_view Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

int64_t Now() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace

void Relay::Send(Kind kind, uint32_t channel, std::string_view a, std::string_view b) {
  const Header header = {static_cast<uint32_t>(a.size() + b.size()), kind, 0, channel};
  sending_ += Bytes(header);
  sending_ += a;
  sending_ += b;
}

void Relay::SendReport(const jail::Report& report) {
  ReportFrame frame = {meter_.Read(), report};
  Send(Kind::kReport, report.tag, Bytes(frame));
}

Relay::Program* Relay::Find(uint32_t tag) {
  auto found = std::ranges::find(programs_, tag, &Program::tag);
  return found == programs_.end() ? nullptr : &*found;
}

// By the tag of init's reports.
Relay::Program* Relay::FindReported(uint32_t tag) {
  auto found = std::ranges::find_if(
      programs_, [&](const Program& each) { return each.adopted != 0 ? each.adopted == tag : each.tag == tag; });
  return found == programs_.end() ? nullptr : &*found;
}

Relay::Program& Relay::WriterOf(Program& program) {
  Program* writer = program.writes_to == 0 ? nullptr : Find(program.writes_to);
  return writer == nullptr ? program : *writer;
}

uint32_t Relay::NewTag() {
  do {
    last_tag_ = last_tag_ == kMaxTag ? kFirstCallTag : last_tag_ + 1;
  } while (Find(last_tag_) != nullptr);
  return last_tag_;
}

Channel* Relay::FindChannel(uint32_t number) {
  Program* program = Find(TagOf(number));
  if (program == nullptr) return nullptr;
  switch (PortOf(number)) {
    case Port::kInput: return &program->input;
    case Port::kOutput: return &program->output;
    case Port::kErrors: return &program->errors;
    case Port::kSession: return &program->session;
  }
  return nullptr;
}

Status Relay::Exec(uint32_t tag, std::string_view payload) {
  ExecOptions options = {};
  if (payload.size() < sizeof options) return Err(ErrorCode::kInvalid, "exec");
  std::memcpy(&options, payload.data(), sizeof options);
  payload.remove_prefix(sizeof options);
  if (programs_.size() - calls_ - copies_ >= kMostPrograms) return Err(ErrorCode::kExhausted, "too many programs");
  TRY(UniqueFd block, os::MakeMemfd("exec", std::as_bytes(std::span<const char>(payload))));
  TRY(os::Pipe out, os::MakePipe());
  TRY(os::Pipe err, os::MakePipe());
  os::Pipe in;
  if (options.has_input != 0) {
    TRY(in, os::MakePipe());
  } else {
    in.read = UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!in.read) return SysErr(errno, "open '/dev/null'");
  }
  os::SocketPair session;
  if (options.has_session != 0) {
    TRY(session, os::MakeStreamSockets());
  }
  jail::Request request = {};
  request.kind = jail::RequestKind::kExec;
  request.tag = tag;
  std::vector<int> fds = {block.get(), in.read.get(), out.write.get(), err.write.get()};
  if (session.theirs) fds.push_back(session.theirs.get());
  TRY_VOID(os::SendMessage(control_.get(), std::as_bytes(std::span(&request, 1)), fds));
  Program& program = programs_.emplace_back();
  program.tag = tag;
  program.input = Channel(ChannelOf(tag, Port::kInput), std::move(in.write));
  program.output = Channel(ChannelOf(tag, Port::kOutput), std::move(out.read));
  program.errors = Channel(ChannelOf(tag, Port::kErrors), std::move(err.read));
  program.session = Channel(ChannelOf(tag, Port::kSession), std::move(session.ours));
  return {};
}

void Relay::Forward(std::string_view payload) {
  jail::Request request = {};
  if (payload.size() != sizeof request) return;
  std::memcpy(&request, payload.data(), sizeof request);
  if (request.kind == jail::RequestKind::kListen) return Listen();
  if (request.kind == jail::RequestKind::kAdopt) {
    auto copy = std::ranges::find(programs_, request.group, &Program::pid);
    // Of one that has ended, init has nothing to report.
    if (copy == programs_.end() || copy->writes_to == 0 || os::HasEnded(copy->process.get())) return;
    copy->adopted = request.tag;
  }
  (void)os::SendMessage(control_.get(), std::as_bytes(std::span(&request, 1)), {});
}

// The agent has the guest's user id, so it writes nothing that the guest could not write.
void Relay::Listen() {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, jail::kCallSocket, sizeof address.sun_path - 1);
  listener_ = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  (void)unlink(jail::kCallSocket);
  const bool listens = listener_ &&
                       bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                       listen(listener_.get(), jail::kCallBacklog) == 0;
  jail::Report report = {};
  report.kind = jail::ReportKind::kListening;
  report.error = listens ? 0 : errno;
  if (!listens) listener_.Reset();
  SendReport(report);
}

bool Relay::MayAccept() const { return listener_ && calls_ < kMostCalls && HasRoom(); }

void Relay::Accept() {
  UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection) return;
  const uint32_t tag = NewTag();
  Program& program = programs_.emplace_back();
  program.tag = tag;
  program.is_call = true;
  program.session = Channel(ChannelOf(program.tag, Port::kSession), std::move(connection));
  ++calls_;
  Send(Kind::kConnect, program.session.number(), {});
}

// What a runner sends beside the frame of a checkpoint: the socket of the copy, and its pidfd. Anything else is not
// passed on, and then there is no checkpoint.
void Relay::TakeCopy(Program& source, std::vector<UniqueFd> fds) {
  if (fds.size() != 2 || copies_ >= kMostCopies) return;
  int type = 0;
  socklen_t size = sizeof type;
  const bool is_socket = getsockopt(fds[0].get(), SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
  auto pids = os::NamespacePids(fds[1].get());
  if (!is_socket || !pids || pids->front() <= 1) return;
  const uint32_t writer = WriterOf(source).tag;
  const Copy copy = {source.session.number(), pids->front()};
  const uint32_t tag = NewTag();
  Program& program = programs_.emplace_back();
  program.tag = tag;
  program.writes_to = writer;
  program.process = std::move(fds[1]);
  program.pid = copy.pid;
  program.session = Channel(ChannelOf(tag, Port::kSession), std::move(fds[0]));
  ++copies_;
  Send(Kind::kCopy, program.session.number(), Bytes(copy));
}

// What comes is held.
Channel::Got Relay::ReceiveSession(Program& program) {
  if (program.is_call) return program.session.Read(program.held, SIZE_MAX);
  std::vector<UniqueFd> fds;
  const Channel::Got got = program.session.Receive(program.held, fds);
  if (!fds.empty()) TakeCopy(program, std::move(fds));
  return got;
}

// False: what came is no frame of the protocol, or ends the session.
bool Relay::TakeFrame(const Header& header, std::string_view payload) {
  Channel* channel = FindChannel(header.channel);
  switch (header.kind) {
    case Kind::kExec:
      if (header.channel == 0 || header.channel >= kFirstCallTag || Find(header.channel) != nullptr) return false;
      if (Status started = Exec(header.channel, payload); !started) {
        jail::Report report = {};
        report.kind = jail::ReportKind::kFailed;
        report.stage = jail::Stage::kRequest;
        report.error = started.error().sys_errno != 0 ? started.error().sys_errno : EAGAIN;
        report.tag = header.channel;
        SendReport(report);
      }
      return true;
    case Kind::kRequest: Forward(payload); return true;
    case Kind::kPut: Send(Kind::kAnswer, header.channel, files_.Put(payload)); return true;
    case Kind::kGet: Send(Kind::kAnswer, header.channel, files_.Get(payload)); return true;
    case Kind::kList: Send(Kind::kAnswer, header.channel, files_.List(payload)); return true;
    case Kind::kRemove: Send(Kind::kAnswer, header.channel, files_.Remove(payload)); return true;
    case Kind::kMeasure: {
      const Measured measured = meter_.Measure();
      Send(Kind::kAnswer, header.channel, EncodeAnswer(Bytes(measured)));
      return true;
    }
    case Kind::kPing: Send(Kind::kPong, 0, {}); return true;
    case Kind::kEnd: return false;
    case Kind::kData: return channel == nullptr || channel->Take(payload);
    case Kind::kCredit: {
      uint32_t bytes = 0;
      if (payload.size() != sizeof bytes) return false;
      std::memcpy(&bytes, payload.data(), sizeof bytes);
      if (channel != nullptr) channel->AddCredit(bytes);
      return true;
    }
    case Kind::kClose:
      if (channel != nullptr && PortOf(header.channel) != Port::kOutput && PortOf(header.channel) != Port::kErrors) {
        channel->CloseWhenWritten();
      } else if (channel != nullptr) {
        channel->Close();
      }
      return true;
    default: return false;
  }
}

bool Relay::TakeFrames() {
  std::array<char, 65536> buffer;
  const ssize_t n = os::RetryOnEintr([&] { return read(input_, buffer.data(), buffer.size()); });
  if (n < 0 && errno == EAGAIN) return true;
  if (n <= 0) return false;
  received_.append(buffer.data(), static_cast<size_t>(n));
  return true;
}

bool Relay::TakeReports() {
  for (;;) {
    jail::Report report = {};
    auto message = os::ReceiveMessage(control_.get(), std::as_writable_bytes(std::span(&report, 1)));
    if (!message && message.error().sys_errno == EAGAIN) return true;
    if (!message || message->size != sizeof report) return false;  // init is gone, and with it what it watched
    TakeReport(report);
  }
}

void Relay::TakeReport(const jail::Report& report) {
  Program* program = FindReported(report.tag);
  if (report.kind == jail::ReportKind::kExited && program != nullptr) {
    program->ended = report;
    WriterOf(*program).drained = 0;
    return;
  }
  if (report.kind == jail::ReportKind::kFailed && report.tag != 0) {
    std::erase_if(programs_, [&](const Program& one) { return one.tag == report.tag; });
  }
  if (report.kind != jail::ReportKind::kReady) SendReport(report);
}

// True: there was nothing more to read now, or no right to.
bool Relay::ReadOutput(Channel& channel, size_t* drained) {
  if (!channel.is_open()) return true;
  std::string bytes;
  switch (channel.Read(bytes, SIZE_MAX)) {
    case Channel::Got::kNothing: return channel.may_read();
    case Channel::Got::kEnd: channel.Close(); return true;
    case Channel::Got::kBytes: break;
  }
  *drained += bytes.size();
  Send(Kind::kData, channel.number(), bytes);
  return false;
}

// Reads what was written before now. False: some of it is left.
bool Relay::Drain(Program& program) {
  for (Channel* channel : {&program.output, &program.errors}) {
    while (HasRoom()) {
      if (ReadOutput(*channel, &program.drained)) break;
      // A process that lives on may write without end: what was there when we began fits into the largest pipe.
      if (program.drained > 2 * kLargestPipe) break;
      if (channel->is_open() && !channel->may_read()) return false;
    }
    if (!HasRoom() || (channel->is_open() && !channel->may_read() && program.drained <= 2 * kLargestPipe)) return false;
  }
  return true;
}

void Relay::Serve(Program& program) {
  for (Channel* channel : {&program.input, &program.session}) {
    if (!channel->wants_write()) continue;
    if (const uint32_t gone = channel->Write(); gone > 0) Send(Kind::kCredit, channel->number(), Bytes(gone));
  }
  Program& writer = WriterOf(program);
  if (program.held.empty() && program.session.may_read() && HasRoom()) {
    writer.drained = 0;
    if (ReceiveSession(program) == Channel::Got::kEnd) {
      program.session.Close();
      program.session_ended = true;
    }
  }
  if (program.process && program.died == 0 && os::HasEnded(program.process.get())) {
    program.died = Now();
    writer.drained = 0;
  }
  if (!Drain(writer)) return;
  if (!program.held.empty()) {
    Send(Kind::kData, program.session.number(), program.held);
    program.held.clear();
    writer.drained = 0;
    return;  // there may be more of the session before its end
  }
  if (program.session_ended) {
    Send(Kind::kClose, program.session.number(), {});
    program.session_ended = false;
  }
  if (program.is_call && !program.session.is_open()) {
    program.tag = 0;
    --calls_;
    return;
  }
  if (!EndsNow(program)) return;
  // The session's last frames come before the end as well.
  if (program.session.is_open() && ReceiveSession(program) == Channel::Got::kBytes) return;
  if (program.ended) SendReport(*program.ended);
  if (program.writes_to != 0) Send(Kind::kCopyEnded, program.session.number(), {});
  Forget(program);
}

bool Relay::EndsNow(Program& program) {
  // Init may have reaped the process just before it was asked to report its end.
  constexpr int64_t kReportPatienceMs = 1000;
  if (program.ended) return true;
  return program.died != 0 && (program.adopted == 0 || Now() - program.died >= kReportPatienceMs);
}

// The pipes of a program stay open for its checkpoints.
void Relay::Forget(Program& program) {
  const uint32_t tag = program.tag, writer = program.writes_to;
  auto has_copies = [this](uint32_t of) {
    return std::ranges::any_of(programs_, [of](const Program& each) { return each.writes_to == of; });
  };
  if (writer == 0 && has_copies(tag)) {
    program.ended.reset();
    program.input.Close();
    program.session.Close();
    program.has_left = true;
    return;
  }
  program.tag = program.writes_to = 0;
  if (writer == 0) return;
  --copies_;
  if (Program* left = Find(writer); left != nullptr && left->has_left && !has_copies(writer)) left->tag = 0;
}

// Something is to be done for it although no descriptor becomes ready.
bool Relay::WorksOn(Program& program) {
  auto is_held_up = [](const Channel& channel) { return channel.is_open() && !channel.may_read(); };
  const Program& writer = WriterOf(program);
  const bool has_work = EndsNow(program) || !program.held.empty();
  return has_work && HasRoom() && !is_held_up(writer.output) && !is_held_up(writer.errors);
}

// False: the stream is gone.
bool Relay::Flush() {
  while (sent_ < sending_.size()) {
    const ssize_t n =
        os::RetryOnEintr([&] { return write(output_, sending_.data() + sent_, sending_.size() - sent_); });
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) return false;
    sent_ += static_cast<size_t>(n);
  }
  if (sent_ == sending_.size()) {
    sending_.clear();
    sent_ = 0;
  } else if (sent_ > kMostQueued) {
    sending_.erase(0, sent_);
    sent_ = 0;
  }
  return true;
}

void Relay::TakeLeave() {
  constexpr int64_t kPatienceMs = 2000;
  Send(Kind::kLeft, 0, {});
  const int64_t deadline = Now() + kPatienceMs;
  while (Flush() && !sending_.empty() && Now() < deadline) {
    pollfd writable = {output_, POLLOUT, 0};
    (void)poll(&writable, 1, 100);
  }
}

bool Relay::Run(std::string received) {
  received_ = std::move(received);
  int64_t heard = Now();
  for (;;) {
    size_t taken = 0;
    Header header = {};
    // Answers to file operations are bounded, but many: none is worked on while the stream is full.
    while (received_.size() - taken >= sizeof header && HasRoom()) {
      std::memcpy(&header, received_.data() + taken, sizeof header);
      if (header.size > kMaxFrame) return true;
      if (received_.size() - taken - sizeof header < header.size) break;
      if (!TakeFrame(header, std::string_view(received_).substr(taken + sizeof header, header.size))) return true;
      taken += sizeof header + header.size;
    }
    received_.erase(0, taken);
    for (Program& program : programs_) Serve(program);
    std::erase_if(programs_, [](const Program& program) { return program.tag == 0; });
    if (!Flush()) return true;

    const bool reads = received_.size() < kMaxFrame + sizeof header && HasRoom();
    std::vector<pollfd> ready;
    ready.push_back({reads ? input_ : -1, POLLIN, 0});
    ready.push_back({control_.get(), POLLIN, 0});
    ready.push_back({sending_.empty() ? -1 : output_, POLLOUT, 0});
    ready.push_back({MayAccept() ? listener_.get() : -1, POLLIN, 0});
    bool works = taken > 0 && HasRoom();
    for (Program& program : programs_) {
      if (WorksOn(program)) works = true;
      if (program.process && program.died == 0) ready.push_back({program.process.get(), POLLIN, 0});
      for (const Channel* channel : {&program.input, &program.session, &program.output, &program.errors}) {
        if (!channel->is_open()) continue;
        const bool is_output = channel == &program.output || channel == &program.errors;
        const bool is_input = channel == &program.input;
        const bool may_read = is_output || (!is_input && program.held.empty());
        short events = channel->wants_write() ? POLLOUT : 0;
        if (may_read && channel->may_read() && HasRoom()) events |= POLLIN;
        if (events != 0) ready.push_back({channel->fd(), events, 0});
      }
    }
    if (poll(ready.data(), ready.size(), works ? 0 : 1000) < 0 && errno != EINTR) return true;
    if (ready[0].revents != 0) {
      if (!TakeFrames()) return true;
      heard = Now();
    }
    if (ready[1].revents != 0 && !TakeReports()) return false;
    if (ready[3].revents != 0) Accept();
    if (Now() - heard > kSilenceSeconds * 1000) return true;
  }
}

}  // namespace cella::agent
