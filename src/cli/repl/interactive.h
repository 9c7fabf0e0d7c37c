// `cella repl` for a person at a terminal: reads entries with an editor, runs them in the session, and listens to the
// terminal meanwhile. The loop never blocks: the session's own timers go on while the user types nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/task_group.h"
#include "cella/policy.h"
#include "cli/repl/colon_command.h"
#include "cli/repl/history.h"
#include "cli/repl/line_editor.h"
#include "cli/repl/mailbox.h"
#include "cli/repl/run_view.h"
#include "cli/repl/screen.h"
#include "cli/repl/terminal.h"
#include "installer/session_packages.h"
#include "language/table.h"
#include "session/session.h"

namespace cella::cli {

struct InteractiveOptions {
  std::string language = "python";
  std::string images;                              // where displays are saved; empty: a private directory
  std::string history;                             // the file; empty: none
  installer::SessionPackages* packages = nullptr;  // outlives it; null: the session takes none
};

class Interactive {
 public:
  // All outlive this.
  Interactive(async::Loop& loop, session::Session& session, const language::LanguageTable& table, const Policy& policy,
              InteractiveOptions options);

  // Until the user leaves, the terminal goes away, a stop signal comes or the session ends. The exit status.
  async::Task<int> Run();

 private:
  static constexpr size_t kMaxTypedAhead = 65536;

  // Reading (interactive.cc).
  async::Task<void> Converse();
  async::Task<void> Watch();
  async::Task<void> AwaitStopSignal();
  async::Task<std::optional<std::string>> ReadEntry();
  async::Task<bool> EndsEntry(LineEditor& editor);
  async::Task<void> Complete(LineEditor& editor);
  async::Task<void> Draw(const LineEditor& editor, std::string prompt);
  async::Task<void> Print(std::string_view text);
  void Leave(const Message& reason);

  // Running (interactive_run.cc).
  async::Task<void> RunCell(std::string language, std::string code);
  async::Task<void> AwaitEnd();
  async::Task<bool> AnswerInput(InputWanted wanted);
  async::Task<void> AskWhetherItEnded();

  // Commands (interactive_commands.cc).
  async::Task<void> Obey(ColonCommand command);
  async::Task<void> ChangeState(const ColonCommand& command);
  async::Task<void> ChangePackages(std::string argument);
  async::Task<void> InstallPackages(std::string verb, std::vector<std::string> words);
  async::Task<Status> AddPackages(std::vector<std::string> words, run::StopToken stop);
  async::Task<Status> RemovePackages(std::vector<std::string> names, run::StopToken stop);
  async::Task<void> Load(std::string path);
  std::string Info() const;

  async::Loop& loop_;
  session::Session& session_;
  const language::LanguageTable& table_;
  const Policy& policy_;
  InteractiveOptions options_;
  std::string language_;
  Mailbox mailbox_;
  RunView view_;
  History history_;
  Screen screen_;
  async::TaskGroup watchers_;
  std::unique_ptr<Terminal> terminal_;
  std::shared_ptr<session::Run> run_;  // the last one
  std::optional<int> status_;          // we leave with it
};

}  // namespace cella::cli
