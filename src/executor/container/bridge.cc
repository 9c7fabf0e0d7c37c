#include "executor/container/bridge.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <vector>

#include "async/deadline.h"
#include "os/io.h"
#include "os/syscalls.h"
#include "os/unix_listener.h"
#include "run/executor.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;
using agent::Header;
using agent::Kind;
using async::Task;

// The engine may take no byte for this long before the container counts as lost.
constexpr auto kWritePatience = 20s;
constexpr size_t kMostPending = 64;
// The agent keeps fewer; what is more is hostile.
constexpr size_t kMostPrograms = 256;
// So long an agent that stays may take to end everything else.
constexpr auto kLeavePatience = 8s;
constexpr int kMostFds = 8;

template <typename T>
std::string_view Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

Error ContainerGone() { return Error{ErrorCode::kClosed, "the container has ended", 0}; }

// The content of a memfd of ours.
Result<std::string> ReadBlock(int fd) {
  struct stat info;
  if (fstat(fd, &info) < 0) return SysErr(errno, "read the request");
  const size_t room = agent::kMaxFrame - sizeof(agent::ExecOptions);
  if (static_cast<uint64_t>(info.st_size) > room) {
    return Err(ErrorCode::kInvalid, "arguments and environment variables have more than {} bytes", room);
  }
  std::string block(static_cast<size_t>(info.st_size), '\0');
  const ssize_t n = os::RetryOnEintr([&] { return pread(fd, block.data(), block.size(), 0); });
  if (n != static_cast<ssize_t>(block.size())) return SysErr(errno, "read the request");
  return block;
}

bool IsNull(int fd) {
  struct stat info, null;
  return fstat(fd, &info) == 0 && stat("/dev/null", &null) == 0 && S_ISCHR(info.st_mode) &&
         info.st_rdev == null.st_rdev;
}

}  // namespace

AgentBridge::AgentBridge(async::Loop& loop, docker::AttachedStream stream, os::SocketPair control)
    : loop_(loop),
      stream_(std::move(stream)),
      control_ours_(std::move(control.ours)),
      control_(loop, std::move(control.theirs), async::Sharing::kOurs),
      is_ready_(loop),
      gone_(loop),
      has_frames_(loop),
      has_ended_(loop),
      tasks_(loop) {}

Task<Result<std::unique_ptr<AgentBridge>>> AgentBridge::Open(async::Loop& loop, docker::AttachedStream stream,
                                                             Options options, async::TimePoint deadline) {
  CO_TRY(os::SocketPair control, os::MakeMessageSockets());
  std::unique_ptr<AgentBridge> bridge(new AgentBridge(loop, std::move(stream), std::move(control)));
  bridge->stays_ = options.stays;
  bridge->calls_ = std::move(options.calls);
  const agent::Hello hello = {agent::kProtocol, options.is_session ? 1u : 0u, options.stays ? 1u : 0u, 0,
                              options.watch};
  bridge->Post(Kind::kHello, 0, Bytes(hello), options.token);
  bridge->tasks_.Add(bridge->WriteStream());
  bridge->tasks_.Add(bridge->ReadStream());
  auto answered = [&]() -> Task<bool> {
    auto first = co_await async::FirstOf(bridge->is_ready_.Wait(), bridge->gone_.Wait());
    co_return first.index() == 0;
  };
  auto ready = co_await async::WithDeadline(answered(), deadline);
  if (bridge->is_ready_.is_set()) {
    bridge->tasks_.Add(bridge->ServeControl());
    bridge->tasks_.Add(bridge->Ping());
    bridge->tasks_.Add(bridge->Reap());
    co_return bridge;
  }
  std::string why = bridge->errors();
  while (!why.empty() && why.back() == '\n') why.pop_back();
  co_await bridge->Close();
  if (!why.empty()) co_return Err(ErrorCode::kUnsupported, "the container did not start cella's agent: {}", why);
  if (ready) co_return Err(ErrorCode::kClosed, "the container ended before cella's agent answered");
  co_return Err(ErrorCode::kClosed, "cella's agent did not answer from the container in time");
}

