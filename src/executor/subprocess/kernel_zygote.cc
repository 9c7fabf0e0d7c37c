#include "executor/subprocess/kernel_zygote.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "async/caught.h"
#include "async/deadline.h"
#include "confine/launch_errors.h"
#include "executor/subprocess/venv_files.h"
#include "os/io.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;

constexpr auto kStartPatience = 30s;
constexpr auto kAnswerPatience = 5s;
// As long as kernels made ahead are kept, and kinds that have none are remembered.
constexpr auto kMemory = 5min;
constexpr auto kPoll = 10s;
// Each holds some 60 MB, and one operator's server has few Pythons.
constexpr size_t kMostZygotes = 2;
constexpr size_t kMostFailed = 64;

constexpr const char* kServe = R"(import sys
if sys.path[0] == "": del sys.path[0]
sys.path.insert(0, sys.argv[1])
from cella_runner import kernel_zygote
sys.path.remove(sys.argv[1])
kernel_zygote.main(sys.argv[2]))";

// Changes when a package is added to a directory, or removed.
std::vector<std::pair<std::string, int64_t>> StampsOf(const KernelKind& kind) {
  std::vector<std::pair<std::string, int64_t>> stamps;
  std::vector<std::string> paths = kind.sites;
  paths.push_back(kind.base);
  for (const std::string& path : paths) {
    struct stat info = {};
    const bool found = stat(path.c_str(), &info) == 0;
    stamps.emplace_back(path, found ? info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec : 0);
  }
  return stamps;
}

