// What is typed behind a colon: a command for the REPL, or (":bash ls") code for another language.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cella::cli {

struct ColonCommand {
  std::string name;      // without the colon
  std::string argument;  // without white space around it
};

// Nothing: it is no command but code.
std::optional<ColonCommand> ParseColonCommand(std::string_view entry);

// What :help prints.
std::string_view ColonHelp();

// The command names that begin so, for Tab.
std::string_view ColonNames();  // separated by spaces

}  // namespace cella::cli