void AgentBridge::Post(Kind kind, uint32_t channel, std::string_view a, std::string_view b) {
  if (gone_.is_set()) return;
  const Header header = {static_cast<uint32_t>(a.size() + b.size()), kind, 0, channel};
  frames_ += Bytes(header);
  frames_ += a;
  frames_ += b;
  has_frames_.Notify();
}

void AgentBridge::ReportToJail(const jail::Report& report) {
  if (!control_.is_open()) return;
  std::vector<int> fds;
  if (report.kind == jail::ReportKind::kListening && report.error == 0 && listener_) fds.push_back(listener_.get());
  // A few reports are on the way at a time, and the socket holds hundreds: one that does not fit is a flood.
  auto sent = os::SendMessage(control_.fd(), std::as_bytes(std::span(&report, 1)), fds);
  if (!fds.empty()) listener_.Reset();
  if (!sent) Cut();
}

Task<void> AgentBridge::WriteStream() {
  for (;;) {
    bool more = co_await has_frames_.Wait();
    if (!more || gone_.is_set()) co_return;
    while (!frames_.empty()) {
      const std::string frames = std::exchange(frames_, {});
      auto written = co_await stream_.Write(frames, kWritePatience);
      if (!written) {
        Cut();
        co_return;
      }
    }
  }
}

Task<void> AgentBridge::ReadStream() {
  std::string received;
  std::vector<char> buffer(65536);
  for (bool sound = true; sound;) {
    auto read = co_await stream_.Read(buffer);
    if (!read || *read == 0) break;
    received.append(buffer.data(), *read);
    size_t taken = 0;
    Header header = {};
    while (sound && received.size() - taken >= sizeof header) {
      std::memcpy(&header, received.data() + taken, sizeof header);
      if (header.size > agent::kMaxFrame) sound = false;
      if (!sound || received.size() - taken - sizeof header < header.size) break;
      sound = TakeFrame(header, std::string_view(received).substr(taken + sizeof header, header.size));
      taken += sizeof header + header.size;
    }
    received.erase(0, taken);
  }
  stream_.Kill();
  co_await End();
}

// The stream is over: what came is handed on, then the Jail sees the end of init.
Task<void> AgentBridge::End() {
  gone_.Set();
  for (auto& [number, pending] : pending_) pending->arrived.Set();
  for (auto& [tag, program] : programs_) program->Cut();
  for (auto deadline = async::Clock::now() + 2s; !closing_ && async::Clock::now() < deadline;) {
    bool idle = true;
    for (auto& [tag, program] : programs_) idle = idle && program->is_idle();
    if (idle) break;
    bool slept = co_await async::SleepUntil(async::Clock::now() + 2ms);
    if (!slept) break;
  }
  control_.StopWaiting();
  control_.Close();
}

bool AgentBridge::TakeFrame(const Header& header, std::string_view payload) {
  heard_ = async::Clock::now();
  auto program = programs_.find(agent::TagOf(header.channel));
  BridgedProgram* its = program == programs_.end() ? nullptr : program->second.get();
  const agent::Port port = agent::PortOf(header.channel);
  switch (header.kind) {
    case Kind::kReady:
      if (payload.size() != sizeof ready_ || is_ready_.is_set()) return false;
      std::memcpy(&ready_, payload.data(), sizeof ready_);
      if (ready_.protocol != agent::kProtocol) return false;
      counters_ = ready_.counters;
      is_ready_.Set();
      return true;
    case Kind::kData: return its == nullptr || its->Take(port, payload);
    case Kind::kCredit: {
      uint32_t bytes = 0;
      if (payload.size() != sizeof bytes) return false;
      std::memcpy(&bytes, payload.data(), sizeof bytes);
      if (its != nullptr) its->TakeCredit(port, bytes);
      return true;
    }
    case Kind::kClose:
      if (its != nullptr && port == agent::Port::kSession) its->TakeClose(port);
      return true;
    case Kind::kReport: return TakeReport(header.channel, payload);
    case Kind::kConnect:
      if (port != agent::Port::kSession || agent::TagOf(header.channel) < agent::kFirstCallTag) return false;
      if (its != nullptr) return false;
      Connect(agent::TagOf(header.channel));
      return true;
    case Kind::kPong: return true;
    case Kind::kCopy:
      if (port != agent::Port::kSession || agent::TagOf(header.channel) < agent::kFirstCallTag) return false;
      return its == nullptr && TakeCopy(agent::TagOf(header.channel), payload);
    case Kind::kCopyEnded:
      if (its != nullptr) its->TakeEndOfCopy();
      return true;
    case Kind::kAnswer: {
      auto pending = pending_.find(header.channel);
      if (pending == pending_.end() || payload.size() < sizeof(agent::Answer)) return false;
      Answer answer;
      std::memcpy(&answer.head, payload.data(), sizeof answer.head);
      answer.content = payload.substr(sizeof answer.head);
      pending->second->answer = std::move(answer);
      pending->second->arrived.Set();
      pending_.erase(pending);
      return true;
    }
    case Kind::kLeft:  // the stream is over, although the engine keeps it open
    default: return false;
  }
}

