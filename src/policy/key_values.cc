// The values of keys: copied, shown, compared.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/units.h"
#include "policy/keys.h"
#include "policy/read.h"

namespace cella::policy {
namespace {

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

struct Unlimit {
  SessionSpec& spec;

  void operator()(At<Nanoseconds> field) const { *field(spec) = Nanoseconds::max(); }
  void operator()(At<Limit<Nanoseconds>> field) const { field(spec)->value = Nanoseconds::max(); }
  void operator()(At<Limit<uint64_t>> field) const { field(spec)->value = std::numeric_limits<uint64_t>::max(); }
  void operator()(At<std::optional<double>> field) const { field(spec)->reset(); }
  void operator()(const auto&) const {}  // has no maximum
};

struct Asked {
  template <typename T>
  bool operator()(const Limit<T>& limit) const {
    return limit.asked;
  }
  bool operator()(const std::optional<double>& share) const { return share.has_value(); }
  bool operator()(const auto&) const { return false; }  // no limit
};

}  // namespace

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
  for (const Key& key : Keys()) {
    if (!key.maximum.empty() && key.maximum != "none") (void)SetText(key, key.maximum, &maxima);
  }
  return maxima;
}

SessionSpec UnlimitedMaxima() {
  SessionSpec maxima;
  for (const Key& key : Keys()) {
    if (key.ask == Ask::kUpToMaximum) std::visit(Unlimit{maxima}, key.field);
  }
  return maxima;
}

bool IsAsked(const Key& key, const SessionSpec& spec) { return WithValue(key, spec, Asked{}); }

bool Takes(ExecutorKind executor, std::string_view key) {
  const Key* found = Find(key);
  return found != nullptr && Has(found->executors, executor);
}

bool TakesPackages(const SessionSpec& spec) {
  const Policy& policy = spec.policy;
  return Takes(spec.executor, "deps") && policy.rootfs.empty() && policy.container.mode == ContainerMode::kSession;
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

bool KeySet::Has(std::string_view name) const {
  const Key* key = Find(name);
  return key != nullptr && Has(*key);
}

const Key* FindMeaningless(const KeySet& given, ExecutorKind executor) {
  for (const Key& key : Keys()) {
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
