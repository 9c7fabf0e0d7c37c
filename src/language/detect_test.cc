#include "language/detect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cella::language {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DetectTest : public ::testing::Test {
 protected:
  std::string Of(DetectRequest request) {
    auto language = Detect(*table_, request);
    return language ? (*language)->name : language.error().message;
  }
  Result<LanguageTable> table_ = LanguageTable::Load(CELLA_LANGUAGES_TOML);
};

TEST_F(DetectTest, NamePrecedesExtensionPrecedesShebang) {
  EXPECT_EQ(Of({.language = "js", .file_name = "a.py", .code = "#!/bin/bash"}), "javascript");
  EXPECT_EQ(Of({.language = "", .file_name = "dir/a.py", .code = "#!/bin/bash"}), "python");
  EXPECT_EQ(Of({.language = "", .file_name = "a.data", .code = "#!/bin/bash"}), "bash");
  EXPECT_EQ(Of({.language = "", .file_name = "tool", .code = "#!/usr/bin/env node\n"}), "javascript");
}

TEST_F(DetectTest, CodeWithoutFileOrShebangIsPython) {
  EXPECT_EQ(Of({.language = "", .file_name = "", .code = "print(1)"}), "python");
  EXPECT_EQ(Of({.language = "", .file_name = "", .code = ""}), "python");
  EXPECT_EQ(Of({.language = "", .file_name = "", .code = "#!/usr/bin/perl -w\n"}), "perl");
}

TEST_F(DetectTest, ShebangOfAShFileIsUsed) {
  EXPECT_EQ(Of({.language = "", .file_name = "a.sh", .code = "#!/bin/bash\n"}), "bash");
  EXPECT_EQ(Of({.language = "", .file_name = "a.sh", .code = "echo"}), "sh");
  EXPECT_EQ(Of({.language = "", .file_name = "a.sh", .code = "#!/bin/unheard-of\n"}), "sh");
}

TEST_F(DetectTest, UnknownLanguageErrorListsKnownOnes) {
  auto language = Detect(*table_, {.language = "cobol", .file_name = "", .code = ""});
  ASSERT_FALSE(language.has_value());
  EXPECT_EQ(language.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(language.error().message,
              AllOf(HasSubstr("'cobol'"), HasSubstr("bash, c, cpp"), HasSubstr("typescript")));
}

TEST_F(DetectTest, UndetectableFileErrorNamesLangOption) {
  for (std::string_view file : {"notes.xyz", "README", ".py", "x."}) {
    EXPECT_THAT(Of({.language = "", .file_name = file, .code = "hello"}), HasSubstr("pass --lang")) << file;
  }
  EXPECT_THAT(Of({.language = "", .file_name = "x", .code = "#!/usr/bin/awk -f"}), HasSubstr("'awk'"));
}

TEST(ShebangTest, FindsTheProgramAfterEnv) {
  EXPECT_EQ(ShebangProgram("#!/usr/bin/env -S python3 -u\nx"), "python3");
  EXPECT_EQ(ShebangProgram("#!/usr/bin/env -Spython3 -u"), "python3");
  EXPECT_EQ(ShebangProgram("#! /usr/bin/env -i A=b -u HOME /opt/x/ruby\r\n"), "ruby");
  EXPECT_EQ(ShebangProgram("#!/bin/sh"), "sh");
  EXPECT_EQ(ShebangProgram("\xef\xbb\xbf#!/bin/sh\n"), "sh");
  EXPECT_EQ(ShebangProgram("#!\n/bin/sh"), "");
  EXPECT_EQ(ShebangProgram("#!/usr/bin/env\n"), "");
  EXPECT_EQ(ShebangProgram(" #!/bin/sh"), "");
  EXPECT_EQ(ShebangProgram("#!"), "");
}

}  // namespace
}  // namespace cella::language
