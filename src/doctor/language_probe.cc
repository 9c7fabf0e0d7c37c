#include "doctor/language_probe.h"

#include <dirent.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "doctor/host_probe.h"
#include "language/plan.h"
#include "language/python_answer.h"
#include "language/python_search.h"
#include "language/tool_query.h"
#include "language/visible.h"
#include "os/io.h"

namespace cella::doctor {
namespace {

using namespace std::chrono_literals;
using language::HostEnv;
using language::Language;
using language::LanguageTable;

constexpr auto kVersionLimit = 1000ms;
constexpr size_t kMaxPythons = 24;
constexpr size_t kMaxKernelspecs = 64;
constexpr uint64_t kMaxKernelJson = 64 * 1024;
constexpr unsigned kMostThreads = 4;

std::vector<std::string> VersionArguments(const Language& language) {
  if (language.name == "go") return {"version"};
  if (language.name == "lua") return {"-v"};
  return {"--version"};
}

LanguageFact Find(const LanguageTable& table, const Language& language, HostEnv host) {
  LanguageFact fact{.name = language.name, .install = language.install};
  // Else a shell would look for the environment's Python as well, from a second thread.
  if (language.calls_python) host.virtual_env.clear();
  language::PlanOptions options;
  options.host = host;
  auto plan = language::MakePlan(table, {.language = language.name, .code = ""}, options);
  if (!plan) {
    if (plan.error().code != ErrorCode::kNotFound) fact.obstacle = plan.error().message;
    return fact;
  }
  fact.program = plan->commands.front().argv.front();
  if (plan->python) {
    fact.version = plan->python->version;
    return fact;
  }
  if (!host.asker) return fact;
  // It sees what it would see in a run.
  language::ToolQuery query{.argv = {fact.program},
                            .env = language::CleanEnvironment(plan->path_dirs),
                            .visible = std::move(plan->visible),
                            .etc = std::move(plan->etc),
                            .timeout = kVersionLimit};
  std::ranges::move(VersionArguments(language), std::back_inserter(query.argv));
  if (auto answer = host.asker->AskProgram(query)) fact.version = VersionIn(*answer);
  return fact;
}

std::vector<PythonFact> FindPythons(const HostEnv& host) {
  std::vector<PythonFact> found;
  std::vector<std::string> seen;
  language::PythonAsker asker(host);
  for (const std::string& path : language::InstalledPythons(host)) {
    std::string real = language::RealPath(path);
    if (std::ranges::find(seen, real) != seen.end()) continue;
    if (seen.size() >= kMaxPythons) break;
    seen.push_back(std::move(real));
    if (auto answer = asker.Ask(path)) found.push_back({path, answer->version});
  }
  return found;
}

std::vector<std::string> KernelspecRoots(const HostEnv& host, const std::vector<std::string>& environment) {
  std::vector<std::string> roots;
  std::string_view path = Lookup(environment, "JUPYTER_PATH");
  while (!path.empty()) {
    size_t colon = path.find(':');
    if (std::string_view part = path.substr(0, colon); part.starts_with('/')) roots.emplace_back(part);
    path = colon == std::string_view::npos ? std::string_view() : path.substr(colon + 1);
  }
  std::string_view data = Lookup(environment, "JUPYTER_DATA_DIR");
  if (!data.empty()) {
    roots.emplace_back(data);
  } else if (!host.home.empty()) {
    std::string_view xdg = host.Get("XDG_DATA_HOME");
    roots.push_back((xdg.empty() ? host.home + "/.local/share" : std::string(xdg)) + "/jupyter");
  }
  language::PythonRequest default_python;
  default_python.host = host;
  if (auto python = language::ResolvePython(default_python)) roots.push_back(python->prefix + "/share/jupyter");
  roots.emplace_back("/usr/local/share/jupyter");
  roots.emplace_back("/usr/share/jupyter");
  return roots;
}

std::vector<KernelspecFact> FindKernelspecs(const std::vector<std::string>& roots) {
  std::vector<KernelspecFact> found;
  for (const std::string& root : roots) {
    std::string directory = root + "/kernels";
    std::unique_ptr<DIR, decltype([](DIR* open) { ::closedir(open); })> open(::opendir(directory.c_str()));
    if (!open) continue;
    while (const dirent* entry = ::readdir(open.get())) {
      std::string name = entry->d_name;
      // The first directory that has a kernel of that name wins, as in Jupyter.
      bool known = std::ranges::any_of(found, [&](const KernelspecFact& other) { return other.name == name; });
      if (name.starts_with('.') || known || found.size() >= kMaxKernelspecs) continue;
      auto text = os::ReadFile(directory + "/" + name + "/kernel.json", kMaxKernelJson);
      if (!text) continue;
      auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
      std::string display;
      if (json.is_object() && json.contains("display_name") && json["display_name"].is_string()) {
        display = json["display_name"].get<std::string>();
      }
      found.push_back({std::move(name), std::move(display), directory + "/" + entry->d_name});
    }
  }
  std::ranges::sort(found, {}, &KernelspecFact::name);
  return found;
}

// Runs the jobs on a few threads: most of the time is spent waiting for a program to answer.
void RunAll(const std::vector<std::function<void()>>& jobs) {
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < jobs.size(); i = next++) jobs[i]();
  };
  unsigned count = std::clamp(std::thread::hardware_concurrency(), 2u, kMostThreads);
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < count; ++i) threads.emplace_back(work);
}

}  // namespace

std::string VersionIn(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  for (size_t at = text.find_first_of(kDigits); at != std::string_view::npos; at = text.find_first_of(kDigits, at)) {
    size_t end = std::min(text.find_first_not_of("0123456789.", at), text.size());
    std::string_view found = text.substr(at, end - at);
    while (found.ends_with('.')) found.remove_suffix(1);
    if (found.contains('.')) return std::string(found);
    at = end;
  }
  return "";
}

LanguageFacts FindLanguages(const LanguageTable& table, const HostEnv& host,
                            const std::vector<std::string>& environment) {
  LanguageFacts facts;
  std::vector<const Language*> runnable;
  for (const Language& language : table.languages()) {
    if (!language.save_only) runnable.push_back(&language);
  }
  facts.languages.resize(runnable.size());
  std::vector<std::function<void()>> jobs;
  // All that asks Pythons shares one file of answers: one job.
  jobs.emplace_back([&] {
    for (size_t i = 0; i < runnable.size(); ++i) {
      if (runnable[i]->python) facts.languages[i] = Find(table, *runnable[i], host);
    }
    facts.pythons = FindPythons(host);
    facts.kernelspecs = FindKernelspecs(KernelspecRoots(host, environment));
  });
  for (size_t i = 0; i < runnable.size(); ++i) {
    if (runnable[i]->python) continue;
    jobs.emplace_back([&, i] { facts.languages[i] = Find(table, *runnable[i], host); });
  }
  RunAll(jobs);
  return facts;
}

}  // namespace cella::doctor
