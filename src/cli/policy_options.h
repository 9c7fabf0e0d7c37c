// The options by which people set the keys of a session: declared from the table in src/policy, the same for one-shot
// runs and sessions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cella/policy.h"
#include "language/table.h"
#include "policy/keys.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cella::cli {

inline constexpr const char* kInsideGroup = "What the program sees";

// As typed. An empty limit or directory is not the same as none: a shell variable may not have been set.
struct TypedKeys {
  std::map<const policy::Key*, std::vector<std::string>> texts;
  std::vector<std::string> pass_env;
  std::string config;  // of TaskWeaver
};

// `sessions`: also the options that only sessions have.
void DeclarePolicyOptions(CLI::App& command, bool sessions, TypedKeys* typed);

struct ParsedPolicy {
  SessionSpec spec;
  policy::KeySet given;
  std::vector<std::string> guest_writable;  // real paths
};

Result<ParsedPolicy> ParsePolicy(const TypedKeys& typed);

// An option whose value may be empty: CLI11 takes that as "not given", and we want to know.
CLI::Option* OptionalText(CLI::App& command, const char* name, std::optional<std::string>* value, const char* help);

// The exit code of a wrong command line, also where CLI11 cannot see that it is wrong.
inline constexpr int kExitWrongCommandLine = 2;

// kInvalid: the table has no such language. An empty name is right.
Status CheckLanguage(const std::string& name, const language::LanguageTable& table);

// A check for CLI11: what is wrong with an empty value of an option; empty: nothing.
std::string EmptinessOf(const std::string& text);

// The real path, following no link that guests may have made.
Status ResolvePath(const char* option, std::string* path, const std::vector<std::string>& guest_writable);

}  // namespace cella::cli
