#include "cli/repl/colon_command.h"

namespace cella::cli {
namespace {

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n";
  size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace

std::optional<ColonCommand> ParseColonCommand(std::string_view entry) {
  if (!entry.starts_with(':')) return std::nullopt;
  entry.remove_prefix(1);
  size_t end = std::min(entry.find_first_of(" \t\n"), entry.size());
  return ColonCommand{std::string(entry.substr(0, end)), std::string(Trim(entry.substr(end)))};
}

std::string_view ColonHelp() {
  return R"(:help               this text
:reset              forget all variables and end all processes; files stay
:files              list the workspace
:deps               list the packages that were added; :deps add NAME, :deps remove NAME
:load FILE          run a file of this machine
:checkpoint NAME    remember the Python variables as they are now
:rollback NAME      go back to them
:checkpoints        list what is remembered
:drop NAME          forget one of them
:lang [NAME]        show or change the language of what is typed
:NAME CODE          run one line in another language, as :bash ls -l
:time on|off        show what each run took
:info               what confines the code, and its limits
:quit               leave (also Ctrl-D, exit, quit)

Enter runs what is complete and goes on with what is not; an empty line ends a block; Alt-Enter breaks the line in any
case. Tab completes. Up, Down and Ctrl-R find earlier entries; one that begins with a space is not kept.
Ctrl-C clears the line, or interrupts the run; pressed again within two seconds, it kills the run.
)";
}

std::string_view ColonNames() {
  return "help reset files deps load checkpoint rollback checkpoints drop lang time info quit";
}

}  // namespace cella::cli
