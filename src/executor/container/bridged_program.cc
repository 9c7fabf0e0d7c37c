#include "executor/container/bridged_program.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "os/io.h"
#include "os/syscalls.h"

namespace cella::executor {

using agent::ChannelOf;
using agent::Kind;
using agent::Port;

namespace {

std::string_view Bytes(const uint32_t& value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

void Open(std::optional<async::Descriptor>& into, async::Loop& loop, UniqueFd fd) {
  if (fd) into.emplace(loop, std::move(fd), async::Sharing::kOurs);
}

// Descriptors travel with the first byte.
async::Task<Status> Pass(async::Descriptor& local, std::string_view bytes, const std::vector<UniqueFd>& fds) {
  if (!fds.empty() && !bytes.empty()) {
    std::vector<int> numbers;
    for (const UniqueFd& fd : fds) numbers.push_back(fd.get());
    for (;;) {
      auto sent = os::SendMessage(local.fd(), std::as_bytes(std::span(bytes.data(), 1)), numbers);
      if (sent) break;
      if (sent.error().sys_errno != EAGAIN) co_return std::unexpected(std::move(sent.error()));
      bool writable = co_await local.Writable();
      if (!writable || !local.is_open()) co_return Err(ErrorCode::kClosed, "closed");
    }
    bytes.remove_prefix(1);
  }
  auto written = co_await local.WriteAll(bytes);
  co_return written;
}

}  // namespace

BridgedProgram::BridgedProgram(async::Loop& loop, FrameSender& sender, uint32_t tag, Fds fds)
    : sender_(sender), tag_(tag), input_window_(loop), session_window_(loop), has_items_(loop), tasks_(loop) {
  Open(input_, loop, std::move(fds.input));
  Open(output_, loop, std::move(fds.output));
  Open(errors_, loop, std::move(fds.errors));
  Open(session_, loop, std::move(fds.session));
  tasks_.Add(HandOn());
  if (input_) tasks_.Add(Pump(Port::kInput, input_window_));
  if (session_) tasks_.Add(Pump(Port::kSession, session_window_));
}

BridgedProgram::BridgedProgram(async::Loop& loop, FrameSender& sender, uint32_t tag, UniqueFd session, UniqueFd life,
                               int pid, BridgedProgram& writer)
    : BridgedProgram(loop, sender, tag, Fds{{}, {}, {}, std::move(session)}) {
  writer_ = &writer;
  life_ = std::move(life);
  pid_ = pid;
}

async::Descriptor* BridgedProgram::LocalOf(Port port) {
  auto* local = port == Port::kInput    ? &input_
                : port == Port::kOutput ? &output_
                : port == Port::kErrors ? &errors_
                                        : &session_;
  return *local && (*local)->is_open() ? &**local : nullptr;
}

void BridgedProgram::Add(Item item) {
  if (is_cancelled_) return;
  ++unfinished_;
  writer().waiting_.push_back(std::move(item));
  writer().has_items_.Notify();
}

bool BridgedProgram::Take(Port port, std::string_view bytes) {
  size_t& waiting = waiting_bytes_[static_cast<size_t>(port)];
  if (port == Port::kInput || waiting + bytes.size() > agent::kWindow) return false;
  waiting += bytes.size();
  Item item = MakeItem(port);
  item.bytes = bytes;
  if (port == Port::kSession) item.fds = std::exchange(fds_, {});
  Add(std::move(item));
  return true;
}

void BridgedProgram::AddDescriptors(std::vector<UniqueFd> fds) {
  for (UniqueFd& fd : fds) fds_.push_back(std::move(fd));
}

void BridgedProgram::TakeCredit(Port port, uint32_t bytes) {
  if (port != Port::kInput && port != Port::kSession) return;
  Window& window = port == Port::kInput ? input_window_ : session_window_;
  window.left = std::min(agent::kWindow, window.left + std::min(bytes, agent::kWindow));
  window.has_room.Notify();
}

void BridgedProgram::TakeClose(Port port) {
  Item item = MakeItem(port);
  item.closes = true;
  Add(std::move(item));
}

void BridgedProgram::TakeReport(const jail::Report& report) {
  Item item = MakeItem(Port::kOutput);
  item.report = report;
  Add(std::move(item));
}

void BridgedProgram::TakeEndOfCopy() {
  Item item = MakeItem(Port::kSession);
  item.ends = true;
  Add(std::move(item));
}

void BridgedProgram::Cut() {
  for (Port port : {Port::kOutput, Port::kErrors, Port::kSession}) TakeClose(port);
  if (writer_ != nullptr) TakeEndOfCopy();
}

// A task that is about to be resumed does not notice a cancellation and would wait again. Hence the flag, and every
// wait is ended by what it waits for.
void BridgedProgram::Cancel() {
  is_cancelled_ = true;
  waiting_.clear();
  for (auto* local : {&input_, &output_, &errors_, &session_}) {
    if (*local) (*local)->Close();
  }
  has_items_.Notify();
  input_window_.has_room.Notify();
  session_window_.has_room.Notify();
  tasks_.Cancel();
}

// Of a checkpoint: the supervisor has let it go.
void BridgedProgram::EndCall() {
  const bool may_end = is_call() || writer_ != nullptr;
  if (!may_end || std::exchange(has_ended_, true)) return;
  sender_.CallEnded();
}

async::Task<void> BridgedProgram::HandOn() {
  for (;;) {
    while (!waiting_.empty()) {
      Item item = std::move(waiting_.front());
      waiting_.pop_front();
      BridgedProgram& program = *item.program;
      co_await program.HandOn(std::move(item));
      --program.unfinished_;
    }
    bool more = co_await has_items_.Wait();
    if (!more || is_cancelled_) co_return;
  }
}

async::Task<void> BridgedProgram::HandOn(Item item) {
  async::Descriptor* local = LocalOf(item.port);
  if (item.report) {
    if (writer_ == nullptr) has_ended_ = item.report->kind != jail::ReportKind::kStarted;
    sender_.ReportToJail(*item.report);
  } else if (item.ends) {
    life_.Reset();
    EndCall();
  } else if (item.closes) {
    if (local != nullptr) local->Close();
    if (is_call()) EndCall();
  } else {
    bool is_read = local != nullptr;
    if (is_read) {
      auto passed = co_await Pass(*local, item.bytes, item.fds);
      is_read = passed.has_value();
    }
    const auto size = static_cast<uint32_t>(item.bytes.size());
    waiting_bytes_[static_cast<size_t>(item.port)] -= size;
    if (is_read) {
      sender_.Post(Kind::kCredit, ChannelOf(tag_, item.port), Bytes(size));
    } else if (local != nullptr) {
      // Its reader is gone: the program gets a closed pipe.
      local->Close();
      sender_.Post(Kind::kClose, ChannelOf(tag_, item.port), {});
      EndCall();
    }
  }
}

void BridgedProgram::FlushSession() {
  async::Descriptor* local = LocalOf(Port::kSession);
  while (local != nullptr && session_window_.left > 0) {
    std::array<char, 65536> buffer;
    const size_t wanted = std::min<size_t>(buffer.size(), session_window_.left);
    const ssize_t n = os::RetryOnEintr([&] { return recv(local->fd(), buffer.data(), wanted, MSG_DONTWAIT); });
    if (n <= 0) return;
    session_window_.left -= static_cast<uint32_t>(n);
    sender_.Post(Kind::kData, ChannelOf(tag_, Port::kSession), {buffer.data(), static_cast<size_t>(n)});
  }
}

// From the local side to the program.
async::Task<void> BridgedProgram::Pump(Port port, Window& window) {
  async::Descriptor* local = LocalOf(port);
  for (;;) {
    while (window.left == 0) {
      bool more = co_await window.has_room.Wait();
      if (!more || is_cancelled_) co_return;
    }
    bool readable = local->is_open() && co_await local->Readable();
    if (!readable || !local->is_open()) co_return;
    if (window.left == 0) continue;
    std::array<char, 65536> buffer;
    const size_t wanted = std::min<size_t>(buffer.size(), window.left);
    const ssize_t n = os::RetryOnEintr([&] { return read(local->fd(), buffer.data(), wanted); });
    if (n < 0 && errno == EAGAIN) continue;
    if (n <= 0) {
      sender_.Post(Kind::kClose, ChannelOf(tag_, port), {});
      EndCall();
      co_return;
    }
    window.left -= static_cast<uint32_t>(n);
    sender_.Post(Kind::kData, ChannelOf(tag_, port), {buffer.data(), static_cast<size_t>(n)});
  }
}

}  // namespace cella::executor
