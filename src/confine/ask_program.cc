#include "confine/ask_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "confine/identity.h"
#include "confine/launch_errors.h"
#include "confine/limits.h"
#include "confine/root_tree.h"
#include "confine/spec_builder.h"
#include "jail/protocol.h"
#include "language/host_program.h"
#include "os/io.h"
#include "os/process.h"
#include "os/syscalls.h"

namespace cella::confine {
namespace {

using Clock = std::chrono::steady_clock;
using language::ToolQuery;

constexpr size_t kMaxAnswer = 64 * 1024;
constexpr size_t kShownError = 400;
constexpr uint64_t kScratchBytes = uint64_t{16} << 20;
constexpr uint64_t kScratchInodes = 1024;
constexpr uint64_t kMaxProcesses = 64;
// For a killed process; only one that the kernel holds takes longer.
constexpr std::chrono::seconds kEndGrace{2};

std::string LastLines(const std::string& text) {
  size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return "it printed nothing";
  std::string shown = text.substr(0, end + 1);
  if (shown.size() > kShownError) shown.erase(0, shown.size() - kShownError);
  std::ranges::replace(shown, '\n', ' ');
  return shown;
}

// One question and the jail (or, unconfined, the process tree) that is built for it.
class Question {
 public:
  Question(const ToolQuery& query, Confinement confinement)
      : query_(query), confinement_(confinement), deadline_(Clock::now() + query.timeout) {}
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;
  ~Question() {
    if (confinement_ == Confinement::kJail && launcher_ && !init_) {
      // The question ended early: init's pidfd may still be on the way from the launcher, and init is our child.
      End(launcher_);
      for (auto received = Receive(); received && *received && !init_; received = Receive()) {
      }
    }
    // Init (unconfined: the launcher) ends with its socket, and everything inside with it.
    control_.Reset();
    End(init_);
    End(launcher_);
  }

  Result<std::string> Ask(const std::string& launcher) {
    TRY_VOID(Start(launcher));
    return Answer();
  }

  // The machine, and not the program or its files, is why there was no answer.
  bool no_jail() const { return no_jail_; }

 private:
  const std::string& program() const { return query_.argv[0]; }

  Status Start(const std::string& launcher) {
    TRY(os::SocketPair sockets, os::MakeMessageSockets());
    UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!null) return SysErr(errno, "open '/dev/null'");
    os::SpawnOptions options;
    options.program = launcher;
    options.argv = {"cella-launch"};
    options.fds = {{null.get(), 0}, {null.get(), 1}, {null.get(), 2}, {sockets.theirs.get(), jail::kControlFd}};
    TRY(launcher_, os::Process::Spawn(options));
    control_ = std::move(sockets.ours);
    Policy policy;
    policy.best_effort = true;
    policy.limits.cpu_time.value = query_.timeout;
    policy.limits.pids.value = kMaxProcesses;
    policy.limits.disk.value = kScratchBytes;
    // Without a cgroup: to make one takes as long as the answer.
    LimitContext machine;
    machine.confinement = confinement_;
    machine.open_files_maximum = policy.limits.open_files.value;
    TRY(LimitPlan limits, PlanLimits(policy, machine));
    TRY_VOID(SendSpec(policy, limits));
    auto sent = SendExec(limits, null.get());
    // The launcher has failed already, and its report is waiting.
    if (!sent && sent.error().sys_errno == EPIPE) return {};
    return sent;
  }

  Result<std::string> Answer() {
    while (!exited_) {
      auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
      if (left <= 0) {
        return Err(ErrorCode::kExhausted, "'{}' did not answer within {} ms", program(), query_.timeout.count());
      }
      std::array<pollfd, 3> fds = {pollfd{control_.get(), POLLIN, 0}, pollfd{out_ ? out_.get() : -1, POLLIN, 0},
                                   pollfd{err_ ? err_.get() : -1, POLLIN, 0}};
      if (poll(fds.data(), fds.size(), static_cast<int>(left)) < 0 && errno != EINTR) return SysErr(errno, "poll");
      TRY_VOID(Read());
      if (fds[0].revents != 0) {
        TRY([[maybe_unused]] bool received, Receive());
      }
    }
    // All writers are dead, so what is in the pipes is all.
    TRY_VOID(Read());
    if (WIFSIGNALED(*exited_)) {
      return Err(ErrorCode::kUnsupported, "'{}' was ended by signal {}", program(), WTERMSIG(*exited_));
    }
    if (WEXITSTATUS(*exited_) != 0) {
      return Err(ErrorCode::kUnsupported, "'{}' exited with {}: {}", program(), WEXITSTATUS(*exited_),
                 LastLines(complaint_));
    }
    return std::move(answer_);
  }

  Status Send(jail::RequestKind kind, std::span<const int> fds) {
    jail::Request request = {};
    request.kind = kind;
    return os::SendMessage(control_.get(), std::as_bytes(std::span(&request, 1)), fds);
  }

