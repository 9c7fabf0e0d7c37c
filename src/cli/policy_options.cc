#include "cli/policy_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>

#include "engine/taskweaver.h"
#include "language/host_path.h"
#include "policy/describe.h"
#include "policy/read.h"
#include "storage/service.h"

namespace cella::cli {
namespace {

// "--executor" of "-e,--executor".
std::string LongName(const policy::Key& key) {
  return std::string(
      key.option.substr(key.option.rfind(',') == std::string_view::npos ? 0 : key.option.rfind(',') + 1));
}

// The flag of a switch that is on by default.
bool TurnsOff(const policy::Key& key) { return key.option.starts_with("--no-"); }

bool TakesMany(policy::Kind kind) {
  switch (kind) {
    case policy::Kind::kVariables:
    case policy::Kind::kMounts:
    case policy::Kind::kModules:
    case policy::Kind::kHosts:
    case policy::Kind::kCapabilities: return true;
    default: return false;
  }
}

// The heading of the help; empty: the general one.
std::string GroupOf(const policy::Key& key) {
  if (!policy::Has(key.executors, kDefaultExecutor)) return "With --executor " + policy::NamesOf(key.executors);
  if (key.section == "policy.limits" || key.name == "best_effort") return "Limits";
  if (key.commands == policy::Commands::kSessions || key.name == "executor") return "";
  return kInsideGroup;
}

// The sentence of the table as help has it: "Wall time of a run (60s)".
std::string HelpOf(const policy::Key& key) {
  std::string help(key.help);
  std::erase(help, '`');
  if (help.ends_with('.')) help.pop_back();
  const std::string first = policy::DescribeDefault(key);
  switch (key.kind) {
    case policy::Kind::kSwitch: return TurnsOff(key) ? "Not: " + help : help;
    case policy::Kind::kVariables: return help + ": NAME=VALUE (repeatable)";
    case policy::Kind::kMounts: return help + ": SOURCE:TARGET[:ro|rw] (repeatable)";
    case policy::Kind::kHosts: return help + ": NAME:ADDRESS (repeatable)";
    case policy::Kind::kModules:
    case policy::Kind::kCapabilities: return help + " (repeatable)";
    case policy::Kind::kDevices: return help + ": all, a number, device=ID[,ID], or JSON";
    case policy::Kind::kWord: help += fmt::format(": {} ({})", fmt::join(policy::WordsOf(key), ", "), first); break;
    default:
      if (key.ask == policy::Ask::kUpToMaximum || !policy::Has(key.executors, kDefaultExecutor))
        help += fmt::format(" ({})", first);
  }
  return help;
}

using Paths = std::vector<std::string>;

// As real paths: the policy still holds what was typed.
Paths RealGuestWritable(const Policy& policy) {
  Paths paths;
  for (const std::string& path : GuestWritable(policy)) {
    std::array<char, PATH_MAX> real;
    // What does not exist is refused later, with its name.
    if (realpath(path.c_str(), real.data()) != nullptr) paths.emplace_back(real.data());
  }
  return paths;
}

// It need not be there yet.
Status ResolveStorage(SessionSpec* spec) {
  const Paths writable = IsConfined(*spec) ? RealGuestWritable(spec->policy) : Paths();
  auto path = language::ResolveHostDirectoryForCreation(spec->storage, writable);
  if (!path) return std::unexpected(std::move(path.error()).WithContext("--storage"));
  if (std::string why = storage::WhyWritable(*path, writable); !why.empty()) {
    return Err(ErrorCode::kPermission, "--storage: {}", why);
  }
  spec->storage = std::move(*path);
  return {};
}

}  // namespace

Status ResolvePath(const char* option, std::string* path, const Paths& guest_writable) {
  if (path->empty()) return {};
  auto resolved = language::ResolveHostPath(*path, guest_writable);
  if (!resolved) return std::unexpected(std::move(resolved.error()).WithContext(option));
  *path = std::move(*resolved);
  return {};
}

Status CheckLanguage(const std::string& name, const language::LanguageTable& table) {
  if (name.empty() || table.Find(name) != nullptr) return {};
  return Err(ErrorCode::kInvalid, "--lang: unknown language '{}'; known are: {}", name, table.Names());
}

std::string EmptinessOf(const std::string& text) { return text.empty() ? "must not be empty" : ""; }

CLI::Option* OptionalText(CLI::App& command, const char* name, std::optional<std::string>* value, const char* help) {
  return command.add_option_function<std::string>(name, [value](const std::string& text) { *value = text; }, help);
}

void DeclarePolicyOptions(CLI::App& command, bool sessions, TypedKeys* typed) {
  for (const policy::Key& key : policy::Keys()) {
    if (key.commands == policy::Commands::kNone || (key.commands == policy::Commands::kSessions && !sessions)) continue;
    auto add = [typed, at = &key](const std::string& text) { typed->texts[at].push_back(text); };
    // A value that cannot be read is a wrong command line.
    auto mistake_in = [at = &key](const std::string& text) {
      SessionSpec scratch;
      const auto set = policy::SetText(*at, text, &scratch);
      return set ? std::string() : set.error().Text();
    };
    CLI::Option* option = nullptr;
    const std::string name(key.option);
    if (key.kind == policy::Kind::kSwitch) {
      const std::string value = TurnsOff(key) ? "false" : "true";
      option = command.add_flag_callback(name, [add, value] { add(value); }, HelpOf(key));
    } else if (TakesMany(key.kind)) {
      option = command.add_option_function<std::vector<std::string>>(
          name, [add](const std::vector<std::string>& texts) { std::ranges::for_each(texts, add); }, HelpOf(key));
      option->allow_extra_args(false)->check(mistake_in);
    } else {
      option = command.add_option_function<std::string>(name, add, HelpOf(key));
      if (key.kind == policy::Kind::kWord) {
        option->check(CLI::IsMember(policy::WordsOf(key)));
      } else {
        option->check(mistake_in);
      }
    }
    if (const std::string group = GroupOf(key); !group.empty()) option->group(group);
    if (key.name == "venv") {
      command.add_option("--config", typed->config, "A taskweaver_config.json, which chooses the executor")
          ->check(EmptinessOf)
          ->group(kInsideGroup);
    }
    if (key.name == "env") {
      command.add_option("--pass-env", typed->pass_env, "Pass a variable of yours on (repeatable)")
          ->allow_extra_args(false)
          ->check(EmptinessOf)
          ->group(kInsideGroup);
    }
  }
}

Result<ParsedPolicy> ParsePolicy(const TypedKeys& typed) {
  ParsedPolicy parsed;
  for (const auto& [key, texts] : typed.texts) {
    for (const std::string& text : texts) {
      if (auto set = policy::SetText(*key, text, &parsed.spec); !set) {
        return Err(ErrorCode::kInvalid, "{}: {}", LongName(*key), set.error().Text());
      }
    }
    parsed.given.Add(*key);
  }
  Policy& policy = parsed.spec.policy;
  if (!typed.config.empty()) {
    TRY(const engine::TaskWeaver read, engine::ReadTaskWeaver(typed.config));
    if (!parsed.given.Has("executor")) parsed.spec.executor = read.executor;
    const ContainerPolicy given = policy.container;
    read.Apply(&policy);
    if (parsed.given.Has("container.image")) policy.container.image = given.image;
    if (parsed.given.Has("container.image") || parsed.given.Has("container.pull")) policy.container.pull = given.pull;
  }
  for (const std::string& name : typed.pass_env) {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return Err(ErrorCode::kInvalid, "--pass-env: '{}' is not set", name);
    policy.env.emplace_back(name, value);
  }
  const ExecutorKind executor = parsed.spec.executor;
  if (const policy::Key* key = policy::FindMeaningless(parsed.given, executor)) {
    return Err(ErrorCode::kInvalid, "{}: the {} executor has no {}; use --executor {}{}{}", LongName(*key),
               ToString(executor), key->name, policy::NamesOf(key->executors), key->instead.empty() ? "" : ", or ",
               key->instead);
  }
  if (policy.network == Network::kBridge && !policy::Takes(executor, "container.image")) {
    return Err(ErrorCode::kInvalid, "--network bridge is for --executor container");
  }
  if (parsed.given.Has("storage")) TRY_VOID(ResolveStorage(&parsed.spec));
  const bool confined = IsConfined(parsed.spec);
  if (confined && policy.inherit_env) {
    return Err(ErrorCode::kInvalid, "--inherit-env is for executors without a jail; name variables with --pass-env");
  }
  if (!confined) {
    if (parsed.given.Has("network") && policy.network == Network::kNone) {
      return Err(ErrorCode::kUnsupported, "--network none: the {} executor cannot enforce it; use --executor sandbox",
                 ToString(executor));
    }
    policy.network = Network::kHost;
    return parsed;  // what is not confined could follow any link itself
  }
  parsed.guest_writable = RealGuestWritable(policy);
  // Links that an earlier guest left in a directory must not choose what this one gets.
  TRY_VOID(ResolvePath("--workdir", &policy.workdir, parsed.guest_writable));
  TRY_VOID(ResolvePath("--rootfs", &policy.rootfs, parsed.guest_writable));
  for (Mount& mount : policy.mounts) TRY_VOID(ResolvePath("--mount", &mount.source, parsed.guest_writable));
  return parsed;
}

}  // namespace cella::cli
