// The part of an engine that lives in an application's process: a thread that runs the loop, the executors that were
// asked for, and the sessions. Any thread may call; what works on the loop says so. Every process is started from the
// loop's thread, because the parent-death signal fires when the thread that started a process ends.
#pragma once

#include <signal.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "async/blocking_pool.h"
#include "async/caught.h"
#include "async/event.h"
#include "async/task.h"
#include "async/task_group.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/installation.h"
#include "storage/service.h"

namespace cella::library {

class SessionCore;

// The kind whose code runs in the application's own process.
inline constexpr ExecutorKind kInThisProcess = ExecutorKind::kInProcess;

class Host {
 public:
  // Starts the thread. It takes no signal.
  static Result<std::shared_ptr<Host>> Start(engine::Installation installation, executor::PoolLimits pool);
  // Ends everything and waits for it. Never on the loop's thread: what runs there holds no reference.
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  // False in a child that the application forked: it has neither the thread nor the guests, and must not touch them.
  bool is_ours() const;

  // Calls on the loop, in order. False: the engine has ended.
  bool Post(std::function<void()> work);
  // Runs a task on the loop and waits for its answer. kClosed: the engine has ended, or belongs to another process.
  template <typename T>
  Result<T> Call(std::function<async::Task<Result<T>>()> work);

  // The same without waiting: on the loop, `failed` gets what the task fails with.
  Status Begin(std::function<async::Task<Status>()> work, std::function<void(Error)> failed);

  // Closes all sessions and ends the thread, but waits no longer than this. False: it is still ending.
  bool End(std::chrono::milliseconds patience);

  // These on the loop.
  async::Loop& loop() { return loop_; }
  async::TaskGroup& tasks() { return tasks_; }
  Result<run::Executor*> ExecutorOf(ExecutorKind kind);
  storage::Service& storages();
  async::BlockingPool& work();  // for short work that would hold up the loop
  void Add(std::shared_ptr<SessionCore> session) { sessions_.push_back(std::move(session)); }
  void Remove(const SessionCore& session);

 private:
  Host(engine::Installation installation, executor::PoolLimits pool);

  template <typename T>
  struct Ticket {
    std::mutex mutex;
    std::condition_variable answered;
    std::optional<Result<T>> answer;
  };
  template <typename T>
  static async::Task<void> Serve(std::function<async::Task<Result<T>>()> work, std::shared_ptr<Ticket<T>> ticket);

  Status StartThread();
  Result<std::unique_ptr<engine::Engine>> MakeEngine(ExecutorKind kind);
  void Body();
  async::Task<void> Main();
  Status CheckUsable() const;

  const engine::Installation installation_;
  const executor::PoolLimits pool_;
  const pid_t pid_;
  sigset_t signals_ = {};  // the mask of the thread that made this
  async::Loop loop_;
  // Of the loop's thread:
  async::Event stopping_;
  async::TaskGroup tasks_;
  std::shared_ptr<language::GuestDirectories> guests_;  // of all engines
  std::array<std::unique_ptr<engine::Engine>, kExecutorCount> engines_;
  std::unique_ptr<storage::Service> storages_;  // with threads of its own; outlives the sessions
  std::unique_ptr<async::BlockingPool> work_;   // outlives the sessions
  std::list<std::shared_ptr<SessionCore>> sessions_;
  // Of all threads:
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  bool accepting_ = true;
  bool ended_ = false;
  std::thread thread_;
};

template <typename T>
async::Task<void> Host::Serve(std::function<async::Task<Result<T>>()> work, std::shared_ptr<Ticket<T>> ticket) {
  auto answer = co_await async::Caught(work());
  work = nullptr;  // what it refers to goes before its caller continues
  const std::scoped_lock lock(ticket->mutex);
  ticket->answer.emplace(std::move(answer));
  ticket->answered.notify_all();
}

template <typename T>
Result<T> Host::Call(std::function<async::Task<Result<T>>()> work) {
  TRY_VOID(CheckUsable());
  auto ticket = std::make_shared<Ticket<T>>();
  auto serve = [this, ticket, work = std::move(work)]() mutable { tasks_.Add(Serve<T>(std::move(work), ticket)); };
  if (!Post(std::move(serve))) return Err(ErrorCode::kClosed, "the engine has ended");
  std::unique_lock lock(ticket->mutex);
  ticket->answered.wait(lock, [&] { return ticket->answer.has_value(); });
  return std::move(*ticket->answer);
}

}  // namespace cella::library
