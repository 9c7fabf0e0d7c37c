// The one table of the keys of a session: limits, network, paths, Python. The command line, the Policy document of the
// HTTP API, cella.toml, admission, the description of the API, the keys of the sandbox's pool and docs/policy-keys.json
// are derived from it. To add a key: a field of SessionSpec or Policy, one row, and its enforcement. Constant data.
#pragma once

#include <bitset>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cella/policy.h"

namespace cella::policy {

// What may be written for a key.
enum class Kind {
  kText,
  kPath,     // of the host
  kModules,  // of Python
  kSwitch,
  kSize,
  kCount,
  kDuration,
  kCpus,
  kWord,  // one of a few
  kVariables,
  kMounts,
  kName,
  kPackages,     // requirements of Python packages
  kEnvironment,  // a name, or what one is made from
  kLabels,
  kHosts,         // addresses by name
  kDevices,       // requests for devices, as a container engine takes them
  kCapabilities,  // of Linux
};

template <typename T>
using At = T* (*)(SessionSpec&);

// The field is an enumeration, so its key brings its own conversions.
struct WordField {
  std::string_view (*get)(const SessionSpec&);
  bool (*set)(SessionSpec&, std::string_view word);  // false: no such word
  std::string_view (*words)();                       // "none, host"
};

using Variables = std::vector<std::pair<std::string, std::string>>;
using Labels = std::map<std::string, std::string>;
using Field = std::variant<At<std::string>, At<std::vector<std::string>>, At<bool>, At<std::chrono::nanoseconds>,
                           At<Limit<uint64_t>>, At<Limit<std::chrono::nanoseconds>>, At<std::optional<double>>,
                           At<Variables>, At<std::vector<Mount>>, At<Labels>, At<EnvironmentChoice>, WordField>;

// What the clients of a server may set a key to.
enum class Ask {
  kAnything,
  kUpToMaximum,  // of [maxima]
  kAllowed,      // what [allow] lists; admission.cc has the rule
  kNever,        // only the command line has the key
};

// What a different value changes.
enum class Scope {
  kPlan,     // the interpreter, the root tree or the zygote: such sessions share nothing
  kJail,     // one jail: such sessions share a plan and a zygote
  kOwn,      // paths of the host: sessions that have them are never made ahead of demand
  kOutside,  // nothing in the guest
};

// Which commands have the option.
enum class Commands { kNone, kSessions, kAll };  // kSessions: `cella repl`

// A set of executors.
using Executors = uint32_t;
inline constexpr Executors kAllExecutors = ~Executors{0};
template <typename... Kinds>
constexpr Executors Only(Kinds... kinds) {
  return ((Executors{1} << IndexOf(kinds)) | ...);
}
constexpr bool Has(Executors executors, ExecutorKind kind) { return (executors >> IndexOf(kind) & 1) != 0; }

struct Key {
  std::string_view name;  // in the Policy document: "limits.memory"
  Kind kind;
  Field field;  // its default is that of the field
  std::string_view help;
  std::string_view empty = {};  // what no value means: "all processors"
  std::string_view least = {};
  // Under which name cella.toml has it: "policy", "policy.limits", "sessions"; empty: it has not.
  std::string_view section = {};
  std::string_view maximum = {};  // the default in [maxima]; "none": there is none unless the operator names one
  Ask ask = Ask::kAnything;
  Scope scope = Scope::kPlan;
  Executors executors = kAllExecutors;  // for others the key has no meaning and is refused
  std::string_view instead = {};        // another remedy in that refusal
  Commands commands = Commands::kNone;
  std::string_view option = {};  // "--memory"
  std::string_view python = {};  // the name in the Python configurations
};

// In the order of the documentation.
std::span<const Key> Keys();
const Key* Find(std::string_view name);

// "memory" of "limits.memory".
constexpr std::string_view LastPart(std::string_view name) { return name.substr(name.rfind('.') + 1); }

class KeySet {
 public:
  void Add(const Key& key) { bits_.set(IndexOf(key)); }
  bool Has(const Key& key) const { return bits_.test(IndexOf(key)); }
  bool Has(std::string_view name) const;

 private:
  static size_t IndexOf(const Key& key) { return static_cast<size_t>(&key - Keys().data()); }
  std::bitset<64> bits_;
};

// A session as it was requested: what was not given has its default.
struct Request {
  SessionSpec spec;
  KeySet given;
};

// Calls `use` with the value of the key: a reference to the field, or the word.
template <typename Use>
decltype(auto) WithValue(const Key& key, const SessionSpec& spec, Use use) {
  return std::visit(
      [&](const auto& field) -> decltype(auto) {
        if constexpr (std::is_same_v<std::decay_t<decltype(field)>, WordField>) {
          return use(field.get(spec));
        } else {
          return use(std::as_const(*field(const_cast<SessionSpec&>(spec))));  // the accessor only finds the field
        }
      },
      key.field);
}

void Copy(const Key& key, const SessionSpec& from, SessionSpec* to);
// As people write it: "1g", "60s", "host"; empty: no value.
std::string Show(const Key& key, const SessionSpec& spec);
// The same for two specs exactly if they have the same value.
void AppendExact(const Key& key, const SessionSpec& spec, std::string* text);
// kUpToMaximum: what the operator allows where the configuration says nothing.
SessionSpec DefaultMaxima();
bool Exceeds(const Key& key, const SessionSpec& spec, const SessionSpec& maxima);
// kWord: those that there are.
std::vector<std::string> WordsOf(const Key& key);
// No maximum for any key that can have one.
SessionSpec UnlimitedMaxima();
// Whether the caller set this limit.
bool IsAsked(const Key& key, const SessionSpec& spec);
// Whether the key has a meaning for the executor. Code that needs to tell executors apart asks for a key of theirs.
bool Takes(ExecutorKind executor, std::string_view key);
// Whether sessions like this one add packages: not in another root tree, and in a container only if it stays.
bool TakesPackages(const SessionSpec& spec);
// The first given key that has no meaning for the executor.
const Key* FindMeaningless(const KeySet& given, ExecutorKind executor);
// "sandbox, local"
std::string NamesOf(Executors executors);

}  // namespace cella::policy
