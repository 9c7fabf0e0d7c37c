#include "language/ask.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/scope_exit.h"
#include "base/unique_fd.h"
#include "language/host_program.h"

namespace cella::language {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxAnswer = 64 * 1024;
constexpr size_t kShownError = 400;

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return SysErr(errno, "pipe");
  Pipe pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
  // Only our end: the program must see ordinary blocking descriptors.
  if (::fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0) return SysErr(errno, "fcntl");
  return pipe;
}

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

Result<pid_t> Spawn(const Question& question, int out, int err) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (::posix_spawn_file_actions_init(&actions) != 0 || ::posix_spawnattr_init(&attributes) != 0) {
    return SysErr(ENOMEM, "start '{}'", question.argv[0]);
  }
  ScopeExit destroy([&] {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  });
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out, 1);
  ::posix_spawn_file_actions_adddup2(&actions, err, 2);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  ::posix_spawn_file_actions_addchdir_np(&actions, question.cwd.empty() ? "/" : question.cwd.c_str());
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  int failed = ::posix_spawn(&pid, question.argv[0].c_str(), &actions, &attributes, Pointers(question.argv).data(),
                             Pointers(question.env).data());
  if (failed != 0) return SysErr(failed, "start '{}'", question.argv[0]);
  return pid;
}

// Appends what is there; closes at the end of the stream.
void Drain(UniqueFd& fd, std::string& into) {
  std::array<char, 4096> buffer;
  while (fd && into.size() <= kMaxAnswer) {
    ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count > 0) {
      into.append(buffer.data(), static_cast<size_t>(count));
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      fd.Reset();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

std::string LastLines(const std::string& text) {
  size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return "it said nothing";
  std::string shown = text.substr(0, end + 1);
  if (shown.size() > kShownError) shown.erase(0, shown.size() - kShownError);
  std::ranges::replace(shown, '\n', ' ');
  return shown;
}

}  // namespace

Question QuestionFor(const HostEnv& host, std::vector<std::string> argv) {
  Question question{.argv = std::move(argv), .env = host.ForAsking(), .cwd = host.DirectoryForAsking()};
  question.guest_writable = host.guest_writable;
  question.virtual_env = host.virtual_env;
  return question;
}

Result<std::string> Ask(const Question& question) {
  const std::string& program = question.argv[0];
  TRY_VOID(CheckRunnable(program, question.guest_writable, question.virtual_env));
  TRY(Pipe out, MakePipe());
  TRY(Pipe err, MakePipe());
  TRY(pid_t pid, Spawn(question, out.write.get(), err.write.get()));
  out.write.Reset();
  err.write.Reset();
  int status = 0;
  bool reaped = false;
  // The number stays ours until it is reaped here, so the group can be signalled by it; the group also holds what the
  // program left running.
  auto end = [&] {
    if (reaped) return;
    (void)::kill(-pid, SIGKILL);
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    reaped = true;
  };
  ScopeExit reap(end);

  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) return SysErr(errno, "watch '{}'", program);
  std::string answer;
  std::string complaint;
  Clock::time_point deadline = Clock::now() + question.timeout;
  // Its exit decides, not the end of its output: a process that it leaves behind may hold the pipes for ever.
  while (true) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      return Err(ErrorCode::kExhausted, "'{}' did not answer within {} ms", program, question.timeout.count());
    }
    std::array<pollfd, 3> fds = {pollfd{pidfd.get(), POLLIN, 0}, pollfd{out.read ? out.read.get() : -1, POLLIN, 0},
                                 pollfd{err.read ? err.read.get() : -1, POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), static_cast<int>(left)) < 0 && errno != EINTR) return SysErr(errno, "poll");
    Drain(out.read, answer);
    Drain(err.read, complaint);
    if (answer.size() > kMaxAnswer || complaint.size() > kMaxAnswer) {
      return Err(ErrorCode::kUnsupported, "'{}' answered with more than {} bytes", program, kMaxAnswer);
    }
    if ((fds[0].revents & POLLIN) != 0) break;
  }
  // It may have written between our last read and its exit.
  Drain(out.read, answer);
  Drain(err.read, complaint);
  // A zombie keeps its status through the kill of its group.
  end();
  if (WIFSIGNALED(status)) {
    return Err(ErrorCode::kUnsupported, "'{}' was ended by signal {}", program, WTERMSIG(status));
  }
  if (WEXITSTATUS(status) != 0) {
    return Err(ErrorCode::kUnsupported, "'{}' exited with {}: {}", program, WEXITSTATUS(status), LastLines(complaint));
  }
  return answer;
}

}  // namespace cella::language
