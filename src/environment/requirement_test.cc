#include "environment/requirement.h"

#include <gtest/gtest.h>

#include "environment/allow_list.h"

namespace cella::environment {
namespace {

std::string Canonical(std::string_view text) {
  auto parsed = ParseRequirement(text);
  return parsed ? parsed->text : "refused: " + parsed.error().message;
}

TEST(RequirementTest, WritesTheCanonicalForm) {
  EXPECT_EQ(Canonical("six"), "six");
  EXPECT_EQ(Canonical("  Zope.Interface "), "zope-interface");
  EXPECT_EQ(Canonical("a__b..c"), "a-b-c");
  EXPECT_EQ(Canonical("numpy>=2, <3"), "numpy>=2,<3");
  EXPECT_EQ(Canonical("numpy (>=2,)"), "numpy>=2");
  EXPECT_EQ(Canonical("requests[Socks, security ,socks]~=2.31"), "requests[security,socks]~=2.31");
  EXPECT_EQ(Canonical("requests[]"), "requests");
  EXPECT_EQ(Canonical("x == 1.*"), "x==1.*");
  EXPECT_EQ(Canonical("x==1!2.0rc1.post2.dev3+local.1"), "x==1!2.0rc1.post2.dev3+local.1");
  EXPECT_EQ(Canonical("x; python_version<'3.12'and(os_name=='posix' or extra not  in \"a b\")"),
            "x ; python_version < \"3.12\" and (os_name == \"posix\" or extra not in \"a b\")");
}

TEST(RequirementTest, RefusesWhatAnInstallerCouldTakeForSomethingElse) {
  for (const char* text : {"",
                           " ",
                           "--index-url=http://evil",
                           "-r x",
                           "-e .",
                           "numpy; import os",
                           "../x",
                           "./x",
                           ".x",
                           "x/y",
                           "/etc/passwd",
                           "git+https://h/x",
                           "file:///x",
                           "x @ https://h/x.whl",
                           "x@1",
                           "https://h/x.whl",
                           "x.whl",
                           "x.tar.gz",
                           "x.ZIP",
                           "requirements.txt",
                           "a.toml",
                           "numpy 2",
                           "numpy=2",
                           "numpy=>2",
                           "numpy>=",
                           "numpy===2",
                           "numpy>=2.*",
                           "numpy~=2",
                           "numpy>=1+cu1",
                           "numpy>=2,,<3",
                           "numpy>=2 <3",
                           "-numpy",
                           "numpy-",
                           "n\xC3\xBCmpy",
                           "x\ny",
                           "x#y",
                           "x$y",
                           "`x`",
                           "x\\y",
                           "x[a",
                           "x[a b]",
                           "x[-a]",
                           "x(>=2",
                           "x;",
                           "x; 3 < python_version",
                           "x; python_version",
                           "x; foo == 'a'",
                           "x; python_version < \"3' or os_name == \"a",
                           "x; (os_name == 'a'",
                           "x) ",
                           "x>=1 junk",
                           "x<a"}) {
    EXPECT_FALSE(ParseRequirement(text)) << text;
  }
  EXPECT_FALSE(ParseRequirement(std::string_view("x\0y", 3)));
  EXPECT_FALSE(ParseRequirement(std::string(513, 'a')));
}

TEST(RequirementTest, RefusesDeepMarkers) {
  auto nested = [](int depth) {
    return "x; " + std::string(static_cast<size_t>(depth), '(') + "os_name == 'a'" +
           std::string(static_cast<size_t>(depth), ')');
  };
  EXPECT_TRUE(ParseRequirement(nested(16)));
  EXPECT_FALSE(ParseRequirement(nested(17)));
}

TEST(RequirementTest, BoundsTheNumberOfSpecs) {
  EXPECT_FALSE(ParseRequirements(std::vector<std::string>(10'000, "six")));
  auto parsed = ParseRequirements(std::vector<std::string>{"b", "a", "B"});
  ASSERT_TRUE(parsed);
  ASSERT_EQ(parsed->size(), 2u);
  EXPECT_EQ(parsed->front().name, "a");
}

TEST(RequirementTest, ErrorShowsTheTextWithoutControlCharacters) {
  auto refused = ParseRequirement("x\x1b[31m" + std::string(200, 'y'));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message.find('\x1b'), std::string::npos);
  EXPECT_LT(refused.error().message.size(), 250u);
}

TEST(VersionTest, FollowsPep440) {
  for (const char* text : {"1", "1.0", "2024.1.2", "v1.0", "1!1", "1a1", "1.0-alpha.1", "1.0rc", "1.0.post1", "1.0-1",
                           "1.0.dev2", "1.0a1.post2.dev3", "1.0+abc.5", "1.0C1"}) {
    EXPECT_TRUE(IsVersion(text)) << text;
  }
  for (const char* text : {"", "a", "1.", ".1", "1..2", "1.0+", "1.0+a..b", "1.0x", "1 .0", "1!", "1.0.*"}) {
    EXPECT_FALSE(IsVersion(text)) << text;
  }
}

TEST(PackageRulesTest, DenyListOutweighsAllowList) {
  auto check = [](const PackageRules& rules, const char* text) {
    return rules.Check({*ParseRequirement(text)}).has_value();
  };
  EXPECT_TRUE(check({}, "six"));
  EXPECT_TRUE(check({{"six"}, {}}, "SIX>=1"));
  EXPECT_FALSE(check({{"six"}, {}}, "rich"));
  EXPECT_FALSE(check({{"six"}, {"six"}}, "six"));
}

TEST(PackageRulesTest, DenyListHoldsForPackagesThatOthersNeed) {
  const std::string lock = "Py_gments==2.0 --hash=sha256:1\nrich==14.0 --hash=sha256:2\n";
  EXPECT_TRUE(PackageRules({{"rich"}, {}}).CheckLock(lock));
  EXPECT_TRUE(PackageRules({{}, {"pygments"}}).CheckLock(lock));
  EXPECT_FALSE(PackageRules({{}, {"py-gments"}}).CheckLock(lock));
  EXPECT_FALSE(PackageRules({{"rich"}, {"rich"}}).CheckLock(lock));
}

}  // namespace
}  // namespace cella::environment
