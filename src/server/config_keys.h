// The keys of cella.toml: the server's own in a table here, those of a session from the one in src/policy. The table
// drives reading, the output of --check-config and docs/configuration.md, so that none of them can forget a key.
// Constant data.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "server/config.h"

namespace cella::server {

// What may be written for a key.
enum class KeyKind {
  kText,
  kPath,   // absolute
  kTexts,  // a list
  kPaths,
  kAddresses,  // to listen on
  kSwitch,     // true or false
  kSize,
  kCount,
  kCountOrZero,
  kDuration,
  kRate,
  kWord,    // one of a few
  kWords,   // a list of those
  kPolicy,  // as the key of the session says
};

template <typename T>
using At = T* (*)(Config&);

// One of a few words, or a list of them: the field has a type of its own, so its key brings its own conversions.
struct WordField {
  std::vector<std::string> (*get)(const Config&);
  bool (*set)(Config&, const std::vector<std::string>&);  // false: one of them is not known
};

// A key of a session, in the defaults or in the maxima.
struct PolicyField {
  SessionSpec Config::* spec;
  const policy::Key* key;
};

using KeyField =
    std::variant<At<std::string>, At<std::vector<std::string>>, At<bool>, At<uint64_t>, At<std::optional<uint64_t>>,
                 At<std::chrono::nanoseconds>, At<std::optional<double>>, WordField, PolicyField>;

struct ConfigKey {
  std::string_view section;  // "server", "policy.limits"
  std::string_view name;
  KeyKind kind;
  KeyField field;
  std::string help;
  // What an empty value means, for documentation: "none", "all"; for kWord and kWords the words that there are.
  std::string_view note = {};
};

// In the order of the documentation; keys of one section are together.
std::span<const ConfigKey> ConfigKeys();

struct ConfigSection {
  std::string_view name;
  std::string_view help;
};
std::span<const ConfigSection> ConfigSections();

std::string_view ToString(LogLevel level);
std::string_view ToString(LogFormat format);
std::optional<LogLevel> ParseLogLevel(std::string_view word);
std::optional<LogFormat> ParseLogFormat(std::string_view word);

}  // namespace cella::server
