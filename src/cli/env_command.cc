#include "cli/env_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cella/outcome.h"
#include "environment/store.h"
#include "installer/builder_home.h"

namespace cella::cli {
namespace {

using environment::NamedEnvironment;
using environment::Store;
using environment::StoredEnvironment;
using Json = nlohmann::ordered_json;

int Fail(const Error& error) {
  std::fprintf(stderr, "cella: %s\n", error.message.c_str());
  return error.code == ErrorCode::kNotFound ? kExitNotFound : kExitRejected;
}

Result<Store> OpenStore() {
  TRY(std::string state_dir, installer::CommandStateDirectory());
  return Store::Open(state_dir);
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string Day(int64_t seconds) {
  if (seconds == 0) return "never";
  const std::time_t time = seconds;
  struct tm parts = {};
  char text[32] = {};
  if (localtime_r(&time, &parts) != nullptr) (void)std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

Status Create(const EnvOptions& options) {
  TRY(Store store, OpenStore());
  if (!environment::IsEnvironmentName(options.name)) {
    return Err(ErrorCode::kInvalid, "'{}' is not a name for an environment: letters, digits, - _ . (at most 64)",
               options.name);
  }
  if (!options.replace && store.FindName(options.name)) {
    return Err(ErrorCode::kInvalid, "there is an environment '{}' already: pass --replace, or choose another name",
               options.name);
  }
  async::Loop loop;
  Policy policy;
  policy.python = options.python;
  TRY(MadeEnvironment made, MakeEnvironment(loop, options.packages, policy, options.preload));
  const environment::Manifest& manifest = made.ready.manifest;
  TRY_VOID(
      store.SaveName({options.name, made.python, manifest.requested, options.preload, manifest.lock, manifest.key}));
  std::printf("%s: Python %s, %zu packages, %s\n", options.name.c_str(), manifest.version.c_str(),
              manifest.packages.size(), FormatByteSize(manifest.bytes).c_str());
  return {};
}

Json Described(const NamedEnvironment& named, const StoredEnvironment* stored) {
  Json packages = Json::array();
  Json object = {{"name", named.name},
                 {"state", stored != nullptr ? "ready" : "removed"},
                 {"requested", named.packages},
                 {"preload", named.preload}};
  if (stored == nullptr) return object;
  for (const auto& package : stored->manifest.packages) packages.push_back(package.name + "==" + package.version);
  object["python"] = stored->manifest.version;
  object["packages"] = std::move(packages);
  object["bytes"] = stored->manifest.bytes;
  object["last_use"] = stored->last_use;
  object["in_use"] = stored->in_use;
  object["sessions"] = stored->uses;
  return object;
}

const StoredEnvironment* Of(const std::vector<StoredEnvironment>& all, const std::string& key) {
  for (const StoredEnvironment& stored : all) {
    if (stored.manifest.key == key) return &stored;
  }
  return nullptr;
}

Status List(const EnvOptions& options) {
  TRY(Store store, OpenStore());
  const std::vector<StoredEnvironment> all = store.List();
  std::vector<NamedEnvironment> names = store.Names();
  std::erase_if(names, [](const NamedEnvironment& named) { return !named.owner.empty(); });  // of a server's clients
  size_t anonymous = 0;
  uint64_t anonymous_bytes = 0;
  for (const StoredEnvironment& stored : all) {
    anonymous += stored.names.empty() ? 1 : 0;
    anonymous_bytes += stored.names.empty() ? stored.manifest.bytes : 0;
  }
  if (options.json) {
    Json list = Json::array();
    for (const NamedEnvironment& named : names) list.push_back(Described(named, Of(all, named.key)));
    const Json object = {{"environments", list}, {"anonymous", {{"count", anonymous}, {"bytes", anonymous_bytes}}}};
    std::printf("%s\n", object.dump().c_str());
    return {};
  }
  for (const NamedEnvironment& named : names) {
    const StoredEnvironment* stored = Of(all, named.key);
    std::printf("%-20s %-8s %10s  %-16s %s%s\n", named.name.c_str(),
                stored != nullptr ? stored->manifest.version.c_str() : "-",
                stored != nullptr ? FormatByteSize(stored->manifest.bytes).c_str() : "removed",
                stored != nullptr ? Day(stored->last_use).c_str() : "-", Joined(named.packages).c_str(),
                stored != nullptr && stored->in_use ? fmt::format(" ({} in use)", stored->uses).c_str() : "");
  }
  if (anonymous > 0) {
    std::printf("and %zu without a name, of --with and scripts: %s (cella env gc)\n", anonymous,
                FormatByteSize(anonymous_bytes).c_str());
  }
  return {};
}

Status Show(const EnvOptions& options) {
  TRY(Store store, OpenStore());
  TRY(NamedEnvironment named, store.FindName(options.name));
  if (options.lock) {
    std::printf("%s", named.lock.c_str());
    return {};
  }
  const std::vector<StoredEnvironment> all = store.List();
  const Json object = Described(named, Of(all, named.key));
  if (options.json) {
    std::printf("%s\n", object.dump().c_str());
    return {};
  }
  for (const auto& [key, value] : object.items()) {
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (value.is_array()) text = Joined(value.get<std::vector<std::string>>());
    std::printf("%-10s %s\n", key.c_str(), text.c_str());
  }
  return {};
}

Status Remove(const EnvOptions& options) {
  TRY(Store store, OpenStore());
  TRY(const NamedEnvironment named, store.FindName(options.name));
  TRY_VOID(store.RemoveName(options.name));
  // What sessions still use stays until 'cella env gc'.
  store.RemoveUnnamed(named.key);
  return {};
}

Status Collect(const EnvOptions& options) {
  TRY(Store store, OpenStore());
  TRY(Nanoseconds unused, ParseDuration(options.unused));
  TRY(environment::Collected collected,
      store.Collect(std::chrono::duration_cast<std::chrono::seconds>(unused).count()));
  std::printf("removed %zu environments, %s\n", collected.environments, FormatByteSize(collected.bytes).c_str());
  return {};
}

}  // namespace

void DeclareEnvOptions(CLI::App& command, EnvOptions* o) {
  command.require_subcommand(1);
  auto add = [&](const char* name, const char* help) {
    CLI::App* sub = command.add_subcommand(name, help);
    sub->callback([o, name] { o->command = name; });
    return sub;
  };
  CLI::App* create = add("create", "Make an environment: a Python and packages, under a name");
  create->add_option("NAME", o->name, "Its name")->required();
  create->add_option("--python", o->python, "Interpreter: a version (3.12) or a path");
  create->add_option("--with", o->packages.with, "A package, for example 'numpy>=2' (repeatable)")
      ->allow_extra_args(false);
  create->add_option("-r,--requirements", o->packages.requirements, "A requirements.txt (repeatable)")
      ->allow_extra_args(false);
  create->add_option("--preload", o->preload, "A module that sessions find imported (repeatable)")
      ->allow_extra_args(false);
  create->add_flag("--replace", o->replace,
                   "Replace an environment of this name; sessions that use it keep the old one");
  create->add_flag("--refresh", o->packages.refresh, "Look for newer versions of the packages");
  CLI::App* ls = add("ls", "List environments: Python, size, last use, packages");
  ls->add_flag("--json", o->json, "Print one JSON object");
  CLI::App* show = add("show", "Show one environment");
  show->add_option("NAME", o->name, "Its name")->required();
  show->add_flag("--lock", o->lock, "Print a requirements.txt with hashes, which makes the same environment elsewhere");
  show->add_flag("--json", o->json, "Print one JSON object");
  CLI::App* rm = add("rm", "Remove an environment");
  rm->add_option("NAME", o->name, "Its name")->required();
  CLI::App* gc = add("gc", "Remove environments without a name that were not used for some time");
  gc->add_option("--unused", o->unused, "For how long (720h)");
}

int EnvCommand(const EnvOptions& options) {
  Status done = options.command == "create" ? Create(options)
                : options.command == "ls"   ? List(options)
                : options.command == "show" ? Show(options)
                : options.command == "rm"   ? Remove(options)
                                            : Collect(options);
  return done ? 0 : Fail(done.error());
}

}  // namespace cella::cli