bool AgentBridge::TakeReport(uint32_t tag, std::string_view payload) {
  agent::ReportFrame frame = {};
  if (payload.size() != sizeof frame) return false;
  std::memcpy(&frame, payload.data(), sizeof frame);
  frame.report.detail[sizeof frame.report.detail - 1] = '\0';
  counters_ = frame.counters;
  using enum jail::ReportKind;
  const bool is_of_program = frame.report.kind == kStarted || frame.report.kind == kExited ||
                             (frame.report.kind == kFailed && frame.report.tag != 0);
  if (!is_of_program) {
    ReportToJail(frame.report);
    return true;
  }
  auto program = std::ranges::find_if(programs_, [&](const auto& each) { return each.second->is_reported_as(tag); });
  if (program != programs_.end() && frame.report.tag == tag) program->second->TakeReport(frame.report);
  return true;
}

void AgentBridge::StartProgram(const jail::Request& request, std::vector<UniqueFd> fds) {
  jail::Report failed = {};
  failed.kind = jail::ReportKind::kFailed;
  failed.stage = jail::Stage::kRequest;
  failed.error = E2BIG;
  failed.tag = request.tag;
  if (fds.size() != 4 && fds.size() != 5) return ReportToJail(failed);
  auto block = ReadBlock(fds[0].get());
  if (!block || request.tag == 0 || request.tag >= agent::kFirstCallTag) return ReportToJail(failed);
  const agent::ExecOptions options = {IsNull(fds[1].get()) ? 0u : 1u, fds.size() == 5 ? 1u : 0u};
  BridgedProgram::Fds local;
  if (options.has_input != 0) local.input = std::move(fds[1]);
  local.output = std::move(fds[2]);
  local.errors = std::move(fds[3]);
  if (options.has_session != 0) local.session = std::move(fds[4]);
  programs_[request.tag] = std::make_unique<BridgedProgram>(loop_, *this, request.tag, std::move(local));
  Post(Kind::kExec, request.tag, Bytes(options), *block);
}

Status AgentBridge::Listen() {
  if (!calls_) return MakeListener();
  auto copy = [](int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 3)); };
  if (calls_->path) {
    listener_ = copy(calls_->listener.get());
    listener_path_ = copy(calls_->path.get());
    return listener_ && listener_path_ ? Status{} : SysErr(errno, "duplicate the call socket");
  }
  TRY_VOID(MakeListener());
  calls_->listener = copy(listener_.get());
  calls_->path = copy(listener_path_.get());
  return calls_->listener && calls_->path ? Status{} : SysErr(errno, "duplicate the call socket");
}

// A socket that no other user reaches: it has no name any more when the first connection is made.
Status AgentBridge::MakeListener() {
  std::error_code error;
  std::string directory = std::filesystem::temp_directory_path(error).string() + "/cella-calls-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return SysErr(errno, "create '{}'", directory);
  const std::string path = directory + "/s";
  auto listener = os::ListenUnix(path, run::kCallBacklog);
  listener_path_ = UniqueFd(listener ? open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1);
  const Status opened = !listener        ? std::unexpected(std::move(listener.error()))
                        : listener_path_ ? Status{}
                                         : SysErr(errno, "open '{}'", path);
  (void)unlink(path.c_str());
  (void)rmdir(directory.c_str());
  if (opened) listener_ = std::move(*listener);
  return opened;
}

