#include "policy/keys.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/units.h"
#include "policy/read.h"

namespace cella::policy {
namespace {

#define CELLA_AT(path) (+[](SessionSpec& spec) { return &spec.path; })

#define CELLA_WORD(path, parse, all)                                      \
  (WordField{[](const SessionSpec& spec) { return ToString(spec.path); }, \
             [](SessionSpec& spec, std::string_view word) {               \
               auto value = parse(word);                                  \
               if (value) spec.path = *value;                             \
               return value.has_value();                                  \
             },                                                           \
             [] { return std::string_view(all); }})

constexpr Executors kConfined = Only(ExecutorKind::kSandbox, ExecutorKind::kContainer);
constexpr Executors kContainer = Only(ExecutorKind::kContainer);
// With the host's interpreters; a container has those of its image.
constexpr Executors kHostPython = Only(ExecutorKind::kSandbox, ExecutorKind::kLocal, ExecutorKind::kSubprocess);
constexpr Executors kKernel = Only(ExecutorKind::kSubprocess);
constexpr Executors kLayered = Only(ExecutorKind::kSandbox);
// Whose processes can call the host.
constexpr Executors kCalling =
    Only(ExecutorKind::kSandbox, ExecutorKind::kLocal, ExecutorKind::kSubprocess, ExecutorKind::kContainer);
// Packages are added to their sessions.
constexpr Executors kPackaged = Only(ExecutorKind::kSandbox, ExecutorKind::kSubprocess);
constexpr Executors kUnconfined = Only(ExecutorKind::kLocal, ExecutorKind::kSubprocess);

constexpr WordField kPull{
    [](const SessionSpec& spec) -> std::string_view { return spec.policy.container.pull ? "missing" : "never"; },
    [](SessionSpec& spec, std::string_view word) {
      spec.policy.container.pull = word == "missing";
      return word == "missing" || word == "never";
    },
    [] { return std::string_view("missing, never"); }};

constexpr WordField kMode{[](const SessionSpec& spec) -> std::string_view {
                            return spec.policy.container.mode == ContainerMode::kCommand ? "command" : "session";
                          },
                          [](SessionSpec& spec, std::string_view word) {
                            spec.policy.container.mode =
                                word == "command" ? ContainerMode::kCommand : ContainerMode::kSession;
                            return word == "command" || word == "session";
                          },
                          [] { return std::string_view("session, command"); }};

constexpr WordField kValueOf{[](const SessionSpec& spec) -> std::string_view {
                               return spec.policy.values_of_assignments ? "last_expr_or_assign" : "last_expr";
                             },
                             [](SessionSpec& spec, std::string_view word) {
                               spec.policy.values_of_assignments = word == "last_expr_or_assign";
                               return word == "last_expr" || word == "last_expr_or_assign";
                             },
                             [] { return std::string_view("last_expr, last_expr_or_assign"); }};

constexpr Key kKeys[] = {
    {.name = "executor",
     .kind = Kind::kWord,
     .field = CELLA_WORD(executor, ParseExecutorKind, ExecutorNames()),
     .help = "Where code runs.",
     .section = "policy",
     .ask = Ask::kAllowed,
     .scope = Scope::kOutside,
     .commands = Commands::kAll,
     .option = "-e,--executor"},
    {.name = "python",
     .kind = Kind::kText,
     .field = CELLA_AT(policy.python),
     .help = "Interpreter: a version such as `3.12`, or a path.",
     .empty = "`python3` on `PATH`",
     .section = "policy",
     .ask = Ask::kAllowed,
     .executors = kHostPython,
     .instead = "use an image with that interpreter",
     .commands = Commands::kAll,
     .option = "--python",
     .python = "python_version"},
    {.name = "venv",
     .kind = Kind::kPath,
     .field = CELLA_AT(policy.venv),
     .help = "Python virtual environment.",
     .empty = "none",
     .section = "policy",
     .ask = Ask::kAllowed,
     .executors = kHostPython,
     .instead = "use an image with the packages",
     .commands = Commands::kAll,
     .option = "--venv",
     .python = "venv_dir"},
    {.name = "preload",
     .kind = Kind::kModules,
     .field = CELLA_AT(preload),
     .help = "Python modules that are imported before the session begins.",
     .empty = "none",
     .section = "sessions",
     .executors = kLayered,
     .commands = Commands::kSessions,
     .option = "--preload",
     .python = "preload"},
    {.name = "environment",
     .kind = Kind::kEnvironment,
     .field = CELLA_AT(environment),
     .help = "A Python environment: the name of one, or `python`, `packages` and `preload` to make it from.",
     .empty = "none",
     .ask = Ask::kAllowed,
     .scope = Scope::kOutside,
     .executors = kHostPython,
     .instead = "use an image with the packages",
     .python = "environment"},
    {.name = "rootfs",
     .kind = Kind::kPath,
     .field = CELLA_AT(policy.rootfs),
     .help = "Another root tree (debootstrap, an unpacked image).",
     .empty = "the host's system directories",
     .section = "policy",
     .ask = Ask::kAllowed,
     .executors = Only(ExecutorKind::kSandbox),
     .commands = Commands::kAll,
     .option = "--rootfs",
     .python = "rootfs"},
    {.name = "network",
     .kind = Kind::kWord,
     .field = CELLA_WORD(policy.network, ParseNetwork, "none, host, bridge"),
     .help = "Network of the guest; `bridge` is a container's. Without a jail it is the host's.",
     .section = "policy",
     .ask = Ask::kAllowed,
     .commands = Commands::kAll,
     .option = "--network",
     .python = "network_disabled"},
    {.name = "workdir",
     .kind = Kind::kPath,
     .field = CELLA_AT(policy.workdir),
     .help = "A host directory as the workspace, writable.",
     .empty = "a private one",
     .ask = Ask::kAllowed,
     .scope = Scope::kOwn,
     .commands = Commands::kAll,
     .option = "--workdir",
     .python = "work_dir"},
    {.name = "mounts",
     .kind = Kind::kMounts,
     .field = CELLA_AT(policy.mounts),
     .help = "Host paths that the guest sees, read-only unless their mode is `rw`.",
     .empty = "none",
     .ask = Ask::kAllowed,
     .scope = Scope::kOwn,
     .executors = kConfined | kKernel,
     .commands = Commands::kAll,
     .option = "--mount",
     .python = "mounts"},
    {.name = "env",
     .kind = Kind::kVariables,
     .field = CELLA_AT(policy.env),
     .help = "Environment variables, added to the fixed ones.",
     .empty = "none",
     .section = "policy",
     .scope = Scope::kJail,
     .commands = Commands::kAll,
     .option = "--env",
     .python = "env"},
    {.name = "inherit_env",
     .kind = Kind::kSwitch,
     .field = CELLA_AT(policy.inherit_env),
     .help = "Pass all of your environment variables.",
     .ask = Ask::kNever,
     .scope = Scope::kJail,
     .executors = kUnconfined,
     .instead = "name variables with --pass-env",
     .commands = Commands::kAll,
     .option = "--inherit-env"},
    {.name = "checkpoint",
     .kind = Kind::kWord,
     .field = CELLA_WORD(checkpoint, ParseCheckpointMode, "auto, always, off"),
     .help = "When state is saved.",
     .section = "policy",
     .scope = Scope::kJail,
     .executors = kLayered,
     .commands = Commands::kSessions,
     .option = "--checkpoint",
     .python = "checkpoint"},
    {.name = "best_effort",
     .kind = Kind::kSwitch,
     .field = CELLA_AT(policy.best_effort),
     .help = "Report limits that cannot be enforced here instead of refusing.",
     .section = "policy",
     .scope = Scope::kJail,
     .commands = Commands::kAll,
     .option = "--best-effort",
     .python = "best_effort"},

    {.name = "deps",
     .kind = Kind::kPackages,
     .field = CELLA_AT(deps),
     .help = "Packages that `sync` installs into the session, as `numpy>=2`.",
     .empty = "none",
     .ask = Ask::kAllowed,
     .scope = Scope::kOutside,
     .executors = kLayered,
     .python = "deps"},
    {.name = "allow_runtime_deps",
     .kind = Kind::kSwitch,
     .field = CELLA_AT(runtime_deps),
     .help = "The session may add and remove packages, where the operator permits it.",
     .ask = Ask::kAllowed,
     .scope = Scope::kOutside,
     .executors = kPackaged,
     .python = "allow_runtime_deps"},

    {.name = "storage",
     .kind = Kind::kText,
     .field = CELLA_AT(storage),
     .help = "Artifacts and workflows that outlive the session: a directory; on a server a name.",
     .empty = "none",
     .ask = Ask::kAllowed,
     .scope = Scope::kOutside,
     .commands = Commands::kAll,
     .option = "--storage"},

    {.name = "kernel",
     .kind = Kind::kName,
     .field = CELLA_AT(policy.kernel),
     .help = "A Jupyter kernel by name.",
     .empty = "ipykernel of the Python",
     .executors = kKernel,
     .commands = Commands::kAll,
     .option = "--kernel",
     .python = "kernel"},
    {.name = "jail",
     .kind = Kind::kSwitch,
     .field = CELLA_AT(policy.jail),
     .help = "The kernel runs in a jail.",
     .executors = kKernel,
     .commands = Commands::kAll,
     .option = "--jail",
     .python = "jail"},
    {.name = "system_packages",
     .kind = Kind::kSwitch,
     .field = CELLA_AT(policy.system_packages),
     .help = "The session's own environment shows the packages that the Python has.",
     .executors = kKernel,
     .commands = Commands::kAll,
     .option = "--system-packages",
     .python = "system_packages"},
    {.name = "value_of",
     .kind = Kind::kWord,
     .field = kValueOf,
     .help = "What of a Python cell is its value: the last expression, or also what its last line assigns.",
     .scope = Scope::kJail,
     .executors = kConfined | kKernel,
     .commands = Commands::kSessions,
     .option = "--value-of",
     .python = "value_of"},
    {.name = "startup_timeout",
     .kind = Kind::kDuration,
     .field = CELLA_AT(policy.startup_timeout),
     .help = "How long a kernel may take to start.",
     .maximum = "1h",
     .ask = Ask::kUpToMaximum,
     .executors = kKernel,
     .python = "startup_timeout"},

    {.name = "container.image",
     .kind = Kind::kText,
     .field = CELLA_AT(policy.container.image),
     .help = "Image of the container.",
     .empty = "python:3-slim",
     .section = "container",
     .ask = Ask::kAllowed,
     .executors = kContainer,
     .commands = Commands::kAll,
     .option = "--image",
     .python = "image"},
    {.name = "container.pull",
     .kind = Kind::kWord,
     .field = kPull,
     .help = "Whether an image that is not there is fetched.",
     .ask = Ask::kAllowed,
     .executors = kContainer,
     .commands = Commands::kAll,
     .option = "--pull",
     .python = "pull"},
    {.name = "container.mode",
     .kind = Kind::kWord,
     .field = kMode,
     .help = "Of a session: interpreters that keep variables, or a process per block.",
     .ask = Ask::kAllowed,
     .executors = kContainer,
     .commands = Commands::kAll,
     .option = "--mode",
     .python = "mode"},
    {.name = "container.name",
     .kind = Kind::kText,
     .field = CELLA_AT(policy.container.name),
     .help = "Name of the container.",
     .empty = "the engine's choice",
     .ask = Ask::kAllowed,
     .executors = kContainer,
     .commands = Commands::kAll,
     .option = "--container-name",
     .python = "container_name"},
    {.name = "container.runtime",
     .kind = Kind::kText,
     .field = CELLA_AT(policy.container.runtime),
     .help = "Runtime of the engine, as runsc or kata.",
     .empty = "the engine's default",
     .ask = Ask::kAllowed,
     .executors = kContainer,
     .commands = Commands::kAll,
     .option = "--runtime",
     .python = "runtime"},
    {.name = "container.engine",
     .kind = Kind::kText,
     .field = CELLA_AT(policy.container.engine),
     .help = "Engine: unix:///PATH or tcp://HOST:PORT.",
     .empty = "DOCKER_HOST, usual sockets",
     .section = "container",
     .ask = Ask::kAllowed,
     .executors = kContainer,
     .commands = Commands::kAll,
     .option = "--engine",
     .python = "engine"},
    {.name = "container.read_only",
     .kind = Kind::kSwitch,
     .field = CELLA_AT(policy.container.read_only),
     .help = "The image's files cannot be written to.",
     .ask = Ask::kAllowed,
     .executors = kContainer,
     .python = "read_only"},
    {.name = "container.bind_dir",
     .kind = Kind::kText,
     .field = CELLA_AT(policy.container.bind_dir),
     .help = "The working directory as the engine's machine names it.",
     .empty = "the same",
     .ask = Ask::kAllowed,
     .executors = kContainer,
     .python = "bind_dir"},
    {.name = "container.auth_token",
     .kind = Kind::kText,
     .field = CELLA_AT(policy.container.auth_token),
     .help = "What the agent in the container asks for.",
     .empty = "a random one",
     .ask = Ask::kAllowed,
     .executors = kContainer,
     .python = "auth_token"},
    {.name = "container.auth_disabled",
     .kind = Kind::kSwitch,
     .field = CELLA_AT(policy.container.auth_disabled),
     .help = "The agent in the container asks for no token.",
     .ask = Ask::kAllowed,
     .executors = kContainer,
     .python = "auth_disabled"},

    {.name = "limits.timeout",
     .kind = Kind::kDuration,
     .field = CELLA_AT(policy.limits.timeout),
     .help = "Wall time of a run.",
     .section = "policy.limits",
     .maximum = "1h",
     .ask = Ask::kUpToMaximum,
     .scope = Scope::kJail,
     .commands = Commands::kAll,
     .option = "--timeout",
     .python = "default_timeout"},
    {.name = "limits.cpu_time",
     .kind = Kind::kDuration,
     .field = CELLA_AT(policy.limits.cpu_time),
     .help = "Processor time of a run, of all its processes.",
     .section = "policy.limits",
     .maximum = "1h",
     .ask = Ask::kUpToMaximum,
     .scope = Scope::kJail,
     .commands = Commands::kAll,
     .option = "--cpu-time",
     .python = "cpu_time_limit"},
    {.name = "limits.memory",
     .kind = Kind::kSize,
     .field = CELLA_AT(policy.limits.memory),
     .help = "Memory of all processes, no swap.",
     .least = "1m",
     .section = "policy.limits",
     .maximum = "4g",
     .ask = Ask::kUpToMaximum,
     .scope = Scope::kJail,
     .commands = Commands::kAll,
     .option = "--memory",
     .python = "memory_limit"},
    {.name = "limits.cpus",
     .kind = Kind::kCpus,
     .field = CELLA_AT(policy.limits.cpus),
     .help = "Share of processors, as `1.5`.",
     .empty = "all",
     .section = "policy.limits",
     .maximum = "none",
     .ask = Ask::kUpToMaximum,
     .scope = Scope::kJail,
     .commands = Commands::kAll,
     .option = "--cpus",
     .python = "cpu_quota"},
    {.name = "limits.pids",
     .kind = Kind::kCount,
     .field = CELLA_AT(policy.limits.pids),
     .help = "Processes and threads.",
     .section = "policy.limits",
     .maximum = "1024",
     .ask = Ask::kUpToMaximum,
     .scope = Scope::kJail,
     .commands = Commands::kAll,
     .option = "--pids",
     .python = "pids_limit"},
    {.name = "limits.disk",
     .kind = Kind::kSize,
     .field = CELLA_AT(policy.limits.disk),
     .help = "Files written, and the size of one.",
     .section = "policy.limits",
     .maximum = "4g",
     .ask = Ask::kUpToMaximum,
     .scope = Scope::kJail,
     .commands = Commands::kAll,
     .option = "--disk",
     .python = "disk_limit"},
    {.name = "limits.open_files",
     .kind = Kind::kCount,
     .field = CELLA_AT(policy.limits.open_files),
     .help = "Open files per process.",
     .least = "16",
     .section = "policy.limits",
     .maximum = "65536",
     .ask = Ask::kUpToMaximum,
     .scope = Scope::kJail,
     .commands = Commands::kAll,
     .option = "--open-files",
     .python = "open_files_limit"},
    {.name = "limits.output",
     .kind = Kind::kSize,
     .field = CELLA_AT(policy.limits.output),
     .help = "Kept bytes of each output stream. Plain output is kept whole unless this is given.",
     .section = "policy.limits",
     .maximum = "16m",
     .ask = Ask::kUpToMaximum,
     .scope = Scope::kJail,
     .commands = Commands::kAll,
     .option = "--output-limit",
     .python = "output_limit"},
    {.name = "limits.calls",
     .kind = Kind::kCount,
     .field = CELLA_AT(policy.limits.calls),
     .help = "Calls of a run to the host: tools and the like.",
     .section = "policy.limits",
     .maximum = "1000000",
     .ask = Ask::kUpToMaximum,
     .scope = Scope::kOutside,
     .executors = kCalling,
     .python = "calls_limit"},
    {.name = "limits.calls_at_once",
     .kind = Kind::kCount,
     .field = CELLA_AT(policy.limits.calls_at_once),
     .help = "Calls of a session that are open.",
     .section = "policy.limits",
     .maximum = "64",
     .ask = Ask::kUpToMaximum,
     .scope = Scope::kOutside,
     .executors = kCalling,
     .python = "calls_at_once_limit"},
    {.name = "limits.call_size",
     .kind = Kind::kSize,
     .field = CELLA_AT(policy.limits.call_size),
     .help = "Arguments of a call, and its result. Larger data goes through a file of the workspace.",
     .least = "1k",
     .section = "policy.limits",
     .maximum = "1m",
     .ask = Ask::kUpToMaximum,
     .scope = Scope::kOutside,
     .executors = kCalling,
     .python = "call_size_limit"},

    {.name = "idle_timeout",
     .kind = Kind::kDuration,
     .field = CELLA_AT(idle_timeout),
     .help = "The session ends after so long without a run.",
     .section = "sessions",
     .maximum = "1d",
     .ask = Ask::kUpToMaximum,
     .scope = Scope::kOutside,
     .commands = Commands::kSessions,
     .option = "--idle-timeout",
     .python = "idle_timeout"},
    {.name = "max_lifetime",
     .kind = Kind::kDuration,
     .field = CELLA_AT(max_lifetime),
     .help = "The session ends after so long.",
     .section = "sessions",
     .maximum = "7d",
     .ask = Ask::kUpToMaximum,
     .scope = Scope::kOutside,
     .commands = Commands::kSessions,
     .option = "--max-lifetime",
     .python = "max_lifetime"},
    {.name = "name",
     .kind = Kind::kName,
     .field = CELLA_AT(name),
     .help = "A name, for finding the session again.",
     .empty = "none",
     .scope = Scope::kOutside},
    {.name = "labels",
     .kind = Kind::kLabels,
     .field = CELLA_AT(labels),
     .help = "Texts by name, for finding the session again.",
     .empty = "none",
     .scope = Scope::kOutside},
};
static_assert(std::size(kKeys) <= 64, "KeySet has a bit for each");

#undef CELLA_AT
#undef CELLA_WORD

// How a value is shown, by the type of its field.
struct Shower {
  const Key& key;

