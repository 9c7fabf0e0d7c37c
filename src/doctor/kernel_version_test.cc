#include "doctor/kernel_version.h"

#include <gtest/gtest.h>

namespace cella::doctor {
namespace {

TEST(KernelVersionTest, ParsesReleasesOfDistributions) {
  EXPECT_EQ(ParseKernelVersion("6.1.0-18-amd64"), (KernelVersion{6, 1}));
  EXPECT_EQ(ParseKernelVersion("5.14.0-427.el9.x86_64"), (KernelVersion{5, 14}));
  EXPECT_EQ(ParseKernelVersion("6.9-rc3"), (KernelVersion{6, 9}));
  EXPECT_EQ(ParseKernelVersion("6.12"), (KernelVersion{6, 12}));
  EXPECT_EQ(ParseKernelVersion("5.15.153.1-microsoft-standard-WSL2"), (KernelVersion{5, 15}));
}

TEST(KernelVersionTest, RejectsMalformedRelease) {
  for (const char* text : {"", "6", "6.", "linux", ".1", "-1.2", "6.-1"}) {
    EXPECT_FALSE(ParseKernelVersion(text)) << text;
  }
}

TEST(KernelVersionTest, ComparesNumerically) {
  EXPECT_LT(*ParseKernelVersion("5.4.0"), kSupportedKernel);
  EXPECT_LT(*ParseKernelVersion("5.13.19"), kSupportedKernel);
  EXPECT_GE(*ParseKernelVersion("5.14.0"), kSupportedKernel);
  EXPECT_GE(*ParseKernelVersion("6.1.0"), kSupportedKernel);
  EXPECT_GE(*ParseKernelVersion("5.12.0"), kNeededKernel);
}

}  // namespace
}  // namespace cella::doctor
