#include "language/java_source.h"

#include <gtest/gtest.h>

namespace cella::language {
namespace {

TEST(JavaSourceTest, PublicClassSetsTheFileName) {
  JavaSource source =
      InspectJava("import java.util.*;\npublic final class Hello<T> { public static void main(String[] a) {} }");
  EXPECT_EQ(source.file_stem, "Hello");
  EXPECT_EQ(source.main_class, "Hello");
  EXPECT_TRUE(source.main_is_first);
}

TEST(JavaSourceTest, FindsMainInALaterClass) {
  JavaSource source = InspectJava(
      "package a.b;\nclass Helper { void f() { class main {} } }\n"
      "public class App { public static void main(String... a) {} }");
  EXPECT_EQ(source.file_stem, "App");
  EXPECT_EQ(source.main_class, "a.b.App");
  EXPECT_FALSE(source.main_is_first);
}

TEST(JavaSourceTest, IgnoresCommentsAndStrings) {
  JavaSource source = InspectJava(
      "// public class No {}\n/* class Neither { void main( } */\n@Deprecated\n"
      "record R(String s) { static String t = \"} class X { void main(\"; char c = '\"'; String u = \"\"\"\n } class Y "
      "{\n\"\"\"; }\n"
      "enum E { A, B }\nclass M { static void main(String[] a) {} }");
  EXPECT_EQ(source.file_stem, "M");
  EXPECT_EQ(source.main_class, "M");
  EXPECT_FALSE(source.main_is_first);
}

TEST(JavaSourceTest, IgnoresCallsOfMain) {
  JavaSource source = InspectJava(
      "class A { { main(null); } void x() { B.main(null); } }\nclass B { static void main(String[] a) {} }");
  EXPECT_EQ(source.main_class, "B");
}

TEST(JavaSourceTest, CodeWithoutAClassIsNamedMain) {
  for (std::string_view code : {"", "void main() { }", "}}}}", "\"", "/*", "'", "\"\\", "class"}) {
    JavaSource source = InspectJava(code);
    EXPECT_EQ(source.file_stem, "Main") << code;
    EXPECT_TRUE(source.main_is_first) << code;
  }
}

}  // namespace
}  // namespace cella::language
