#include "cli/install_progress.h"

#include <gtest/gtest.h>

namespace cella::cli {
namespace {

TEST(ProgressBar, FillsAsTheInstallationGoesOnAndNeverFallsBack) {
  ProgressBar bar;
  double before = 0;
  for (const char* line :
       {"Resolved 3 packages in 10ms", "Downloading numpy (16.1MiB)", "Downloading pandas (12MiB)", " Downloaded numpy",
        " Downloaded pandas", "Prepared 3 packages", "Installed 3 packages", "Resolving", "something else"}) {
    bar.Take(line);
    EXPECT_GE(bar.fraction(), before) << line;
    before = bar.fraction();
  }
  EXPECT_GE(before, 0.9);
  EXPECT_LE(before, 1.0);
}

TEST(ProgressBar, KeepsToTheWidthAndToPlainCharacters) {
  ProgressBar bar;
  bar.Take("Downloading \x1b[31m" + std::string(300, 'x'));
  EXPECT_EQ(bar.Render(60).size(), 60u);
  EXPECT_EQ(bar.Render(60).find('\x1b'), std::string::npos);
  EXPECT_TRUE(bar.Render(60).starts_with("[###")) << bar.Render(60);
}

}  // namespace
}  // namespace cella::cli
