#include "doctor/gather.h"

#include "doctor/cgroup_probe.h"
#include "doctor/engine_probe.h"
#include "doctor/host_probe.h"
#include "doctor/language_probe.h"
#include "doctor/namespace_probe.h"
#include "doctor/proof.h"
#include "language/tool.h"
#include "language/visible.h"

namespace cella::doctor {
namespace {

ProofFacts RunProof(const GatherOptions& options) {
  ProofRequest request{.program = options.program, .environment = options.environment};
  if (!language::FindOnPath("sh", options.host.path).empty()) {
    request.language = "sh";
    request.code = "echo ok";
  } else if (!language::FindOnPath("python3", options.host.path).empty()) {
    request.language = "python";
    request.code = "print('ok')";
  } else {
    return {};
  }
  return Prove(request);
}

}  // namespace

Facts Gather(const GatherOptions& options) {
  Facts facts;
  facts.version = options.version;
  facts.installation_error = options.installation_error;
  // AppArmor attaches its profiles by the real path.
  if (!options.launcher.empty()) facts.launcher = language::RealPath(options.launcher);
  facts.host = ObserveHost(options.environment);
  facts.host.builder = CurrentBuilder();
  facts.host.directory = options.host.cwd.empty() ? "/" : options.host.cwd;
  // Before anything forks: a cgroup v2 can hand down controllers only while this process is alone in it.
  facts.cgroup = TryCgroups();
  facts.kernel = TryKernel(facts.host.builder, facts.host.directory);
  facts.engines = TryEngines(options.environment);
  if (options.installation_error.empty()) facts.proof = RunProof(options);
  if (options.table != nullptr) {
    LanguageFacts found = FindLanguages(*options.table, options.host, options.environment);
    facts.languages = std::move(found.languages);
    facts.pythons = std::move(found.pythons);
    facts.kernelspecs = std::move(found.kernelspecs);
  }
  return facts;
}

}  // namespace cella::doctor
