#include "library/host.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>

#include "async/post.h"
#include "base/scope_exit.h"
#include "confine/ask_program.h"
#include "engine/source_check.h"
#include "language/host_env.h"
#include "library/embedded/python_executor.h"
#include "library/session_core.h"

namespace cella::library {

Host::Host(engine::Installation installation, executor::PoolLimits pool)
    : installation_(std::move(installation)), pool_(pool), pid_(getpid()), stopping_(loop_), tasks_(loop_) {}

Result<std::shared_ptr<Host>> Host::Start(engine::Installation installation, executor::PoolLimits pool) {
  std::shared_ptr<Host> host(new Host(std::move(installation), pool));
  TRY_VOID(host->StartThread());
  return host;
}

Host::~Host() {
  if (!is_ours()) {
    // A child of fork has no such threads.
    if (thread_.joinable()) thread_.detach();
    (void)storages_.release();
    (void)work_.release();
    return;
  }
  (void)End(std::chrono::milliseconds::max());
}

Status Host::StartThread() {
  // A new thread inherits the mask, so that there is no moment in which it takes a signal of the application's. SIGPIPE
  // and SIGXFSZ stay pending there: what cannot be written is an answer of write().
  sigset_t all, before;
  sigfillset(&all);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&all, fault);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  signals_ = before;
  const ScopeExit restore([&] { (void)pthread_sigmask(SIG_SETMASK, &before, nullptr); });
  try {
    thread_ = std::thread([this] { Body(); });
  } catch (const std::system_error& error) {
    ended_ = true;
    return SysErr(error.code().value(), "start a thread");
  }
  (void)pthread_setname_np(thread_.native_handle(), "cella");
  return {};
}

bool Host::is_ours() const { return getpid() == pid_; }

Status Host::CheckUsable() const {
  if (is_ours()) return {};
  return Err(ErrorCode::kClosed, "this engine belongs to process {}, of which this one is a fork: open a new session",
             pid_);
}

bool Host::Post(std::function<void()> work) {
  if (!is_ours()) return false;
  const std::scoped_lock lock(mutex_);
  if (!accepting_) return false;
  async::Post(loop_, std::move(work));
  return true;
}

Status Host::Begin(std::function<async::Task<Status>()> work, std::function<void(Error)> failed) {
  TRY_VOID(CheckUsable());
  auto serve = [](std::function<async::Task<Status>()> task, std::function<void(Error)> tell) -> async::Task<void> {
    auto done = co_await async::Caught(task());
    if (!done) tell(std::move(done.error()));
  };
  auto start = [this, serve, work = std::move(work), failed = std::move(failed)]() mutable {
    tasks_.Add(serve(std::move(work), std::move(failed)));
  };
  if (!Post(std::move(start))) return Err(ErrorCode::kClosed, "the engine has ended");
  return {};
}

void Host::Body() {
  loop_.Run(Main());
  const std::scoped_lock lock(mutex_);
  ended_ = true;
  ended_changed_.notify_all();
}

bool Host::End(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  if (accepting_) {
    accepting_ = false;
    async::Post(loop_, [this] { stopping_.Set(); });
  }
  auto ended = [&] { return ended_; };
  if (patience == std::chrono::milliseconds::max()) {
    ended_changed_.wait(lock, ended);
  } else if (!ended_changed_.wait_for(lock, patience, ended)) {
    return false;
  }
  std::thread thread = std::move(thread_);
  lock.unlock();
  if (thread.joinable()) thread.join();
  return true;
}

async::Task<void> Host::Main() {
  (void)co_await stopping_.Wait();
  // A session that was being opened comes while the others close.
  do {
    async::TaskGroup closing(loop_);
    for (const auto& session : std::list(sessions_)) closing.Add(session->Close());
    (void)co_await async::Caught(closing.Join());
    (void)co_await async::Caught(tasks_.Join());
  } while (!sessions_.empty());
  storages_.reset();
  work_.reset();
  for (auto& engine : engines_) {
    if (engine) (void)co_await async::Caught(engine->executor->Close());
    engine.reset();
  }
}

Result<run::Executor*> Host::ExecutorOf(ExecutorKind kind) {
  std::unique_ptr<engine::Engine>& engine = engines_[IndexOf(kind)];
  if (!engine) {
    TRY(engine, MakeEngine(kind));
  }
  return engine->executor.get();
}

storage::Service& Host::storages() {
  if (!storages_) {
    auto check = engine::MakeSourceCheck({.launcher = installation_.launcher});
    storages_ = std::make_unique<storage::Service>(loop_, std::move(check));
  }
  return *storages_;
}

async::BlockingPool& Host::work() {
  if (!work_) work_ = std::make_unique<async::BlockingPool>(loop_, async::BlockingPool::Options{.threads = 1});
  return *work_;
}

Result<std::unique_ptr<engine::Engine>> Host::MakeEngine(ExecutorKind kind) {
  if (kind == kInThisProcess) {
    auto made = std::make_unique<engine::Engine>();
    TRY(made->table, language::LanguageTable::Load(installation_.languages));
    language::HostEnv host = language::HostEnv::FromProcess("");
    host.asker = confine::MakeProgramAsker(installation_.launcher);
    const char* tmpdir = std::getenv("TMPDIR");
    made->executor =
        std::make_unique<PythonExecutor>(loop_, installation_, std::move(host),
                                         tmpdir == nullptr || *tmpdir == '\0' ? "/tmp" : tmpdir, made->table, signals_);
    return made;
  }
  if (!guests_) guests_ = engine::MakeGuestDirectories();
  engine::EngineOptions options;
  options.guest_directories = guests_;
  options.pool = pool_;
  options.installation = installation_;
  options.placement = os::Placement::kStays;
  return engine::MakeEngine(loop_, kind, std::move(options));
}

void Host::Remove(const SessionCore& session) {
  std::erase_if(sessions_, [&](const auto& each) { return each.get() == &session; });
}

}  // namespace cella::library
