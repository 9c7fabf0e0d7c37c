#include "cli/repl_command.h"

#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/units.h"
#include "cli/install_progress.h"
#include "cli/json_session.h"
#include "cli/repl/history_place.h"
#include "cli/repl/interactive.h"
#include "cli/repl/piped_cell.h"
#include "cli/storage_use.h"
#include "engine/engine.h"
#include "installer/session_packages.h"
#include "language/host_path.h"
#include "policy/keys.h"
#include "session/session.h"

namespace cella::cli {
namespace {

session::SessionOptions SessionOf(const ParsedPolicy& policy) {
  session::SessionOptions session;
  session.guest = policy.spec;
  session.queue = 4096;
  // A user sits at the terminal; the session ends when they leave.
  if (!policy.given.Has("idle_timeout")) session.guest.idle_timeout = std::chrono::hours(24 * 365);
  if (!policy.given.Has("max_lifetime")) session.guest.max_lifetime = std::chrono::hours(24 * 365);
  return session;
}

Result<InteractiveOptions> ParseInteractive(const ReplOptions& options, const ParsedPolicy& policy,
                                            const language::LanguageTable& table) {
  InteractiveOptions interactive;
  interactive.language = table.Find(options.lang)->name;
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

async::Task<int> Converse(async::Loop& loop, session::Session& session, const engine::Engine& engine,
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
  Interactive conversation(loop, session, engine.table, policy.spec.policy, std::move(interactive));
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
  command.add_option("-l,--lang", o->lang, "Language of what is typed (python); sessions may mix them")
      ->check(EmptinessOf);
  CLI::Option* images = OptionalText(command, "--images", &o->images,
                                     "Save displayed pictures and pages in this directory (a private one)");
  CLI::Option* no_history = command.add_flag("--no-history", o->no_history, "Neither read nor keep what is typed");
  images->check(EmptinessOf);
  command
      .add_flag("--json", o->json, "One JSON request a line on standard input, one answer a line on standard output")
      ->excludes(images)
      ->excludes(no_history);
  DeclarePolicyOptions(command, true, &o->policy);
  DeclarePackageOptions(command, &o->packages);
}

int ReplCommand(const ReplOptions& options) {
  auto policy = ParsePolicy(options.policy);
  if (!policy) return Fail(policy.error());
  async::Loop loop;
  auto used = UseEnvironment(loop, options.packages, "", &policy->spec.policy);
  if (!used) return Fail(used.error());
  auto& preload = policy->spec.preload;
  preload.insert(preload.end(), used->preload.begin(), used->preload.end());
  // It is no virtual environment of the caller's.
  if (used->ready) policy->spec.environment.packages = used->ready->manifest.requested;
  session::SessionOptions session_options = SessionOf(*policy);
  const SessionSpec& spec = policy->spec;
  const bool takes_packages = policy::TakesPackages(spec);
  installer::PackageService service(loop, {.state_dir = {}, .of_the_user = true, .rules = {}});
  auto requirements = RequirementsOf(spec.storage);
  if (!requirements) return Fail(requirements.error());
  auto packages = std::make_shared<installer::SessionPackages>(service, spec.policy, std::move(*requirements), true);
  if (takes_packages) session_options.spaces[run::kPackagesSpace] = packages;
  engine::EngineOptions engine_options{.layers = service.layers(), .opened = used->opened};
  if (policy::Takes(spec.executor, "kernel")) {
    engine_options.opened.readable = service.ready();
    engine_options.kernel_environments = &service;
  }
  auto engine = engine::MakeEngine(loop, spec.executor, std::move(engine_options));
  if (!engine) return Fail(engine.error());
  if (auto known = CheckLanguage(options.lang, (*engine)->table); !known) {
    (void)Fail(known.error());
    return kExitWrongCommandLine;
  }
  auto interactive = ParseInteractive(options, *policy, (*engine)->table);
  if (!interactive) return Fail(interactive.error());
  if (!options.json && isatty(STDIN_FILENO) == 1 && IsDumb()) {
    return Fail(Error{ErrorCode::kUnsupported,
                      "lines cannot be edited on this terminal (TERM): pipe code in, or use --json", 0});
  }
  StorageUse storage;
  auto main = [&]() -> async::Task<int> {
    auto stored = co_await storage.Open(loop, spec, &session_options.spaces);
    if (!stored) co_return Fail(stored.error());
    InstallProgress progress;  // of an image that is fetched
    session_options.guest.progress = [&progress](const std::string& line) { progress.Show(line); };
    auto session = co_await session::Session::Open(loop, *(*engine)->executor, std::move(session_options));
    progress.Clear();
    if (!session) co_return Fail(session.error());
    storage.Attach(**session);
    packages->Attach([&](std::string directory) { return (*session)->UsePackages(std::move(directory)); },
                     [&] { return (*session)->DescribePython(); });
    if (takes_packages) interactive->packages = packages.get();
    int status = co_await Converse(loop, **session, **engine, options, *policy, std::move(*interactive));
    packages->Stop();
    const auto& details = (*session)->isolation().details;
    if (auto kept = details.find("kept"); kept != details.end() && !options.json) {
      std::fprintf(stderr, "cella: the container stays: %s\n", kept->second.c_str());
    }
    co_await (*session)->Close();
    storage.Detach();
    co_await packages->Close();
    co_await service.Close();
    co_return status;
  };
  return loop.Run(main());
}

}  // namespace cella::cli
