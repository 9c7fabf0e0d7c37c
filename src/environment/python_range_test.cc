#include "environment/python_range.h"

#include <gtest/gtest.h>

namespace cella::environment {
namespace {

TEST(PythonRangeTest, ComparesNumbersAndNotText) {
  EXPECT_TRUE(Permits("", "3.11.2"));
  EXPECT_TRUE(Permits(">=3.9", "3.11.2"));
  EXPECT_FALSE(Permits(">=3.12", "3.11.2"));
  EXPECT_TRUE(Permits(">=3.8,<4", "3.11.2"));
  EXPECT_FALSE(Permits(">=3.8,<3.11", "3.11.2"));
  EXPECT_TRUE(Permits("==3.11.*", "3.11.2"));
  EXPECT_FALSE(Permits("!=3.11.*", "3.11.2"));
  EXPECT_FALSE(Permits("==3.11", "3.11.2"));
  EXPECT_TRUE(Permits("~=3.10", "3.11.2"));
  EXPECT_FALSE(Permits("~=3.10.0", "3.11.2"));
  EXPECT_TRUE(Permits("==3.11.2", "3.11.2"));
}

}  // namespace
}  // namespace cella::environment
