#include "language/table.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/unique_fd.h"
#include "language/plain_toml.h"

namespace cella::language {
namespace {

constexpr size_t kMaxTableBytes = size_t{1} << 20;

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// "python3.12" and "lua5.4" without their digits and dots; "" when nothing else remains.
std::string_view WithoutVersion(std::string_view name) {
  while (!name.empty() && ((name.back() >= '0' && name.back() <= '9') || name.back() == '.')) name.remove_suffix(1);
  return name;
}

bool Contains(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::any_of(words, [&](const std::string& each) { return EqualsIgnoringCase(each, word); });
}

Result<std::string> ReadFile(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return SysErr(errno, "open '{}'", path);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return SysErr(errno, "stat '{}'", path);
  if (static_cast<size_t>(info.st_size) > kMaxTableBytes) return Err(ErrorCode::kInvalid, "'{}' is too large", path);
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t filled = 0;
  while (filled < text.size()) {
    ssize_t count = ::read(fd.get(), text.data() + filled, text.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SysErr(errno, "read '{}'", path);
    if (count == 0) break;
    filled += static_cast<size_t>(count);
  }
  text.resize(filled);
  return text;
}

// Assigns values to fields; a misspelt key is an error and not a silently missing feature.
class Reader {
 public:
  Reader(std::string_view origin, const PlainTomlTable& table) : origin_(origin), table_(table) {}

  Status Strings(PlainTomlEntry& entry, std::vector<std::string>& out) const {
    auto* list = std::get_if<std::vector<std::string>>(&entry.value);
    if (list == nullptr) return Bad(entry, "must be a list of strings");
    out = std::move(*list);
    return {};
  }

  Status String(PlainTomlEntry& entry, std::string& out) const {
    auto* text = std::get_if<std::string>(&entry.value);
    if (text == nullptr) return Bad(entry, "must be a string");
    out = std::move(*text);
    return {};
  }

  // True when the key belongs to a recipe.
  Result<bool> RecipeKey(PlainTomlEntry& entry, Recipe& recipe) const {
    std::string_view key = entry.key;
    std::vector<std::string>* list = key == "tools"     ? &recipe.tools
                                     : key == "needs"   ? &recipe.needs
                                     : key == "compile" ? &recipe.compile
                                     : key == "run"     ? &recipe.run
                                                        : nullptr;
    if (list != nullptr) {
      TRY_VOID(Strings(entry, *list));
      return true;
    }
    if (key != "min_version") return false;
    TRY_VOID(String(entry, recipe.min_version));
    return true;
  }

  std::unexpected<Error> Bad(const PlainTomlEntry& entry, std::string_view what) const {
    return Err(ErrorCode::kInvalid, "{}:{}: '{}' {}", origin_, entry.line, entry.key, what);
  }
  std::unexpected<Error> Unknown(const PlainTomlEntry& entry, std::string_view what, std::string_view name) const {
    return Err(ErrorCode::kInvalid, "{}:{}: unknown {} '{}'", origin_, entry.line, what, name);
  }
  std::unexpected<Error> Missing(std::string_view what) const {
    return Err(ErrorCode::kInvalid, "{}:{}: '{}' lacks {}", origin_, table_.line, table_.name, what);
  }

 private:
  std::string_view origin_;
  const PlainTomlTable& table_;
};

Status ReadFlags(const Reader& reader, PlainTomlEntry& entry, Language& language) {
  std::vector<std::string> flags;
  TRY_VOID(reader.Strings(entry, flags));
  for (const std::string& flag : flags) {
    bool* target = flag == "python"         ? &language.python
                   : flag == "calls_python" ? &language.calls_python
                   : flag == "java_class"   ? &language.java_class
                   : flag == "js_module"    ? &language.js_module
                   : flag == "shebang_wins" ? &language.shebang_wins
                   : flag == "save_only"    ? &language.save_only
                                            : nullptr;
    if (target == nullptr) return reader.Unknown(entry, "flag", flag);
    *target = true;
  }
  return {};
}

Status ReadKey(const Reader& reader, PlainTomlEntry& entry, Language& language) {
  std::string_view key = entry.key;
  std::vector<std::string>* list = key == "aliases"      ? &language.aliases
                                   : key == "extensions" ? &language.extensions
                                   : key == "shebangs"   ? &language.shebangs
                                   : key == "comments"   ? &language.comments
                                   : key == "etc"        ? &language.etc
                                   : key == "ask"        ? &language.ask
                                                         : nullptr;
  if (list != nullptr) return reader.Strings(entry, *list);
  if (key == "install") return reader.String(entry, language.install);
  if (key == "flags") return ReadFlags(reader, entry, language);
  if (key == "ask_gives") {
    std::string gives;
    TRY_VOID(reader.String(entry, gives));
    if (gives != "prefix" && gives != "program") return reader.Bad(entry, "must be \"prefix\" or \"program\"");
    language.ask_gives = gives == "prefix" ? AskGives::kPrefix : AskGives::kProgram;
    return {};
  }
  if (key == "env") {
    auto* env = std::get_if<std::vector<std::pair<std::string, std::string>>>(&entry.value);
    if (env == nullptr) return reader.Bad(entry, "must be a table of strings");
    language.env = std::move(*env);
    return {};
  }
  return reader.Unknown(entry, "key", key);
}

Result<Recipe> ReadRecipe(const Reader& reader, PlainTomlTable& table) {
  Recipe recipe;
  for (PlainTomlEntry& entry : table.entries) {
    TRY(bool known, reader.RecipeKey(entry, recipe));
    if (!known) return reader.Unknown(entry, "key", entry.key);
  }
  if (recipe.run.empty()) return reader.Missing("run");
  return recipe;
}

Result<Language> ReadLanguage(const Reader& reader, PlainTomlTable& table) {
  Language language;
  language.name = table.name;
  Recipe recipe;
  for (PlainTomlEntry& entry : table.entries) {
    TRY(bool of_recipe, reader.RecipeKey(entry, recipe));
    if (!of_recipe) TRY_VOID(ReadKey(reader, entry, language));
  }
  if (language.extensions.empty()) return reader.Missing("extensions");
  if (language.save_only) return language;
  if (recipe.tools.empty() || recipe.run.empty()) return reader.Missing("tools or run");
  language.recipes.push_back(std::move(recipe));
  return language;
}

}  // namespace

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return Lower(x) == Lower(y); });
}

