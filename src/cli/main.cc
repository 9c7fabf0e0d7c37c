// The `cella` command: parses the command line and hands over to one command each.
#include <fcntl.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <vector>

#include "cli/bench_command.h"
#include "cli/doctor_command.h"
#include "cli/env_command.h"
#include "cli/kernels_command.h"
#include "cli/repl_command.h"
#include "cli/run_command.h"
#include "cli/serve_command.h"
#include "cli/session_command.h"
#include "cli/token_command.h"
#include "cli/workflows_command.h"

namespace {

constexpr const char* kVersion = CELLA_VERSION;
constexpr rlim_t kEnoughFiles = 1 << 20;

// What follows the first "--" belongs to the guest's program and is none of our options.
std::vector<std::string> TakeProgramArguments(std::vector<std::string>* arguments) {
  auto separator = std::ranges::find(*arguments, "--");
  // "-c --" runs the code "--".
  if (separator != arguments->begin() && separator != arguments->end()) {
    const std::string& before = *(separator - 1);
    if (before == "-c" || before == "--code") separator = std::find(separator + 1, arguments->end(), "--");
  }
  if (separator == arguments->end()) return {};
  std::vector<std::string> program(separator + 1, arguments->end());
  arguments->erase(separator, arguments->end());
  return program;
}

// A descriptor of ours must never take the place of a closed standard stream.
void EnsureStandardStreams() {
  for (int fd = 0; fd < 3; ++fd) {
    // Opened the wrong way round on purpose: a closed stream stays one that cannot be read or written.
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
  }
}

int Main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  cella::cli::RunOptions run_options;
  run_options.args = TakeProgramArguments(&arguments);

  CLI::App app("Runs the code that an AI agent wrote: safely, statefully and fast.", "cella");
  app.require_subcommand(1);
  app.set_version_flag("--version", kVersion);
  CLI::App* run = app.add_subcommand("run", "Run a file or a snippet, by default in a jail of its own");
  cella::cli::DeclareRunOptions(*run, &run_options);
  cella::cli::DoctorOptions doctor_options;
  doctor_options.version = kVersion;
  CLI::App* doctor = app.add_subcommand("doctor", "Tell what this machine can enforce, and how to fix what it can't");
  doctor->add_flag("--json", doctor_options.json, "Print one JSON object");
  cella::cli::BenchOptions bench_options;
  CLI::App* bench = app.add_subcommand("bench", "Measure this machine, with the alternatives beside it");
  cella::cli::DeclareBenchOptions(*bench, &bench_options);
  cella::cli::ReplOptions repl_options;
  CLI::App* repl = app.add_subcommand("repl", "Talk to a session that keeps its state");
  cella::cli::DeclareReplOptions(*repl, &repl_options);
  cella::cli::ServeCommandOptions serve_options;
  CLI::App* serve = app.add_subcommand("serve", "Offer sessions to other programs over HTTP");
  cella::cli::DeclareServeOptions(*serve, &serve_options);
  cella::cli::SessionOptions session_options;
  CLI::App* session = app.add_subcommand("session", "Use the sessions of a running server");
  cella::cli::DeclareSessionOptions(*session, &session_options);
  cella::cli::TokenOptions token_options;
  CLI::App* token = app.add_subcommand("token", "Make, list and remove the tokens of a server's clients");
  cella::cli::DeclareTokenOptions(*token, &token_options);
  cella::cli::EnvOptions env_options;
  CLI::App* env = app.add_subcommand("env", "Make, list and remove Python environments");
  cella::cli::DeclareEnvOptions(*env, &env_options);
  cella::cli::KernelsOptions kernels_options;
  CLI::App* kernels = app.add_subcommand("kernels", "List the installed Jupyter kernels");
  cella::cli::DeclareKernelsOptions(*kernels, &kernels_options);
  cella::cli::WorkflowsOptions workflows_options;
  CLI::App* workflows = app.add_subcommand("workflows", "List, show and approve the workflows of a storage");
  cella::cli::DeclareWorkflowsOptions(*workflows, &workflows_options);
  CLI::App* version = app.add_subcommand("version", "Print the version");

  if (arguments.empty()) {
    std::fputs(app.help().c_str(), stderr);
    return 2;
  }
  const std::string word = arguments.front();
  const auto is_named = [&](const CLI::App* command) { return command->get_name() == word; };
  if (!word.starts_with('-') && app.get_subcommands(is_named).empty()) {
    const bool is_file = access(word.c_str(), F_OK) == 0;
    const std::string instead = is_file ? "cella run " + word : "cella --help";
    std::fprintf(stderr, "cella: there is no command '%s'; %s '%s'\n", word.c_str(),
                 is_file ? "a file is run by" : "they are listed by", instead.c_str());
    return 2;
  }
  std::ranges::reverse(arguments);  // the order that CLI11 wants
  try {
    app.parse(arguments);
  } catch (const CLI::ExtrasError& error) {
    app.exit(error);
    if (run->parsed()) std::fputs("Options of the program follow '--': cella run script.py -- -v\n", stderr);
    return 2;
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error) : (app.exit(error), 2);
  }
  if (version->parsed()) {
    std::printf("cella %s\n", kVersion);
    return 0;
  }
  if (doctor->parsed()) return cella::cli::DoctorCommand(doctor_options);
  if (bench->parsed()) return cella::cli::BenchCommand(bench_options);
  if (serve->parsed()) return cella::cli::ServeCommand(serve_options);
  if (session->parsed()) return cella::cli::SessionCommand(session_options);
  if (repl->parsed()) return cella::cli::ReplCommand(repl_options);
  if (env->parsed()) return cella::cli::EnvCommand(env_options);
  if (kernels->parsed()) return cella::cli::KernelsCommand(kernels_options);
  if (workflows->parsed()) return cella::cli::WorkflowsCommand(workflows_options);
  if (token->parsed()) return cella::cli::TokenCommand(token_options);
  return cella::cli::RunCommand(run_options);
}

}  // namespace

int main(int argc, char** argv) {
  // Never with more rights than the caller has: it reads files and mounts directories as the caller says.
  if (getauxval(AT_SECURE) != 0) return 126;
  EnsureStandardStreams();
  // A mask that we inherited would keep signals from us.
  sigset_t none;
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, nullptr);
  // Each session needs some twenty descriptors; a guest gets its own limit.
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < kEnoughFiles) {
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, kEnoughFiles);
    (void)setrlimit(RLIMIT_NOFILE, &files);
  }
  // What cannot be written is an answer of write(), not our end.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  try {
    return Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cella: internal error: %s\n", error.what());
    return 126;
  }
}
