// The inprocess executor of the library: sessions in the interpreter of the application's own process, without any
// isolation. What runs there is the Python package's code (cella/_inprocess). Lives on the loop.
#pragma once

#include <signal.h>

#include "async/blocking_pool.h"
#include "engine/installation.h"
#include "language/host_env.h"
#include "language/table.h"
#include "run/executor.h"

namespace cella::library {

class PythonExecutor : public run::Executor {
 public:
  // `tmpdir` has the sessions' private directories. `table` outlives the executor. `signals`: the mask of threads that
  // run code.
  PythonExecutor(async::Loop& loop, engine::Installation installation, language::HostEnv host, std::string tmpdir,
                 const language::LanguageTable& table, const sigset_t& signals);

  async::Task<Result<std::unique_ptr<run::Guest>>> Open(run::GuestSpec spec, const RunSpec* only,
                                                        run::StopToken stop) override;

 private:
  async::Loop& loop_;
  const engine::Installation installation_;
  const language::HostEnv host_;
  const std::string tmpdir_;
  const language::LanguageTable& table_;
  const sigset_t signals_;
  async::BlockingPool pool_;  // loads the interpreter, and decodes large frames
};

}  // namespace cella::library
