#include "executor/sandbox/zygote.h"

#include <signal.h>

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "async/deadline.h"
#include "confine/launch_errors.h"
#include "os/io.h"
#include "os/syscalls.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;

// Imports of large packages from a cold disk.
constexpr auto kStartPatience = 120s;
constexpr auto kAnswerPatience = 10s;
constexpr uint32_t kReadyTag = 0;
constexpr size_t kKeptFailures = 64;
constexpr int kMessagesAtOnce = 64;  // then the loop has its turn

}  // namespace

async::Task<Result<std::shared_ptr<Zygote>>> Zygote::Connect(async::Loop& loop, UniqueFd control) {
  std::shared_ptr<Zygote> zygote(new Zygote(loop, std::move(control)));
  zygote->waiting_.emplace(kReadyTag, Answer{});
  auto answer = co_await async::WithDeadline(zygote->WaitFor(kReadyTag), async::Clock::now() + kStartPatience);
  if (!answer) co_return Err(ErrorCode::kUnsupported, "the interpreter did not get ready within 120 s");
  if (answer->report && answer->report->kind == jail::ReportKind::kReady) co_return zygote;
  if (answer->report) co_return std::unexpected(confine::ExplainExecFailure(*answer->report));
  if (!zygote->last_words_.empty()) co_return Err(ErrorCode::kUnsupported, "{}", zygote->last_words_);
  co_return Err(ErrorCode::kUnsupported, "the interpreter ended before it was ready");
}

Zygote::~Zygote() {
  // One that hangs does not notice that its socket is closed.
  if (pidfd_) (void)os::PidfdSendSignal(pidfd_.get(), SIGKILL);
}

Status Zygote::Send(const jail::Request& request, std::span<const int> fds) {
  if (gone_) return Err(ErrorCode::kClosed, "the zygote is gone");
  auto bytes = std::as_bytes(std::span<const jail::Request, 1>(&request, 1));
  auto sent = os::SendMessage(control_.fd(), bytes, fds);
  if (!sent) {
    gone_ = true;
    return Err(ErrorCode::kClosed, "the zygote is gone");
  }
  return {};
}

void Zygote::Receive() {
  for (int taken = 0; taken < kMessagesAtOnce; ++taken) {
    // Before it serves, it may send a line of text instead.
    std::array<std::byte, 4096> buffer;
    auto message = os::ReceiveMessage(control_.fd(), buffer);
    if (!message && message.error().sys_errno == EAGAIN) return;
    if (!message || message->size == 0) {
      gone_ = true;
      return;
    }
    if (message->size != sizeof(jail::Report)) {
      auto text = std::string_view(reinterpret_cast<const char*>(buffer.data()), message->size);
      auto json = nlohmann::json::parse(text, nullptr, false);
      if (json.is_object() && json.contains("error") && json["error"].is_string()) last_words_ = json["error"];
      continue;
    }
    jail::Report report = {};
    std::memcpy(&report, buffer.data(), sizeof report);
    if (report.kind == jail::ReportKind::kCreated) {
      // The first is the maker's, and only that one counts.
      if (!pidfd_ && !message->fds.empty()) pidfd_ = std::move(message->fds.front());
      continue;
    }
    auto waiting = waiting_.find(report.tag);
    if (waiting == waiting_.end()) {
      if (report.kind == jail::ReportKind::kFailed) failures_[report.tag] = report;
      if (failures_.size() > kKeptFailures) failures_.erase(failures_.begin());
      continue;
    }
    // A newborn that could not move in says so itself, before or after the zygote announced it.
    bool failed_already = waiting->second.report && waiting->second.report->kind == jail::ReportKind::kFailed;
    if (!failed_already) waiting->second.report = report;
    if (!message->fds.empty()) waiting->second.fd = std::move(message->fds.front());
  }
}

async::Task<Zygote::Answer> Zygote::WaitFor(uint32_t tag) {
  for (;;) {
    Receive();
    auto& waiting = waiting_[tag];
    if (waiting.report || gone_) break;
    // Other tasks may wait here as well: each is woken, and finds what the first one took.
    bool readable = co_await control_.Readable();
    if (!readable) break;
  }
  auto node = waiting_.extract(tag);
  co_return std::move(node.mapped());
}

async::Task<Result<Zygote::Newborn>> Zygote::Fork(const jail::ForkSpec& spec, std::span<const int> fds) {
  jail::Request request = {};
  request.kind = jail::RequestKind::kFork;
  request.tag = ++last_tag_;
  request.fork = spec;
  const uint32_t tag = request.tag;
  waiting_.emplace(tag, Answer{});
  auto sent = Send(request, fds);
  if (!sent) {
    waiting_.erase(tag);
    co_return std::unexpected(std::move(sent.error()));
  }
  auto answer = co_await async::WithDeadline(WaitFor(tag), async::Clock::now() + kAnswerPatience);
  if (!answer) {
    gone_ = true;  // whatever it does, it does not serve
    co_return Err(ErrorCode::kClosed, "the zygote does not answer");
  }
  if (!answer->report) co_return Err(ErrorCode::kClosed, "the zygote died");
  if (answer->report->kind == jail::ReportKind::kFailed)
    co_return std::unexpected(confine::ExplainExecFailure(*answer->report));
  if (!answer->fd) co_return std::unexpected(confine::NoDescriptors());
  co_return Newborn{std::move(answer->fd), tag};
}

async::Task<std::optional<Zygote::End>> Zygote::WaitEnd(uint32_t tag) {
  jail::Request request = {};
  request.kind = jail::RequestKind::kStatus;
  request.tag = tag;
  waiting_.emplace(tag, Answer{});
  if (!Send(request, {})) {
    waiting_.erase(tag);
    co_return std::nullopt;
  }
  auto answer = co_await async::WithDeadline(WaitFor(tag), async::Clock::now() + kAnswerPatience);
  if (!answer || !answer->report || answer->report->error != 0) co_return std::nullopt;
  co_return End{answer->report->wait_status, answer->report->cpu_ns, answer->report->peak_rss};
}

std::optional<jail::Report> Zygote::TakeFailure(uint32_t tag) {
  Receive();
  auto node = failures_.extract(tag);
  if (node.empty()) return std::nullopt;
  return node.mapped();
}

uint32_t Zygote::Adopt(int pid) {
  jail::Request request = {};
  request.kind = jail::RequestKind::kAdopt;
  request.tag = ++last_tag_;
  request.group = pid;
  (void)Send(request, {});
  return request.tag;
}

}  // namespace cella::executor
