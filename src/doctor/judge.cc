#include "doctor/judge.h"

#include <algorithm>
#include <cerrno>

#include "base/result.h"

namespace cella::doctor {
namespace {

Check JudgeLanguage(const LanguageFact& fact) {
  Check check{.section = Section::kLanguages, .name = "language:" + fact.name, .detail = fact.program};
  if (!fact.program.empty()) {
    if (!fact.version.empty()) check.detail = fmt::format("{} ({})", fact.version, fact.program);
    return check;
  }
  check.status = fact.obstacle.empty() ? CheckStatus::kInfo : CheckStatus::kDegraded;
  check.detail = fact.obstacle.empty() ? "not found" : fact.obstacle;
  check.fix = fact.install;
  return check;
}

std::string DescribeIsolation(const Isolation& isolation) {
  std::vector<std::string> parts;
  parts.push_back(fmt::format("{} namespaces", isolation.namespaces.size()));
  if (isolation.seccomp) parts.push_back("seccomp");
  if (isolation.landlock > 0) parts.push_back(fmt::format("landlock {}", isolation.landlock));
  parts.push_back("cgroup " + isolation.cgroup);
  parts.push_back("network " + isolation.network);
  parts.push_back("/proc " + isolation.proc);
  for (const char* name : {"memory", "pids", "cpu_time"}) {
    auto limit = isolation.limits.find(name);
    if (limit != isolation.limits.end()) parts.push_back(fmt::format("{} by {}", name, limit->second.by));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string_view ToString(CheckStatus status) {
  switch (status) {
    case CheckStatus::kOk: return "ok";
    case CheckStatus::kDegraded: return "degraded";
    case CheckStatus::kMissing: return "missing";
    case CheckStatus::kInfo: break;
  }
  return "info";
}

Check JudgeEngine(const std::string& engine, const std::vector<EngineAddress>& addresses) {
  Check check{.section = Section::kEngines, .name = engine, .status = CheckStatus::kInfo, .detail = "not found"};
  const EngineAddress* obstacle = nullptr;
  for (const EngineAddress& each : addresses) {
    if (each.engine != engine) continue;
    if (each.remote) {
      check.detail = fmt::format("named by DOCKER_HOST: {} (not contacted)", each.address);
      return check;
    }
    if (each.error == 0) {
      check.status = CheckStatus::kOk;
      check.detail = each.address;
      return check;
    }
    if (each.error != ENOENT && each.error != ENOTDIR && obstacle == nullptr) obstacle = &each;
  }
  if (obstacle == nullptr) return check;
  check.detail = fmt::format("{}: {}", obstacle->address, ErrnoText(obstacle->error));
  if (obstacle->error == EACCES && engine == "docker") {
    check.fix =
        "let this user talk to Docker (which makes it as powerful as root), and log in anew:\n"
        "  sudo usermod -aG docker \"$USER\"\n"
        "or use rootless Docker or Podman";
  } else if (obstacle->error == EACCES) {
    check.fix = "use the socket of this user:\n  systemctl --user enable --now podman.socket";
  } else if (obstacle->error == ECONNREFUSED) {
    check.fix = fmt::format("start it:\n  {}", engine == "docker" ? "sudo systemctl start docker"
                                                                  : "systemctl --user enable --now podman.socket");
  }
  return check;
}

Check JudgeRun(const ProofFacts& proof) {
  Check check{.name = "run", .detail = ""};
  if (!proof.tried) {
    check.status = CheckStatus::kInfo;
    check.detail = "not tried: there is neither sh nor python3 on PATH";
  } else if (proof.ok) {
    check.detail = fmt::format("a {} program ran in a jail in {:.0f} ms: {}", proof.language, proof.total_ms,
                               DescribeIsolation(proof.isolation));
  } else {
    check.status = CheckStatus::kMissing;
    check.detail = fmt::format("a {} program did not run in a jail: {}", proof.language, proof.message);
  }
  return check;
}

Report Judge(const Facts& facts) {
  Report report;
  report.version = facts.version;
  std::vector<Check>& checks = report.checks;
  if (!facts.installation_error.empty()) {
    checks.push_back({.name = "installation",
                      .status = CheckStatus::kMissing,
                      .detail = facts.installation_error,
                      .fix = "install cella again"});
  }
  checks.push_back(JudgeKernel(facts.host));
  checks.push_back(JudgeArchitecture(facts.host));
  checks.push_back(JudgeUserNamespaces(facts));
  checks.push_back(JudgeNamespaces(facts));
  checks.push_back(JudgeProc(facts));
  checks.push_back(JudgeSeccomp(facts));
  checks.push_back(JudgeLandlock(facts.host));
  checks.push_back(JudgeIdmap(facts));
  checks.push_back(JudgeOverlay(facts));
  if (facts.installation_error.empty()) checks.push_back(JudgeRun(facts.proof));
  // What ran, runs: a doubt about a mechanism does not outweigh it.
  bool needed_missing =
      std::ranges::any_of(checks, [](const Check& check) { return check.status == CheckStatus::kMissing; });
  report.sandbox = facts.proof.tried ? facts.proof.ok : !needed_missing;

  checks.push_back(JudgeCgroups(facts));
  checks.push_back(JudgeSwap(facts));
  checks.push_back(JudgeEngine("docker", facts.engines));
  checks.push_back(JudgeEngine("podman", facts.engines));
  for (const LanguageFact& fact : facts.languages) checks.push_back(JudgeLanguage(fact));
  for (const PythonFact& python : facts.pythons) {
    checks.push_back({.section = Section::kLanguages, .name = "python:" + python.path, .detail = python.version});
  }
  for (const KernelspecFact& spec : facts.kernelspecs) {
    std::string detail =
        spec.display_name.empty() ? spec.directory : fmt::format("{} ({})", spec.display_name, spec.directory);
    checks.push_back({.section = Section::kLanguages, .name = "kernelspec:" + spec.name, .detail = std::move(detail)});
  }
  return report;
}

}  // namespace cella::doctor
