// A session in the application's own interpreter, behind a socket: the package's code is at the other end, in threads
// of the same process, and may hold the interpreter's lock for as long as it likes. So every wait here has a bound.
// A private directory holds the socket through which the code calls the application, and large values. On the loop.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "async/blocking_pool.h"
#include "async/ready_set.h"
#include "async/task_group.h"
#include "executor/inprocess/plain_guest.h"
#include "executor/local/scratch.h"
#include "language/table.h"
#include "os/directory.h"
#include "run/executor.h"
#include "runner/channel.h"
#include "runner/protocol.h"

namespace cella::library {

// What all guests share; outlives them.
struct PythonPlace {
  async::Loop& loop;
  async::BlockingPool& pool;
  const language::LanguageTable& table;
  const std::string& tmpdir;
  void (*serve)(int socket);
};

// The socket of one session.
struct PythonLink {
  runner::Channel channel;
  async::ReadySet ready;  // holds the channel
};

class PythonGuest : public run::Guest, public run::Assistant, public run::Resettable, public run::CallSocket {
 public:
  static async::Task<Result<std::unique_ptr<run::Guest>>> Open(PythonPlace place, Isolation isolation,
                                                               run::GuestSpec spec);

  const run::Traits& traits(std::string_view language) const override;
  const Isolation& isolation() const override { return isolation_; }
  bool takes_values(std::string_view language) const override;
  async::Task<Result<std::unique_ptr<run::Execution>>> Begin(const run::BlockTurn& turn, run::StopToken stop) override;
  async::Task<Result<run::StateReport>> AfterBlock(const run::RunFacts& facts, run::EventSink& sink) override;
  async::Task<void> Close() override;
  async::Task<run::GuestUsage> MeasureUsage() override;

  run::Assistant* assistant() override { return this; }
  async::Task<Result<std::string>> Ask(const std::string& language, CodeQuestion question, std::string code,
                                       size_t cursor) override;
  run::Resettable* resettable() override { return this; }
  async::Task<Status> Reset() override;
  run::CallSocket* call_socket() override { return this; }
  async::Task<Result<UniqueFd>> Listen() override;

 private:
  PythonGuest(PythonPlace place, Isolation isolation, run::GuestSpec spec, executor::LocalScratch scratch,
              os::Directory directory)
      : place_(place),
        isolation_(std::move(isolation)),
        spec_(std::move(spec)),
        scratch_(std::move(scratch)),
        directory_(std::move(directory)) {}

  std::string CallSocketPath() const { return scratch_.path() + "/calls"; }
  Status CheckLanguage(const std::string& asked) const { return executor::CheckIsPython(place_.table, asked); }
  std::string EncodeConfiguration() const;
  async::Task<Status> EnsureLink();
  async::Task<Status> Connect();
  async::Task<void> EndLink();
  async::Task<Result<std::string>> Exchange(std::string question);
  async::Task<Status> PlaceVariables(const RunSpec& run, std::vector<runner::Value>* values);

  const PythonPlace place_;
  const Isolation isolation_;
  const run::GuestSpec spec_;
  const executor::LocalScratch scratch_;
  const os::Directory directory_;  // the same
  std::vector<std::string> value_files_;
  std::unique_ptr<PythonLink> link_;
  bool lost_ = false;  // of the block that is on: its variables are gone
};

}  // namespace cella::library
