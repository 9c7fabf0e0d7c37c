#include "cli/repl_command.h"

#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/units.h"
#include "cli/json_session.h"
#include "cli/repl/history_place.h"
#include "cli/repl/interactive.h"
#include "cli/repl/piped_cell.h"
#include "language/host_path.h"
#include "session/engine.h"
#include "session/session.h"

namespace cella::cli {
namespace {

Result<session::SessionOptions> ParseSession(const ReplOptions& options, const ParsedPolicy& policy) {
  session::SessionOptions session;
  session.request.policy = policy.policy;
  session.request.preload = options.preload;
  session.request.checkpoint = *language::ParseCheckpointMode(options.checkpoint);
  session.queue = 4096;
  // Somebody sits before it; it ends when they leave.
  session.idle_timeout = std::chrono::hours(24 * 365);
  session.max_lifetime = std::chrono::hours(24 * 365);
  if (options.idle_timeout) {
    auto value = ParseDuration(*options.idle_timeout);
    if (!value) return std::unexpected(std::move(value.error()).WithContext("--idle-timeout"));
    session.idle_timeout = *value;
  }
  if (options.max_lifetime) {
    auto value = ParseDuration(*options.max_lifetime);
    if (!value) return std::unexpected(std::move(value.error()).WithContext("--max-lifetime"));
    session.max_lifetime = *value;
  }
  return session;
}

Result<InteractiveOptions> ParseInteractive(const ReplOptions& options, const ParsedPolicy& policy,
                                            const language::LanguageTable& table) {
  InteractiveOptions interactive;
  const language::Language* language = table.Find(options.lang);
  if (language == nullptr) {
    return Err(ErrorCode::kInvalid, "--lang: unknown language '{}': known are {}", options.lang, table.Names());
  }
  interactive.language = language->name;
  if (options.images) {
    auto images = language::ResolveHostDirectoryForCreation(*options.images, policy.guest_writable);
    if (!images) return std::unexpected(std::move(images.error()).WithContext("--images"));
    interactive.images = std::move(*images);
  }
  return interactive;
}

// With a terminal that can only print, nothing can be edited.
bool IsDumb() {
  const char* term = std::getenv("TERM");
  return term == nullptr || *term == '\0' || std::string_view(term) == "dumb";
}

async::Task<int> Converse(async::Loop& loop, session::Session& session, const session::Engine& engine,
                          const ReplOptions& options, const ParsedPolicy& policy, InteractiveOptions interactive) {
  if (options.json) {
    JsonSession conversation(loop, session, options.lang);
    int status = co_await conversation.Run();
    co_return status;
  }
  if (isatty(STDIN_FILENO) == 0) {
    RunView view(loop, interactive.images, nullptr);
    int status = co_await RunPipedCell(loop, session, view, interactive.language);
    co_return status;
  }
  if (!options.no_history) {
    auto place = HistoryPlace(policy.guest_writable);
    if (place) {
      interactive.history = std::move(*place);
    } else {
      std::fprintf(stderr, "cella: history is not kept: %s\n", place.error().message.c_str());
    }
  }
  Interactive conversation(loop, session, engine.table, policy.policy, std::move(interactive));
  int status = co_await conversation.Run();
  co_return status;
}

int Fail(const Error& error) {
  std::fprintf(stderr, "cella: %s\n", error.message.c_str());
  return error.code == ErrorCode::kNotFound ? kExitNotFound : kExitRejected;
}

}  // namespace

void DeclareReplOptions(CLI::App& command, ReplOptions* o) {
  command.footer(
      R"(On a terminal: type code, :help for commands. From a pipe: all of it is one cell, whose exit code it is.

  cella repl                               Python, with state, in a jail
  cella repl --preload numpy --memory 4g   more room, and numpy imported before the session begins
  cella repl --lang bash --workdir .       a shell that can write here and nowhere else
  echo '6 * 7' | cella repl                one cell)");
  command.add_option("-l,--lang", o->lang, "Language of what is typed (python); sessions may mix them");
  command.add_option("--preload", o->preload, "Python modules to import before the session begins (repeatable)")
      ->allow_extra_args(false);
  command.add_option("--checkpoint", o->checkpoint, "auto (default), always or off")
      ->check(CLI::IsMember({"auto", "always", "off"}));
  OptionalText(command, "--idle-timeout", &o->idle_timeout, "End the session after so long without a run");
  OptionalText(command, "--max-lifetime", &o->max_lifetime, "End the session after so long");
  CLI::Option* images = OptionalText(command, "--images", &o->images,
                                     "Save displayed pictures and pages in this directory (a private one)");
  CLI::Option* no_history = command.add_flag("--no-history", o->no_history, "Neither read nor keep what is typed");
  command
      .add_flag("--json", o->json, "One JSON request a line on standard input, one answer a line on standard output")
      ->excludes(images)
      ->excludes(no_history);
  DeclarePolicyOptions(command, &o->policy);
}

int ReplCommand(const ReplOptions& options) {
  auto policy = ParsePolicy(options.policy);
  if (!policy) return Fail(policy.error());
  auto session_options = ParseSession(options, *policy);
  if (!session_options) return Fail(session_options.error());
  async::Loop loop;
  auto engine = session::MakeEngine(loop, policy->executor);
  if (!engine) return Fail(engine.error());
  auto interactive = ParseInteractive(options, *policy, (*engine)->table);
  if (!interactive) return Fail(interactive.error());
  if (!options.json && isatty(STDIN_FILENO) == 1 && IsDumb()) {
    return Fail(Error{ErrorCode::kUnsupported,
                      "lines cannot be edited on this terminal (TERM): pipe code in, or use --json", 0});
  }
  auto main = [&]() -> async::Task<int> {
    auto session = co_await session::Session::Open(loop, *(*engine)->executor, std::move(*session_options));
    if (!session) co_return Fail(session.error());
    int status = co_await Converse(loop, **session, **engine, options, *policy, std::move(*interactive));
    co_await (*session)->Close();
    co_return status;
  };
  return loop.Run(main());
}

}  // namespace cella::cli
