// What a guest can do, derived from its optional interfaces and a row of traits per language. Every surface that
// reports or tests a capability asks here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cella::run {

class Guest;

struct Traits {
  bool state = false;   // variables stay from run to run
  bool value = false;   // the last expression is the value
  bool errors = false;  // an exception has name, message and traceback
  bool display = false;
  bool input = false;      // an input request can be answered
  bool interrupt = false;  // code may catch it; else an interrupt cancels the run
};

// A process per block: state, values and interrupts do not exist.
inline constexpr Traits kPrograms{};
inline constexpr Traits kCells{
    .state = true, .value = true, .errors = true, .display = true, .input = true, .interrupt = true};

// What the isolation of a guest names as `runs_as` when its code runs in this process.
inline constexpr std::string_view kRunsInThisProcess = "this process";

// The names that `guest` supports, sorted; `language` is the one that its sessions are mostly used with.
std::vector<std::string_view> Capabilities(Guest& guest, std::string_view language);
// False for a word that is no capability.
bool Supports(Guest& guest, std::string_view language, std::string_view capability);

}  // namespace cella::run
