// From facts to advice. Pure functions: the same facts give the same report on every machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/check.h"
#include "doctor/facts.h"

namespace cella::doctor {

Report Judge(const Facts& facts);

// The parts. judge_namespaces.cc:
Check JudgeUserNamespaces(const Facts& facts);
Check JudgeNamespaces(const Facts& facts);
Check JudgeProc(const Facts& facts);
Check JudgeOverlay(const Facts& facts);
// judge_host.cc:
Check JudgeKernel(const HostFacts& host);
Check JudgeArchitecture(const HostFacts& host);
Check JudgeSeccomp(const Facts& facts);
Check JudgeLandlock(const HostFacts& host);
Check JudgeIdmap(const Facts& facts);
Check JudgeCgroups(const Facts& facts);
Check JudgeSwap(const Facts& facts);
// judge.cc:
Check JudgeEngine(const std::string& engine, const std::vector<EngineAddress>& addresses);
Check JudgeRun(const ProofFacts& proof);

// The text of an AppArmor profile that lets the program at this path create user namespaces; nothing else changes for
// it.
std::string AppArmorProfile(std::string_view launcher);

}  // namespace cella::doctor
