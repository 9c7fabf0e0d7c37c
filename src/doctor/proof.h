// The proof: a guest is really run in the jail, by the program itself, and its Result is read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts.h"

namespace cella::doctor {

struct ProofRequest {
  std::string program;                   // of `cella`
  std::string language = {};             // "sh", "python"
  std::string code = {};                 // prints "ok"
  std::vector<std::string> environment;  // "NAME=value"
};

// Blocks for as long as the run takes, at most some ten seconds.
ProofFacts Prove(const ProofRequest& request);

// What one line of `cella run --json` says. Pure.
ProofFacts ReadProof(std::string_view json);

}  // namespace cella::doctor
