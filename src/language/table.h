// The language table: what is known about each language, loaded from languages.toml. Plain values after loading;
// may be read from any thread. Pointers returned by Find() live as long as the table.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cella::language {

// One way to run a file: programs that are called alike, and their command lines.
struct Recipe {
  std::vector<std::string> tools;
  std::vector<std::string> needs;
  std::string min_version;  // of the tool, as it answers to --version; empty: any
  std::vector<std::string> compile;
  std::vector<std::string> run;
};

enum class AskGives { kPrefix, kProgram };

struct Language {
  std::string name;
  std::vector<std::string> aliases;
  std::vector<std::string> extensions;
  std::vector<std::string> shebangs;
  std::vector<std::string> comments;
  std::vector<Recipe> recipes;  // in order of preference; empty when save_only
  Recipe by_class;              // Java only: compile and run a class that is not the file's first
  std::vector<std::pair<std::string, std::string>> env;
  std::vector<std::string> etc;
  std::vector<std::string> ask;
  AskGives ask_gives = AskGives::kProgram;
  std::string install;

  // Flags.
  bool python = false;        // the interpreter is chosen by ResolvePython
  bool calls_python = false;  // a shell: programs of the active virtual environment must be found
  bool java_class = false;    // the file is named after its class
  bool js_module = false;     // code with import or export is named .mjs
  bool shebang_wins = false;  // the extension does not settle the language
  bool save_only = false;     // written to the workspace, never run
};

class LanguageTable {
 public:
  static Result<LanguageTable> Load(const std::string& path);
  // `origin` is what messages call the text.
  static Result<LanguageTable> Parse(std::string_view text, std::string_view origin);

  // By name or alias, without case; a trailing version as in "python3.12" is ignored. Null when unknown.
  const Language* Find(std::string_view name) const;
  const Language* FindByExtension(std::string_view extension) const;
  const Language* FindByShebang(std::string_view program) const;

  const std::vector<Language>& languages() const { return languages_; }
  // "bash, c, cpp, …", sorted, for messages.
  std::string Names() const;

 private:
  std::vector<Language> languages_;
};

// ASCII, without regard to the locale.
bool EqualsIgnoringCase(std::string_view a, std::string_view b);

}  // namespace cella::language