void AgentBridge::Connect(uint32_t tag) {
  UniqueFd connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  fmt::format_to_n(address.sun_path, sizeof address.sun_path - 1, "/proc/self/fd/{}", listener_path_.get());
  const bool connected = listener_path_ && connection && programs_.size() < kMostPrograms &&
                         connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (!connected) return Post(Kind::kClose, agent::ChannelOf(tag, agent::Port::kSession), {});
  BridgedProgram::Fds local;
  local.session = std::move(connection);
  programs_[tag] = std::make_unique<BridgedProgram>(loop_, *this, tag, std::move(local));
}

// The Jail's side gets the descriptors that a runner of this machine would send: the socket of the checkpoint, and one
// that holds its number and reaches its end when the process does.
bool AgentBridge::TakeCopy(uint32_t tag, std::string_view payload) {
  agent::Copy copy = {};
  if (payload.size() != sizeof copy) return false;
  std::memcpy(&copy, payload.data(), sizeof copy);
  auto source = programs_.find(agent::TagOf(copy.source));
  auto session = os::MakeStreamSockets();
  auto life = os::MakeStreamSockets();
  const int32_t pid = copy.pid;
  const bool made = source != programs_.end() && !source->second->is_call() && programs_.size() < kMostPrograms &&
                    session && life && write(life->ours.get(), &pid, sizeof pid) == sizeof pid;
  if (!made) {
    Post(Kind::kClose, agent::ChannelOf(tag, agent::Port::kSession), {});
    return true;
  }
  programs_[tag] = std::make_unique<BridgedProgram>(loop_, *this, tag, std::move(session->ours), std::move(life->ours),
                                                    pid, source->second->writer());
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(session->theirs));
  fds.push_back(std::move(life->theirs));
  source->second->AddDescriptors(std::move(fds));
  return true;
}

// False: the Jail is gone.
bool AgentBridge::TakeRequest() {
  jail::Request request = {};
  auto message = os::ReceiveMessage(control_.fd(), std::as_writable_bytes(std::span(&request, 1)), kMostFds);
  if (!message && message.error().sys_errno == EAGAIN) return true;
  if (!message || message->size != sizeof request) return false;
  if (request.kind == jail::RequestKind::kExec) {
    StartProgram(request, std::move(message->fds));
    return true;
  }
  if (request.kind == jail::RequestKind::kListen) {
    if (Status listens = Listen(); !listens) {
      jail::Report failed = {};
      failed.kind = jail::ReportKind::kListening;
      failed.error = listens.error().sys_errno != 0 ? listens.error().sys_errno : ENAMETOOLONG;
      ReportToJail(failed);
      return true;
    }
  }
  if (request.kind == jail::RequestKind::kAdopt) {
    for (auto& [tag, program] : programs_) {
      if (program->pid() == request.group && request.group > 1) program->set_reported_as(request.tag);
    }
  }
  // A frame that was sent to a runner before a signal arrives before it.
  for (auto& [tag, program] : programs_) program->FlushSession();
  Post(Kind::kRequest, 0, Bytes(request));
  return true;
}

Task<void> AgentBridge::ServeControl() {
  for (;;) {
    bool readable = control_.is_open() && co_await control_.Readable();
    if (!readable || !control_.is_open()) co_return;
    if (!TakeRequest()) break;
    has_ended_.Notify();
  }
  Leave();
}

// Forgets programs that have ended.
Task<void> AgentBridge::Reap() {
  for (;;) {
    bool some = co_await has_ended_.Wait();
    if (!some || closing_) co_return;
    // A relayed connection reports its end from within a task of its own, which must end first.
    co_await async::Yield();
    for (auto it = programs_.begin(); it != programs_.end();) {
      const auto is_copy = [&](const auto& each) { return each.second->is_copy_of(*it->second); };
      const bool over = it->second->has_ended() && (it->second->is_call() || it->second->is_idle()) &&
                        std::ranges::none_of(programs_, is_copy);
      if (over) {
        it->second->Cancel();
        co_await it->second->Join();
      }
      it = over ? programs_.erase(it) : std::next(it);
    }
  }
}

