#include "cli/doctor_command.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "cli/kept_containers.h"
#include "confine/ask_program.h"
#include "doctor/gather.h"
#include "doctor/judge.h"
#include "doctor/render.h"
#include "engine/installation.h"
#include "os/io.h"

extern char** environ;

namespace cella::cli {
namespace {

doctor::TableStyle StyleOfOutput() {
  doctor::TableStyle style;
  if (isatty(STDOUT_FILENO) == 0) return style;
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  bool plain =
      (no_colour != nullptr && *no_colour != '\0') || (terminal != nullptr && std::string_view(terminal) == "dumb");
  if (!plain) style.colours = doctor::Colours::kOn;
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    style.width = std::clamp<int>(size.ws_col, 60, 120);
  return style;
}

}  // namespace

int DoctorCommand(const DoctorOptions& options) {
  signal(SIGPIPE, SIG_IGN);
  doctor::GatherOptions gather;
  gather.version = options.version;
  gather.program = "/proc/self/exe";
  gather.host = language::HostEnv::FromProcess();
  for (char** entry = environ; *entry != nullptr; ++entry) gather.environment.emplace_back(*entry);
  auto installation = engine::FindInstallation();
  Result<language::LanguageTable> table = Err(ErrorCode::kNotFound, "no language table");
  if (installation) {
    gather.launcher = installation->launcher;
    gather.host.asker = confine::MakeProgramAsker(installation->launcher);
    table = language::LanguageTable::Load(installation->languages);
    if (!table) gather.installation_error = table.error().message;
  } else {
    gather.installation_error = installation.error().message;
  }
  if (table) gather.table = &*table;

  doctor::Report report = doctor::Judge(doctor::Gather(gather));
  for (doctor::Check& kept : FindKeptContainers()) report.checks.push_back(std::move(kept));
  std::string text = options.json ? doctor::RenderJson(report) : doctor::RenderTable(report, StyleOfOutput());
  (void)os::WriteAll(STDOUT_FILENO, text);
  return report.sandbox ? 0 : 1;
}

}  // namespace cella::cli
