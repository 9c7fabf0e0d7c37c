// The environment variables of a guest: a small fixed set, what the language needs, and what the policy names. Nothing
// else of the host's.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cella/policy.h"
#include "language/plan.h"

namespace cella::confine {

class EnvVars {
 public:
  void Set(std::string name, std::string value);
  const std::string* Find(const std::string& name) const;
  std::vector<std::string> Encode() const;  // "K=V"
  const std::vector<std::pair<std::string, std::string>>& variables() const { return variables_; }

 private:
  std::vector<std::pair<std::string, std::string>> variables_;
};

// Where processes of the guest call the host: the socket, and at the end of PATH the directory of cella-call, below
// that of the runners as the guest sees it.
void AddCalls(const std::string& socket, const std::string& runners, EnvVars* variables);

// `base` holds the executor's own settings; the plan's and the policy's come on top, PATH gets the plan's directories
// in front.
EnvVars GuestEnvVars(EnvVars base, const language::Plan& plan, const Policy& policy);

}  // namespace cella::confine