// Of a session's variable, in an environment at another place.
std::string Moved(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

std::string KernelKind::Key() const {
  nlohmann::json key = {base, version, sites, named, inherit_env};
  return key.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

async::Task<Result<std::unique_ptr<KernelZygote>>> KernelZygote::Start(confine::LaunchContext& context,
                                                                       LocalScratch scratch, const KernelKind& kind,
                                                                       const std::vector<std::string>& env,
                                                                       const std::string& venv) {
  const std::string place = scratch.path() + "/venv";
  auto make = [&] { return MakeFreshVenv(place, kind.base, kind.version, kind.sites); };
  auto made = co_await context.planning->Run(make);
  if (!made) co_return std::unexpected(std::move(made.error()));
  CO_TRY(os::SocketPair sockets, os::MakeMessageSockets());
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) co_return SysErr(errno, "open '/dev/null'");
  os::SpawnOptions options;
  options.program = place + "/bin/python";
  options.argv = {options.program, "-c", kServe, context.runners + "/python", context.runners + "/libcella_fork.so"};
  for (const std::string& variable : env) options.env.push_back(Moved(variable, venv, place));
  options.fds = {{null.get(), 0}, {null.get(), 1}, {null.get(), 2}, {sockets.theirs.get(), jail::kControlFd}};
  options.cwd = scratch.path();
  auto process = os::Process::Spawn(options);
  if (!process) co_return std::unexpected(std::move(process.error()).WithContext("the zygote of kernels"));
  sockets.theirs.Reset();
  std::unique_ptr<KernelZygote> zygote(
      new KernelZygote(context.loop, std::move(scratch), std::move(*process), std::move(sockets.ours)));
  auto answer = co_await async::WithDeadline(zygote->Receive(), async::Clock::now() + kStartPatience);
  if (!answer) co_return Err(ErrorCode::kUnsupported, "the zygote of kernels did not get ready in time");
  if (!*answer) co_return std::unexpected(std::move(answer->error()));
  if ((*answer)->report.kind != jail::ReportKind::kReady) {
    co_return Err(ErrorCode::kUnsupported, "the zygote of kernels: {}", (*answer)->text);
  }
  co_return zygote;
}

async::Task<Result<KernelZygote::Answer>> KernelZygote::Receive() {
  for (;;) {
    const bool readable = co_await control_.Readable();
    if (!readable) co_return Err(ErrorCode::kClosed, "cancelled");
    // Before it serves, it may send a line of text instead.
    std::array<std::byte, 4096> buffer;
    auto message = os::ReceiveMessage(control_.fd(), buffer);
    if (!message && message.error().sys_errno == EAGAIN) continue;
    if (!message || message->size == 0) {
      gone_ = true;
      co_return Err(ErrorCode::kClosed, "the zygote of kernels ended");
    }
    Answer answer;
    if (message->size == sizeof answer.report) {
      std::memcpy(&answer.report, buffer.data(), sizeof answer.report);
    } else {
      answer.text.assign(reinterpret_cast<const char*>(buffer.data()), message->size);
    }
    if (!message->fds.empty()) answer.fd = std::move(message->fds.front());
    co_return answer;
  }
}

async::Task<Result<confine::InitProcess>> KernelZygote::Copy() {
  auto pass = co_await turns_.Enter();
  if (gone_) co_return Err(ErrorCode::kClosed, "the zygote of kernels ended");
  CO_TRY(os::SocketPair sockets, os::MakeMessageSockets());
  jail::Request request = {};
  request.kind = jail::RequestKind::kFork;
  const int theirs = sockets.theirs.get();
  auto sent = os::SendMessage(control_.fd(), std::as_bytes(std::span<const jail::Request, 1>(&request, 1)),
                              std::span(&theirs, 1));
  if (!sent) {
    gone_ = true;
    co_return Err(ErrorCode::kClosed, "the zygote of kernels ended");
  }
  auto answer = co_await async::WithDeadline(Receive(), async::Clock::now() + kAnswerPatience);
  // The answer to this request must not be taken for that to the next one.
  if (!answer || !*answer) {
    gone_ = true;
    co_return Err(ErrorCode::kClosed, "the zygote of kernels does not answer");
  }
  Answer& made = **answer;
  if (made.report.kind == jail::ReportKind::kFailed) {
    co_return std::unexpected(confine::ExplainExecFailure(made.report));
  }
  if (made.report.kind != jail::ReportKind::kForked || !made.fd) co_return std::unexpected(confine::NoDescriptors());
  co_return confine::InitProcess(loop_, os::Process::Adopt(std::move(made.fd)), std::move(sockets.ours));
}

async::Task<std::optional<confine::InitProcess>> KernelZygotes::Take(const KernelKind& kind) {
  const std::string key = kind.Key();
  const auto found = zygotes_.find(key);
  if (found == zygotes_.end() || closing_) co_return std::nullopt;
  if (found->second.stamps != StampsOf(kind)) {
    // It has imported other packages than a new kernel would.
    zygotes_.erase(found);
    co_return std::nullopt;
  }
  found->second.used = async::Clock::now();
  const std::shared_ptr<KernelZygote> zygote = found->second.zygote;
  auto copy = co_await zygote->Copy();
  if (copy) co_return std::move(*copy);
  if (auto still = zygotes_.find(key); still != zygotes_.end() && still->second.zygote == zygote) zygotes_.erase(still);
  co_return std::nullopt;
}

async::Task<void> KernelZygotes::Prepare(const KernelKind& kind, const std::vector<std::string>& env,
                                         const std::string& venv) {
  const std::string key = kind.Key();
  auto pass = co_await starting_.Enter();
  if (closing_ || zygotes_.contains(key)) co_return;
  std::erase_if(failed_, [](const auto& failed) { return failed.second < async::Clock::now() - kMemory; });
  if (failed_.contains(key) || failed_.size() >= kMostFailed) co_return;
  auto scratch = LocalScratch::Create(tmpdir_);
  if (!scratch) co_return;
  auto stamps = StampsOf(kind);
  auto started = co_await KernelZygote::Start(context_, std::move(*scratch), kind, env, venv);
  if (closing_) co_return;
  if (!started) {
    failed_[key] = async::Clock::now();
    co_return;
  }
  if (zygotes_.size() >= kMostZygotes) {
    zygotes_.erase(std::ranges::min_element(zygotes_, {}, [](const auto& zygote) { return zygote.second.used; }));
  }
  zygotes_[key] = {std::move(*started), std::move(stamps), kind.lease, async::Clock::now()};
  if (!std::exchange(watching_, true)) tasks_.Add(EndUnused());
}

async::Task<void> KernelZygotes::EndUnused() {
  while (!closing_ && !zygotes_.empty()) {
    (void)co_await async::SleepUntil(async::Clock::now() + kPoll);
    std::erase_if(zygotes_, [](const auto& zygote) { return zygote.second.used < async::Clock::now() - kMemory; });
  }
  watching_ = false;
}

async::Task<void> KernelZygotes::Close() {
  closing_ = true;
  zygotes_.clear();
  tasks_.Cancel();
  (void)co_await async::Caught(tasks_.Join());
}

}  // namespace cella::executor