void AgentBridge::Leave() {
  if (stays_ && is_ready_.is_set()) {
    Post(Kind::kEnd, 0, {});
  } else {
    Cut();
  }
}

// An engine that pauses or freezes the container keeps the stream open, so the agent must answer.
Task<void> AgentBridge::Ping() {
  heard_ = async::Clock::now();
  for (;;) {
    const auto next = async::Clock::now() + std::chrono::seconds(agent::kPingSeconds);
    auto gone = co_await async::WithDeadline(gone_.Wait(), next);
    if (gone) co_return;
    // Had this process been stopped itself, the answers would be there unread.
    const bool slept = async::Clock::now() - next > std::chrono::seconds(agent::kPingSeconds);
    if (slept) heard_ = async::Clock::now();
    if (async::Clock::now() - heard_ >= std::chrono::seconds(agent::kAnswerSeconds)) co_return Cut();
    Post(Kind::kPing, 0, {});
  }
}

Task<Result<AgentBridge::Answer>> AgentBridge::Ask(Kind kind, std::string payload) {
  if (gone_.is_set()) co_return std::unexpected(ContainerGone());
  if (pending_.size() >= kMostPending) co_return Err(ErrorCode::kExhausted, "too many file operations at once");
  auto answer = co_await Await(Pose(kind, payload));
  co_return answer;
}

Task<Status> AgentBridge::AskAll(Kind kind, std::vector<std::string> payloads) {
  if (gone_.is_set()) co_return std::unexpected(ContainerGone());
  std::vector<std::shared_ptr<Pending>> posed;
  for (const std::string& payload : payloads) posed.push_back(Pose(kind, payload));
  payloads.clear();
  Status status;
  for (auto& pending : posed) {
    auto answer = co_await Await(std::move(pending));
    if (!answer && status) status = std::unexpected(std::move(answer.error()));
  }
  co_return status;
}

std::shared_ptr<AgentBridge::Pending> AgentBridge::Pose(Kind kind, std::string_view payload) {
  auto pending = std::make_shared<Pending>(loop_);
  const uint32_t number = ++last_question_;
  pending_[number] = pending;
  Post(kind, number, payload);
  return pending;
}

Task<Result<AgentBridge::Answer>> AgentBridge::Await(std::shared_ptr<Pending> pending) {
  bool arrived = co_await pending->arrived.Wait();
  // Cancelled: the answer may never come.
  if (!arrived) std::erase_if(pending_, [&](const auto& each) { return each.second == pending; });
  if (!arrived || !pending->answer) co_return std::unexpected(ContainerGone());
  Answer answer = std::move(*pending->answer);
  if (answer.head.error != 0) {
    Error error;
    const bool is_known = answer.head.error <= static_cast<uint32_t>(ErrorCode::kInternal) + 1;
    error.code = is_known ? static_cast<ErrorCode>(answer.head.error - 1) : ErrorCode::kInternal;
    error.sys_errno = answer.head.sys_errno;
    error.message = answer.content.substr(0, 1000);
    co_return std::unexpected(std::move(error));
  }
  co_return answer;
}

Task<void> AgentBridge::Close() {
  closing_ = true;
  Leave();
  if (stays_) (void)co_await async::WithDeadline(gone_.Wait(), async::Clock::now() + kLeavePatience);
  Cut();
  (void)co_await gone_.Wait();
  // A task that is about to be resumed does not notice a cancellation: these see `closing_` and `gone_` instead.
  has_frames_.Notify();
  has_ended_.Notify();
  tasks_.Cancel();
  co_await tasks_.Join();
  for (auto& [tag, program] : programs_) {
    program->Cancel();
    co_await program->Join();
  }
  programs_.clear();
}

}  // namespace cella::executor
