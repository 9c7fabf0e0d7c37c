// Which languages, Pythons and Jupyter kernels are installed. Programs are asked for their version, several at once:
// after this the process has had threads, so what forks comes first.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts.h"
#include "language/host_env.h"
#include "language/table.h"

namespace cella::doctor {

struct LanguageFacts {
  std::vector<LanguageFact> languages;
  std::vector<PythonFact> pythons;
  std::vector<KernelspecFact> kernelspecs;
};

// `environment`: for JUPYTER_PATH and JUPYTER_DATA_DIR.
LanguageFacts FindLanguages(const language::LanguageTable& table, const language::HostEnv& host,
                            const std::vector<std::string>& environment);

// The first dotted number of what a program says to --version; "" when there is none. Pure.
std::string VersionIn(std::string_view text);

}  // namespace cella::doctor
