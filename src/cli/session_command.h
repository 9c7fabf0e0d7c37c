// `cella session …`: sessions of a running server, from the command line. A thin client of the HTTP API.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace cella::cli {

struct SessionOptions {
  enum class Action { kNew, kList, kShow, kRun, kRuns, kRemove, kFiles, kGet, kPut, kCancel } action = Action::kList;
  std::string url;  // empty: CELLA_URL, else the default socket
  std::string session;
  std::string run;
  std::string policy = "{}";
  std::optional<std::string> code, file, language, timeout;
  std::string remote;       // a file of the session
  std::string local = "-";  // one of ours; standard input or output
  bool json = false;
};

void DeclareSessionOptions(CLI::App& command, SessionOptions* options);
int SessionCommand(const SessionOptions& options);

}  // namespace cella::cli
