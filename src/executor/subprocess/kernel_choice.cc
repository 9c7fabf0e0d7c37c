#include "executor/subprocess/kernel_choice.h"

#include <algorithm>
#include <filesystem>

#include "confine/jail_env_vars.h"
#include "confine/program_guest.h"

namespace cella::executor {
namespace {

// The plan of a block, of which only the interpreter counts, with its variables and what a jail shows for it.
async::Task<Result<language::Plan>> PlanBlock(confine::LaunchContext& context, const Policy& policy,
                                              std::string_view language, language::Destination destination,
                                              const std::string& scratch) {
  RunSpec run;
  run.blocks.push_back({std::string(language), ""});
  const run::BlockTurn turn{run, run.blocks.front(), 0, policy.limits};
  auto plan = co_await confine::MakePlan(context, policy, turn, destination, scratch);
  co_return plan;
}

// A jail shows what the language needs of the host (R's settings are in /etc), as for a program.
async::Task<void> AddLanguage(confine::LaunchContext& context, const Policy& policy, const std::string& language,
                              language::Plan* shown) {
  auto plan = co_await PlanBlock(context, policy, language, language::Destination::kJail, "/tmp");
  if (!plan) co_return;  // the kernel may need no other program
  const auto add = [](const std::vector<std::string>& from, std::vector<std::string>* to) {
    for (const std::string& each : from) {
      if (std::ranges::find(*to, each) == to->end()) to->push_back(each);
    }
  };
  add(plan->visible, &shown->visible);
  add(plan->etc, &shown->etc);
}

// As the language table spells it: kernels write "R", "Python".
std::string LanguageOf(const language::LanguageTable& table, std::string name) {
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 32) : c; });
  const language::Language* language = table.Find(name);
  return language != nullptr ? language->name : name;
}

// As `-m ipykernel_launcher`: modules are not found in the current directory.
constexpr const char* kLaunch = R"(import sys
if sys.path[0] == "": del sys.path[0]
{}from ipykernel import kernelapp
kernelapp.launch_new_instance())";

// debugpy takes a quarter of the processor time of a start. The prelude makes it importable again, for the code.
constexpr const char* kWithoutDebugger = "sys.modules['debugpy'] = None\n";

// ipykernel without its TCP socket for what forked children print: a jail without netlink makes libzmq abort when it
// binds one.
constexpr const char* kWithoutPipe = R"(import ipykernel.iostream as iostream
iostream.IOPubThread._setup_pipe_in = lambda self: setattr(self, "_pipe_flag", False)
)";

enum class Launched { kOurs, kByKernelspec };

void FitIpykernel(Launched launched, bool jail, std::vector<std::string>& argv) {
  if (argv.size() < 3 || argv[1] != "-m" || argv[2] != "ipykernel_launcher") return;
  std::string steps = launched == Launched::kOurs ? kWithoutDebugger : "";
  if (jail) steps += kWithoutPipe;
  if (steps.empty()) return;
  argv[1] = "-c";
  argv[2] = fmt::format(kLaunch, steps);
}

bool IsPythonProgram(std::string_view program) { return program == "python" || program == "python3"; }

}  // namespace

async::Task<Result<KernelChoice>> ChooseKernel(confine::LaunchContext& context, const LocalHost& host,
                                               const jupyter::KernelHost& kernels, const Policy& policy,
                                               const std::vector<std::string>& bins, const std::string& scratch) {
  KernelChoice choice;
  std::optional<jupyter::Kernelspec> spec;
  const auto destination = policy.jail ? language::Destination::kJail : language::Destination::kHost;
  auto plan = co_await PlanBlock(context, policy, "python", destination, policy.jail ? "/tmp" : scratch);
  if (plan) plan->path_dirs.insert(plan->path_dirs.end(), bins.begin(), bins.end());
  const std::string python = plan && plan->python ? plan->python->executable : "";
  const std::string prefix = python.empty() ? "" : std::filesystem::path(python).parent_path().parent_path().string();
  if (!policy.kernel.empty()) {
    auto find = [&] { return jupyter::FindKernelspec(jupyter::DataDirectories(kernels, prefix), policy.kernel); };
    auto found = co_await context.planning->Run(find);
    CO_TRY(spec, std::move(found));
  }
  // The program "python" of a kernelspec is the session's Python.
  const bool needs_python = !spec || IsPythonProgram(spec->argv.front());
  if (needs_python && !plan) co_return std::unexpected(std::move(plan.error()));
  const language::Plan none;
  const language::Plan& shown = plan ? *plan : none;
  confine::EnvVars variables =
      policy.jail ? confine::JailEnvVars(shown) : LocalVariables(context.host, host, policy, shown);
  if (needs_python) variables = confine::GuestEnvVars(std::move(variables), shown, policy);
  if (spec) {
    choice.command.name = spec->name;
    CO_TRY(choice.command.argv, jupyter::ExpandArguments(*spec, "{connection_file}", prefix));
    if (needs_python) choice.command.argv.front() = python;
    choice.command.interrupt_mode = spec->interrupt_mode;
    choice.language = LanguageOf(context.table, spec->language);
    for (const auto& [name, value] : spec->env) {
      CO_TRY(std::string expanded, jupyter::ExpandVariables(value, variables.variables()));
      variables.Set(name, std::move(expanded));
    }
  } else {
    choice.command.name = "python3";
    choice.command.argv = {python, "-m", "ipykernel_launcher", "-f", "{connection_file}",
                           // Each would cost time: a pause before every reply, a database, a parser that reads the
                           // standard library before the first completion (20 s on a busy machine).
                           "--IPythonKernel._execute_sleep=0", "--HistoryManager.enabled=False",
                           "--IPCompleter.use_jedi=False"};
    choice.language = "python";
    choice.python = python;
  }
  FitIpykernel(spec ? Launched::kByKernelspec : Launched::kOurs, policy.jail, choice.command.argv);
  if (!needs_python) {
    for (const auto& [name, value] : policy.env) variables.Set(name, value);
  }
  if (plan) choice.plan = std::move(*plan);
  if (policy.jail && !needs_python && context.table.Find(choice.language) != nullptr) {
    co_await AddLanguage(context, policy, choice.language, &choice.plan);
  }
  choice.command.env = variables.Encode();
  choice.command.search_path = *variables.Find("PATH");
  choice.variables = std::move(variables);
  co_return choice;
}

}  // namespace cella::executor