  std::string operator()(const std::string& text) const { return text; }
  std::string operator()(std::string_view word) const { return std::string(word); }
  std::string operator()(bool on) const { return on ? "true" : "false"; }
  std::string operator()(Nanoseconds time) const { return FormatDuration(time); }
  std::string operator()(const Limit<Nanoseconds>& limit) const { return FormatDuration(limit.value); }
  std::string operator()(const Limit<uint64_t>& limit) const {
    return key.kind == Kind::kSize ? FormatByteSize(limit.value) : fmt::format("{}", limit.value);
  }
  std::string operator()(const std::optional<double>& share) const { return share ? fmt::format("{}", *share) : ""; }
  std::string operator()(const std::vector<std::string>& texts) const {
    return fmt::format("{}", fmt::join(texts, ","));
  }
  std::string operator()(const EnvironmentChoice& choice) const {
    if (choice.empty() || !choice.name.empty()) return choice.name;
    return fmt::format("{}", fmt::join(choice.packages, ","));
  }
  std::string operator()(const auto& many) const { return many.empty() ? "" : fmt::format("{} entries", many.size()); }
};

struct Exact {
  std::string* text;

  void Add(std::string_view part) const {
    *text += part;
    *text += '\0';
  }
  void operator()(std::string_view word) const { Add(word); }
  void operator()(const std::string& value) const { Add(value); }
  void operator()(bool on) const { Add(on ? "1" : "0"); }
  void operator()(Nanoseconds time) const { Add(fmt::format("{}", time.count())); }
  void operator()(const Limit<Nanoseconds>& limit) const { (*this)(limit.value); }
  void operator()(const Limit<uint64_t>& limit) const { Add(fmt::format("{}", limit.value)); }
  void operator()(const std::optional<double>& share) const { Add(share ? fmt::format("{}", *share) : "-"); }
  void operator()(const std::vector<std::string>& texts) const {
    Add(fmt::format("{}", texts.size()));
    for (const std::string& each : texts) Add(each);
  }
  void operator()(const EnvironmentChoice& choice) const {
    Add(choice.name);
    Add(choice.python);
    (*this)(choice.packages);
    (*this)(choice.preload);
  }
  void operator()(const std::vector<Mount>& mounts) const {
    Add(fmt::format("{}", mounts.size()));
    for (const Mount& mount : mounts) {
      Add(mount.source);
      Add(mount.target);
      Add(ToString(mount.mode));
    }
  }
  void operator()(const auto& pairs) const {
    Add(fmt::format("{}", pairs.size()));
    for (const auto& [name, value] : pairs) {
      Add(name);
      Add(value);
    }
  }
};

// What can be compared with a maximum; nothing: it is not limited.
struct Amount {
  std::optional<double> operator()(Nanoseconds time) const { return static_cast<double>(time.count()); }
  std::optional<double> operator()(const Limit<Nanoseconds>& limit) const { return (*this)(limit.value); }
  std::optional<double> operator()(const Limit<uint64_t>& limit) const { return static_cast<double>(limit.value); }
  std::optional<double> operator()(const std::optional<double>& share) const { return share; }
  std::optional<double> operator()(const auto&) const { return std::nullopt; }
};

}  // namespace

std::span<const Key> Keys() { return kKeys; }

const Key* Find(std::string_view name) {
  const auto* found = std::ranges::find(kKeys, name, &Key::name);
  return found == std::end(kKeys) ? nullptr : found;
}

bool KeySet::Has(std::string_view name) const {
  const Key* key = Find(name);
  return key != nullptr && Has(*key);
}

void Copy(const Key& key, const SessionSpec& from, SessionSpec* to) {
  std::visit(
      [&](const auto& field) {
        if constexpr (std::is_same_v<std::decay_t<decltype(field)>, WordField>) {
          (void)field.set(*to, field.get(from));
        } else {
          *field(*to) = *field(const_cast<SessionSpec&>(from));  // the accessor only finds the field
        }
      },
      key.field);
}

std::string Show(const Key& key, const SessionSpec& spec) { return WithValue(key, spec, Shower{key}); }

void AppendExact(const Key& key, const SessionSpec& spec, std::string* text) { WithValue(key, spec, Exact{text}); }

SessionSpec DefaultMaxima() {
  SessionSpec maxima;
  for (const Key& key : kKeys) {
    if (!key.maximum.empty() && key.maximum != "none") (void)SetText(key, key.maximum, &maxima);
  }
  return maxima;
}

bool Exceeds(const Key& key, const SessionSpec& spec, const SessionSpec& maxima) {
  const std::optional<double> asked = WithValue(key, spec, Amount{});
  const std::optional<double> most = WithValue(key, maxima, Amount{});
  return asked && most && *asked > *most;
}

std::vector<std::string> WordsOf(const Key& key) {
  std::vector<std::string> words;
  std::string_view rest = std::get<WordField>(key.field).words();
  while (!rest.empty()) {
    const size_t end = rest.find(", ");
    words.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 2);
  }
  return words;
}

const Key* FindMeaningless(const KeySet& given, ExecutorKind executor) {
  for (const Key& key : kKeys) {
    if (given.Has(key) && !Has(key.executors, executor)) return &key;
  }
  return nullptr;
}

std::string NamesOf(Executors executors) {
  std::string names;
  for (const ExecutorRow& row : kExecutors) {
    if (Has(executors, row.kind)) names.append(names.empty() ? "" : ", ").append(row.name);
  }
  return names;
}

}  // namespace cella::policy
