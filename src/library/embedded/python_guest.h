// A session in the application's own interpreter, behind a socket: the package's code is at the other end, in threads
// of the same process, and may hold the interpreter's lock for as long as it likes. So every wait here has a bound.
// Lives on the loop.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "async/blocking_pool.h"
#include "async/ready_set.h"
#include "async/task_group.h"
#include "language/table.h"
#include "run/executor.h"
#include "runner/channel.h"
#include "runner/protocol.h"

namespace cella::library {

// What all guests share; outlives them.
struct PythonPlace {
  async::Loop& loop;
  async::BlockingPool& pool;
  const language::LanguageTable& table;
  void (*serve)(int socket);
};

// The socket of one session.
struct PythonLink {
  runner::Channel channel;
  async::ReadySet ready;  // holds the channel
};

class PythonGuest : public run::Guest, public run::Assistant, public run::Resettable {
 public:
  static async::Task<Result<std::unique_ptr<run::Guest>>> Open(PythonPlace place, Isolation isolation);

  const run::Traits& traits(std::string_view language) const override;
  const Isolation& isolation() const override { return isolation_; }
  async::Task<Result<std::unique_ptr<run::Execution>>> Begin(const run::BlockTurn& turn, run::StopToken stop) override;
  async::Task<Result<run::StateReport>> AfterBlock(const run::RunFacts& facts, run::EventSink& sink) override;
  async::Task<void> Close() override;
  async::Task<run::GuestUsage> MeasureUsage() override;

  run::Assistant* assistant() override { return this; }
  async::Task<Result<std::string>> Ask(const std::string& language, CodeQuestion question, std::string code,
                                       size_t cursor) override;
  run::Resettable* resettable() override { return this; }
  async::Task<Status> Reset() override;

 private:
  PythonGuest(PythonPlace place, Isolation isolation) : place_(place), isolation_(std::move(isolation)) {}

  Status CheckLanguage(const std::string& asked) const;
  async::Task<Status> EnsureLink();
  async::Task<Status> Connect();
  async::Task<void> EndLink();
  async::Task<Result<std::string>> Exchange(std::string question);

  const PythonPlace place_;
  const Isolation isolation_;
  std::unique_ptr<PythonLink> link_;
  bool lost_ = false;  // of the block that is on: its variables are gone
};

}  // namespace cella::library
