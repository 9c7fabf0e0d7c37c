// Finds the classes of a Java file, as far as it takes to name the file and to start it: javac wants a public class in
// a file of its name, and `java File.java` starts the first class only. A scanner, not a parser: on odd code it
// guesses, and the compiler then says what is wrong.
#pragma once

#include <string>
#include <string_view>

namespace cella::language {

struct JavaSource {
  std::string file_stem = "Main";  // the public class, else the one with main, else the first
  std::string main_class;          // with its package; empty: none was found
  bool main_is_first = true;       // the source launcher will find it
};

JavaSource InspectJava(std::string_view code);

}  // namespace cella::language
