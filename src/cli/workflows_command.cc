#include "cli/workflows_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cella/outcome.h"
#include "engine/source_check.h"
#include "language/host_path.h"
#include "storage/json.h"
#include "storage/names.h"

namespace cella::cli {
namespace {

using storage::FileStorage;
using storage::Workflow;
using storage::Workflows;

// What changes the direction of text or is not seen (U+200B to U+200F, U+202A to U+202E, U+2060 to U+206F, U+FEFF), and
// the controls U+0080 to U+009F, in UTF-8.
bool IsHiddenCharacter(std::string_view text) {
  const auto byte = [&](size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U; };
  const auto between = [](unsigned value, unsigned low, unsigned high) { return value >= low && value <= high; };
  if (byte(0) == 0xc2) return between(byte(1), 0x80, 0x9f);
  if (byte(0) == 0xe2 && byte(1) == 0x80) return between(byte(2), 0x8b, 0x8f) || between(byte(2), 0xaa, 0xae);
  if (byte(0) == 0xe2 && byte(1) == 0x81) return between(byte(2), 0xa0, 0xaf);
  return byte(0) == 0xef && byte(1) == 0xbb && byte(2) == 0xbf;
}

// Sources come from guests, and people read them before they approve: nothing in them may speak to the terminal, or
// look like other code than it is.
std::string Printable(std::string text) {
  for (size_t at = 0; at < text.size(); ++at) {
    char& c = text[at];
    const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    if (control) c = '?';
    if (IsHiddenCharacter(std::string_view(text).substr(at))) text.replace(at, c == '\xc2' ? 2 : 3, "?");
  }
  return text;
}

Result<std::unique_ptr<FileStorage>> Open(const WorkflowsOptions& options) {
  TRY(std::string path, language::ResolveHostDirectoryForCreation(options.storage, {}));
  if (!std::filesystem::is_directory(path)) return Err(ErrorCode::kNotFound, "'{}' is no storage", options.storage);
  return FileStorage::Open(path, {}, engine::MakeSourceCheck({}));
}

Status List(FileStorage& storage, const WorkflowsOptions& options) {
  TRY(const Workflows workflows, storage.ListWorkflows());
  if (options.json) {
    std::printf("%s\n", storage::ToJson(workflows).dump().c_str());
    return {};
  }
  for (const Workflow& each : workflows.found) {
    std::printf("%-24s  %-8s  %s\n", each.name.c_str(), each.approved ? "approved" : "jail",
                Printable(each.description.substr(0, each.description.find('\n'))).c_str());
  }
  for (const auto& each : workflows.left_out) {
    std::fprintf(stderr, "cella: %s was left out: %s\n", Printable(each.file).c_str(), Printable(each.why).c_str());
  }
  return {};
}

Result<Workflow> Find(FileStorage& storage, const std::string& name) {
  TRY(auto workflow, storage.GetWorkflow(name));
  if (!workflow) return Err(ErrorCode::kNotFound, "there is no workflow '{}'", storage::Shown(name));
  return std::move(*workflow);
}

Status Show(FileStorage& storage, const WorkflowsOptions& options) {
  TRY(const Workflow workflow, Find(storage, options.name));
  if (options.json) {
    std::printf("%s\n", storage::ToJson(workflow).dump().c_str());
  } else {
    std::printf("# sha256 %s\n%s", workflow.sha256.c_str(), Printable(workflow.source).c_str());
  }
  return {};
}

Status Approve(FileStorage& storage, const WorkflowsOptions& options) {
  TRY(const Workflow workflow, Find(storage, options.name));
  // A jail that runs meanwhile may have changed it since it was read.
  if (!options.sha256.empty() && options.sha256 != workflow.sha256) {
    return Err(ErrorCode::kInvalid, "'{}' has changed: its SHA-256 is {}", options.name, workflow.sha256);
  }
  TRY(const Workflow approved, storage.ApproveWorkflow(options.name, workflow.sha256));
  std::printf("%s approved: %s\n", approved.name.c_str(), approved.sha256.c_str());
  return {};
}

}  // namespace

void DeclareWorkflowsOptions(CLI::App& command, WorkflowsOptions* o) {
  command.require_subcommand(1);
  auto add = [&](const char* name, const char* help) {
    CLI::App* one = command.add_subcommand(name, help);
    one->callback([o, name] { o->command = name; });
    one->add_option("--storage", o->storage, "The directory of the storage")->required();
    return one;
  };
  CLI::App* ls = add("ls", "List the workflows of a storage");
  ls->add_flag("--json", o->json, "Print one JSON object");
  CLI::App* show = add("show", "Print the source of a workflow");
  show->add_option("NAME", o->name, "The workflow")->required();
  show->add_flag("--json", o->json, "Print one JSON object");
  CLI::App* approve = add("approve", "Let a workflow that a jail saved run without one");
  approve->add_option("NAME", o->name, "The workflow")->required();
  approve->add_option("--hash", o->sha256, "Only if this is the SHA-256 of its source");
}

int WorkflowsCommand(const WorkflowsOptions& options) {
  auto done = [&]() -> Status {
    TRY(auto storage, Open(options));
    if (options.command == "ls") return List(*storage, options);
    if (options.command == "show") return Show(*storage, options);
    return Approve(*storage, options);
  }();
  if (done) return 0;
  std::fprintf(stderr, "cella: %s\n", done.error().message.c_str());
  return done.error().code == ErrorCode::kNotFound ? kExitNotFound : kExitRejected;
}

}  // namespace cella::cli
