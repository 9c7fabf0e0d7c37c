#include "language/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "language/plain_toml.h"

#include <toml++/toml.h>

namespace cella::language {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const LanguageTable& Shipped() {
  static const LanguageTable table = [] {
    auto loaded = LanguageTable::Load(CELLA_LANGUAGES_TOML);
    EXPECT_TRUE(loaded.has_value()) << (loaded ? "" : loaded.error().message);
    return loaded ? std::move(*loaded) : LanguageTable();
  }();
  return table;
}

std::string NameOf(const Language* language) { return language == nullptr ? "none" : language->name; }

TEST(LanguageTableTest, FindsByNameAndAliasIgnoringCaseAndVersion) {
  for (auto [given, name] : std::initializer_list<std::pair<const char*, const char*>>{{"Python", "python"},
                                                                                       {"py", "python"},
                                                                                       {"python3.12", "python"},
                                                                                       {"PY", "python"},
                                                                                       {"shell", "sh"},
                                                                                       {"bash", "bash"},
                                                                                       {"js", "javascript"},
                                                                                       {"node", "javascript"},
                                                                                       {"ts", "typescript"},
                                                                                       {"c++", "cpp"},
                                                                                       {"golang", "go"},
                                                                                       {"rs", "rust"},
                                                                                       {"pwsh", "powershell"},
                                                                                       {"ps1", "powershell"},
                                                                                       {"lua5.4", "lua"},
                                                                                       {"R", "r"},
                                                                                       {"html", "html"},
                                                                                       {"md", "markdown"},
                                                                                       {"C", "c"},
                                                                                       {"php8.2", "php"},
                                                                                       {"cobol", "none"},
                                                                                       {"", "none"},
                                                                                       {"3.12", "none"}}) {
    EXPECT_EQ(NameOf(Shipped().Find(given)), name) << given;
  }
}

TEST(LanguageTableTest, FindsByExtensionAndShebang) {
  EXPECT_EQ(NameOf(Shipped().FindByExtension("PY")), "python");
  EXPECT_EQ(NameOf(Shipped().FindByExtension("cc")), "cpp");
  EXPECT_EQ(NameOf(Shipped().FindByExtension("R")), "r");
  EXPECT_EQ(NameOf(Shipped().FindByExtension("xyz")), "none");
  EXPECT_EQ(NameOf(Shipped().FindByExtension("")), "none");
  EXPECT_EQ(NameOf(Shipped().FindByShebang("python3.11")), "python");
  EXPECT_EQ(NameOf(Shipped().FindByShebang("awk")), "none");
}

TEST(LanguageTableTest, EveryNameBelongsToOneLanguage) {
  std::set<std::string> names;
  std::set<std::string> extensions;
  for (const Language& language : Shipped().languages()) {
    EXPECT_TRUE(names.insert(language.name).second) << language.name;
    for (const std::string& alias : language.aliases) EXPECT_TRUE(names.insert(alias).second) << alias;
    for (const std::string& extension : language.extensions)
      EXPECT_TRUE(extensions.insert(extension).second) << extension;
  }
}

TEST(LanguageTableTest, EveryRunnableLanguageHasToolCommandAndHint) {
  EXPECT_GE(Shipped().languages().size(), 20u);
  for (const Language& language : Shipped().languages()) {
    EXPECT_EQ(language.recipes.empty(), language.save_only) << language.name;
    if (language.save_only) continue;
    EXPECT_FALSE(language.install.empty()) << language.name;
    for (const Recipe& recipe : language.recipes) {
      EXPECT_THAT(recipe.run, Contains("{args}")) << language.name;
      const std::vector<std::string>& with_file = recipe.compile.empty() ? recipe.run : recipe.compile;
      EXPECT_THAT(with_file, Contains("{file}")) << language.name;
    }
  }
}

TEST(LanguageTableTest, TypeScriptAlternativesAreInOrder) {
  std::vector<std::string> first;
  for (const Recipe& recipe : Shipped().Find("ts")->recipes) first.push_back(recipe.tools.front());
  EXPECT_THAT(first, ElementsAre("tsx", "ts-node", "deno", "bun", "node"));
}

// The file must stay TOML for every other reader, and mean the same to it.
TEST(LanguageTableTest, ShippedFileParsesEquallyWithAGeneralParser) {
  std::ostringstream text;
  text << std::ifstream(CELLA_LANGUAGES_TOML).rdbuf();
  std::string content = text.str();
  toml::parse_result general = toml::parse(content);
  ASSERT_TRUE(static_cast<bool>(general)) << general.error().description();
  auto plain = ParsePlainToml(content, "languages.toml");
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  size_t alternative = 0;
  for (const PlainTomlTable& table : *plain) {
    alternative = table.array_element ? alternative : 0;
    std::string path(table.name);
    if (table.array_element) path += "[" + std::to_string(alternative++) + "]";
    const toml::table* same = general.table().at_path(path).as_table();
    ASSERT_NE(same, nullptr) << path;
    for (const PlainTomlEntry& entry : table.entries) {
      const toml::node* value = same->get(entry.key);
      ASSERT_NE(value, nullptr) << path << "." << entry.key;
      if (auto* string = std::get_if<std::string>(&entry.value)) EXPECT_EQ(value->value_or(std::string("?")), *string);
      if (auto* list = std::get_if<std::vector<std::string>>(&entry.value)) {
        ASSERT_EQ(value->as_array()->size(), list->size());
        for (size_t i = 0; i < list->size(); ++i)
          EXPECT_EQ(value->as_array()->get(i)->value_or(std::string("?")), (*list)[i]);
      }
    }
  }
}

TEST(LanguageTableTest, RejectsUnknownKeys) {
  auto message = [](std::string_view text) {
    auto table = LanguageTable::Parse(text, "f");
    return table ? "accepted" : table.error().message;
  };
  EXPECT_THAT(message("[x]\nextensions = [\"x\"]\ntoolz = [\"a\"]"), HasSubstr("f:3: unknown key 'toolz'"));
  EXPECT_THAT(message("[x]\nextensions = [\"x\"]\nflags = [\"a\"]"), HasSubstr("unknown flag 'a'"));
  EXPECT_THAT(message("[x]\nextensions = \"x\""), HasSubstr("must be a list"));
  EXPECT_THAT(message("[x]\nextensions = [\"x\"]"), HasSubstr("lacks tools or run"));
  EXPECT_THAT(message("[x]\ntools = [\"x\"]"), HasSubstr("lacks extensions"));
  EXPECT_THAT(message("[[y.alternatives]]\nrun = [\"x\"]"), HasSubstr("does not follow its language"));
}

TEST(LanguageTableTest, MissingFileIsNotFound) {
  auto table = LanguageTable::Load("/nonexistent/languages.toml");
  ASSERT_FALSE(table.has_value());
  EXPECT_EQ(table.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace cella::language