Result<LanguageTable> LanguageTable::Load(const std::string& path) {
  TRY(std::string text, ReadFile(path));
  return Parse(text, path);
}

Result<LanguageTable> LanguageTable::Parse(std::string_view text, std::string_view origin) {
  TRY(std::vector<PlainTomlTable> tables, ParsePlainToml(text, origin));
  LanguageTable result;
  result.languages_.reserve(tables.size());
  for (PlainTomlTable& table : tables) {
    Reader reader(origin, table);
    if (!table.array_element && !table.name.contains('.')) {
      TRY(Language language, ReadLanguage(reader, table));
      result.languages_.push_back(std::move(language));
      continue;
    }
    // A sub-table follows its language.
    size_t dot = table.name.find('.');
    if (result.languages_.empty() || table.name.substr(0, dot) != result.languages_.back().name) {
      return Err(ErrorCode::kInvalid, "{}:{}: '{}' does not follow its language", origin, table.line, table.name);
    }
    Language& language = result.languages_.back();
    TRY(Recipe recipe, ReadRecipe(reader, table));
    std::string_view part = table.name.substr(dot + 1);
    if (part == "alternatives" && table.array_element) {
      if (recipe.tools.empty()) return reader.Missing("tools");
      language.recipes.push_back(std::move(recipe));
    } else if (part == "by_class" && !table.array_element) {
      language.by_class = std::move(recipe);
    } else {
      return Err(ErrorCode::kInvalid, "{}:{}: unknown table '{}'", origin, table.line, table.name);
    }
  }
  return result;
}

const Language* LanguageTable::Find(std::string_view name) const {
  for (std::string_view wanted : {name, WithoutVersion(name)}) {
    if (wanted.empty()) continue;
    for (const Language& language : languages_) {
      if (EqualsIgnoringCase(language.name, wanted) || Contains(language.aliases, wanted)) return &language;
    }
  }
  return nullptr;
}

const Language* LanguageTable::FindByExtension(std::string_view extension) const {
  if (extension.empty()) return nullptr;
  for (const Language& language : languages_) {
    if (Contains(language.extensions, extension)) return &language;
  }
  return nullptr;
}

const Language* LanguageTable::FindByShebang(std::string_view program) const {
  for (std::string_view wanted : {program, WithoutVersion(program)}) {
    if (wanted.empty()) continue;
    for (const Language& language : languages_) {
      if (Contains(language.shebangs, wanted)) return &language;
    }
  }
  return nullptr;
}

std::string LanguageTable::Names() const {
  std::vector<std::string_view> names;
  names.reserve(languages_.size());
  for (const Language& language : languages_) names.push_back(language.name);
  std::ranges::sort(names);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace cella::language
