#include "cli/kernels_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/repl/escape_filter.h"
#include "engine/kernels.h"

namespace cella::cli {
namespace {

using Json = nlohmann::json;

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace

void DeclareKernelsOptions(CLI::App& command, KernelsOptions* options) {
  command.add_option("--python", options->python, "The session's Python: a version (3.12) or a path");
  command.add_option("--venv", options->venv, "Its virtual environment");
  command.add_flag("--json", options->json, "Print one JSON object");
  command.footer("Kernels for --executor subprocess --kernel NAME. None of them is started.");
}

int KernelsCommand(const KernelsOptions& options) {
  const auto kernels = engine::ListKernels(options.python, options.venv);
  Json list = Json::array();
  size_t widest = 0;
  for (const auto& kernel : kernels) widest = std::max(widest, kernel.spec.name.size());
  for (const auto& [spec, problem] : kernels) {
    if (options.json) {
      list.push_back({{"name", spec.name},
                      {"display_name", spec.display_name},
                      {"language", spec.language},
                      {"argv", spec.argv},
                      {"works", problem.empty()},
                      {"problem", problem.empty() ? Json(nullptr) : Json(problem)}});
      continue;
    }
    // A kernel.json may be a guest's work: nothing in it may speak to the terminal.
    const std::string about = problem.empty() ? Joined(spec.argv) : "does not work: " + problem;
    std::printf("%-*s  %-10s  %s\n", static_cast<int>(widest), spec.name.c_str(), PlainText(spec.language).c_str(),
                PlainText(about).c_str());
  }
  if (options.json) {
    std::puts(Json{{"kernels", std::move(list)}}.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  } else if (kernels.empty()) {
    std::puts("no kernelspec is installed; a Python with ipykernel needs none");
  }
  return 0;
}

}  // namespace cella::cli