  Status SendSpec(const Policy& policy, const LimitPlan& limits) {
    JailSpecBuilder builder;
    jail::JailSpec& spec = builder.spec();
    spec.watch = limits.watch;
    if (confinement_ == Confinement::kNone) {
      spec.flags = jail::kUnconfined;
    } else {
      // A thread's number is unique while the question lasts.
      auto identity = ChooseIdentity(static_cast<uint32_t>(gettid()));
      no_jail_ = !identity;
      if (!identity) return std::unexpected(std::move(identity.error()));
      identity->Describe(&spec);
      if (limits.strict_memory) spec.flags |= jail::kStrictMemory;
      spec.scratch_bytes = kScratchBytes;
      spec.scratch_inodes = kScratchInodes;
      builder.SetHostname("cella");
      language::Plan plan;
      plan.visible = query_.visible;
      plan.etc = query_.etc;
      TRY_VOID(DescribeRootTree(plan, policy, &builder));
      TRY_VOID(AddPolicyMounts(policy, &builder));
    }
    TRY(UniqueFd block, builder.Finish());
    return Send(jail::RequestKind::kBuild, std::array{block.get()});
  }

  // Sent at once: init takes it when it is ready.
  Status SendExec(const LimitPlan& limits, int null) {
    TRY(os::Pipe out, os::MakePipe());
    TRY(os::Pipe err, os::MakePipe());
    ExecRequest exec;
    exec.program = program();
    exec.argv = query_.argv;
    exec.env = query_.env;
    exec.cwd = "/";
    exec.limits = limits.exec;
    if (confinement_ == Confinement::kNone) exec.env = {"LC_ALL=C.UTF-8", "HOME=/nonexistent", "PATH=/usr/bin:/bin"};
    TRY(UniqueFd block, EncodeExec(exec));
    TRY_VOID(Send(jail::RequestKind::kExec, std::array{block.get(), null, out.write.get(), err.write.get()}));
    // Only our ends: the program must see ordinary blocking descriptors.
    for (const UniqueFd* fd : {&out.read, &err.read}) {
      if (fcntl(fd->get(), F_SETFL, O_NONBLOCK) < 0) return SysErr(errno, "fcntl");
    }
    out_ = std::move(out.read);
    err_ = std::move(err.read);
    return {};
  }

  Status Read() {
    Drain(out_, answer_);
    Drain(err_, complaint_);
    if (answer_.size() <= kMaxAnswer && complaint_.size() <= kMaxAnswer) return {};
    return Err(ErrorCode::kUnsupported, "'{}' answered with more than {} bytes", program(), kMaxAnswer);
  }

  // Appends what is there; closes at the end of the stream.
  static void Drain(UniqueFd& fd, std::string& into) {
    std::array<char, 4096> buffer;
    while (fd && into.size() <= kMaxAnswer) {
      ssize_t count = os::RetryOnEintr([&] { return read(fd.get(), buffer.data(), buffer.size()); });
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) {
        fd.Reset();
      } else {
        into.append(buffer.data(), static_cast<size_t>(count));
      }
    }
  }

  // One message of the launcher or init; false when there is none.
  Result<bool> Receive() {
    jail::Report report = {};
    auto message = os::ReceiveMessage(control_.get(), std::as_writable_bytes(std::span(&report, 1)));
    if (!message && message.error().sys_errno == EAGAIN) return false;
    if (!message) return std::unexpected(std::move(message.error()));
    if (message->size != sizeof report) {
      return Err(ErrorCode::kInternal, "'{}' and the jail around it ended without an answer", program());
    }
    if (message->lost_fds) return std::unexpected(NoDescriptors());
    if (report.kind == jail::ReportKind::kCreated && !message->fds.empty()) {
      init_ = os::Process::Adopt(std::move(message->fds.front()));
    }
    if (report.kind == jail::ReportKind::kReady) ready_ = true;
    if (report.kind == jail::ReportKind::kExited) exited_ = report.wait_status;
    if (report.kind != jail::ReportKind::kFailed) return true;
    if (ready_) return std::unexpected(ExplainExecFailure(report));
    no_jail_ = report.stage != jail::Stage::kOpenSource && report.stage != jail::Stage::kAttach;
    return std::unexpected(ExplainBuildFailure(report));
  }

  static void End(std::optional<os::Process>& process) {
    if (!process) return;
    auto ended = [&] {
      pollfd gone = {process->pidfd(), POLLIN, 0};
      const auto grace = static_cast<int>(std::chrono::milliseconds(kEndGrace).count());
      return os::RetryOnEintr([&] { return poll(&gone, 1, grace); }) > 0;
    };
    if (!ended()) {
      (void)process->Signal(SIGKILL);
      if (!ended()) process->Abandon();
    }
    process.reset();
  }

  const ToolQuery& query_;
  const Confinement confinement_;
  const Clock::time_point deadline_;
  UniqueFd control_, out_, err_;
  std::optional<os::Process> launcher_, init_;
  std::string answer_, complaint_;
  std::optional<int> exited_;  // the wait status
  bool ready_ = false;
  bool no_jail_ = false;
};

class ProgramAsker : public language::ToolAsker {
 public:
  explicit ProgramAsker(std::string launcher) : launcher_(std::move(launcher)) {}

  Result<std::string> AskProgram(const ToolQuery& query) const override {
    Question question(query, Confinement::kJail);
    auto answer = question.Ask(launcher_);
    if (answer || !question.no_jail()) return answer;
    if (auto trusted = language::CheckHostProgram(query.argv[0]); !trusted) {
      return Err(ErrorCode::kPermission,
                 "'{}' is not asked about itself outside a jail ({}), and none can be built here: {}", query.argv[0],
                 trusted.error().message, answer.error().message);
    }
    return Question(query, Confinement::kNone).Ask(launcher_);
  }

 private:
  const std::string launcher_;
};

}  // namespace

std::shared_ptr<const language::ToolAsker> MakeProgramAsker(std::string launcher) {
  return std::make_shared<ProgramAsker>(std::move(launcher));
}

}  // namespace cella::confine
