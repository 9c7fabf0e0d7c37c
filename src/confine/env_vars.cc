#include "confine/env_vars.h"

#include <algorithm>

#include "run/executor.h"

namespace cella::confine {

void EnvVars::Set(std::string name, std::string value) {
  auto existing = std::ranges::find(variables_, name, &std::pair<std::string, std::string>::first);
  if (existing != variables_.end()) {
    existing->second = std::move(value);
  } else {
    variables_.emplace_back(std::move(name), std::move(value));
  }
}

const std::string* EnvVars::Find(const std::string& name) const {
  auto existing = std::ranges::find(variables_, name, &std::pair<std::string, std::string>::first);
  return existing == variables_.end() ? nullptr : &existing->second;
}

std::vector<std::string> EnvVars::Encode() const {
  std::vector<std::string> encoded;
  encoded.reserve(variables_.size());
  for (const auto& [name, value] : variables_) encoded.push_back(name + "=" + value);
  return encoded;
}

void AddCalls(const std::string& socket, const std::string& runners, EnvVars* variables) {
  variables->Set(run::kCallSocketVariable, socket);
  const std::string* path = variables->Find("PATH");
  const std::string programs = runners + "/bin";
  // An empty element would be the current directory.
  variables->Set("PATH", path == nullptr || path->empty() ? programs : *path + ":" + programs);
}

EnvVars GuestEnvVars(EnvVars base, const language::Plan& plan, const Policy& policy) {
  for (const auto& [name, value] : plan.env) base.Set(name, value);
  std::string path;
  for (const std::string& directory : plan.path_dirs) path += directory + ":";
  if (const std::string* rest = base.Find("PATH"); rest != nullptr && !rest->empty()) {
    path += *rest;
  } else if (!path.empty()) {
    path.pop_back();  // an empty element would be the current directory
  }
  base.Set("PATH", path);
  for (const auto& [name, value] : policy.env) base.Set(name, value);
  return base;
}

}  // namespace cella::confine
