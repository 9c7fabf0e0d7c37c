// What is of the whole process: the engine that sessions share, its end at exit(), and what fork() leaves to a child.
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <list>
#include <mutex>

#include "library/handles.h"

namespace cella::library {
namespace {

// exit() waits for the end of the guests so long. What is left then ends with the process, by the parent-death signal.
constexpr auto kExitPatience = std::chrono::seconds(5);

struct OfProcess {
  std::mutex mutex;
  std::shared_ptr<Host> shared;
  std::list<std::weak_ptr<Host>> hosts;
  bool registered = false;
};

// Never destroyed: other threads may still call while the process exits.
OfProcess& State() {
  static auto* state = new OfProcess;
  return *state;
}

void EndAll() {
  std::vector<std::shared_ptr<Host>> living;
  {
    const std::scoped_lock lock(State().mutex);
    for (const auto& each : State().hosts) {
      if (auto host = each.lock()) living.push_back(std::move(host));
    }
  }
  const auto deadline = std::chrono::steady_clock::now() + kExitPatience;
  for (const std::shared_ptr<Host>& host : living) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const bool ended = host->is_ours() && host->End(std::max(left, std::chrono::milliseconds(0)));
    // Its thread goes on while the process exits, and must find it.
    if (!ended) (void)new std::shared_ptr<Host>(host);
  }
}

// With the lock held.
void RegisterOnce() {
  if (std::exchange(State().registered, true)) return;
  (void)atexit(EndAll);
  // A child must not inherit a locked mutex.
  (void)pthread_atfork([] { State().mutex.lock(); }, [] { State().mutex.unlock(); }, [] { State().mutex.unlock(); });
}

// PREFIX of PREFIX/lib/libcella.so.0, or of a program that contains us: PREFIX/bin/NAME.
Result<std::string> Prefix() {
  if (const char* home = secure_getenv("CELLA_HOME"); home != nullptr && *home != '\0') return std::string(home);
  Dl_info self = {};
  if (dladdr(reinterpret_cast<const void*>(&EndAll), &self) == 0 || self.dli_fname == nullptr) {
    return Err(ErrorCode::kNotFound, "the place of libcella is not known: set CELLA_HOME to its prefix");
  }
  std::array<char, PATH_MAX> real;
  if (realpath(self.dli_fname, real.data()) == nullptr) {
    return Err(ErrorCode::kNotFound, "'{}' is gone: set CELLA_HOME to the prefix of cella", self.dli_fname);
  }
  std::string prefix = real.data();
  for (int i = 0; i < 2 && prefix.contains('/'); ++i) prefix.resize(prefix.rfind('/'));
  return prefix;
}

Result<std::shared_ptr<Host>> Make() {
  TRY(std::string prefix, Prefix());
  auto installation = engine::FindInstallationIn(prefix);
  if (!installation) {
    return Err(ErrorCode::kNotFound, "{}; libcella looks below '{}', or below CELLA_HOME", installation.error().message,
               prefix);
  }
  TRY(std::shared_ptr<Host> host, Host::Start(std::move(*installation), {}));
  RegisterOnce();
  std::erase_if(State().hosts, [](const auto& each) { return each.expired(); });
  State().hosts.push_back(host);
  return host;
}

}  // namespace

Result<std::shared_ptr<Host>> SharedHost() {
  const std::scoped_lock lock(State().mutex);
  if (State().shared && !State().shared->is_ours()) {
    // The parent's, in a child: not even to be destroyed.
    (void)new std::shared_ptr<Host>(std::move(State().shared));
    State().shared = nullptr;
  }
  if (!State().shared) {
    TRY(State().shared, Make());
  }
  return State().shared;
}

Result<std::shared_ptr<Host>> NewHost() {
  const std::scoped_lock lock(State().mutex);
  return Make();
}

}  // namespace cella::library
