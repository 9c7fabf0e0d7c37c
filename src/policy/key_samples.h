// For tests: a value of each key that is not its default, so that a loop over the table finds what a surface forgets.
#pragma once

#include <nlohmann/json.hpp>

#include "policy/keys.h"

namespace cella::policy {

inline nlohmann::json SampleOf(const Key& key) {
  if (key.name == "storage") return "/usr/storage";  // of whom all paths are allowed
  switch (key.kind) {
    case Kind::kText: return "3.9";
    case Kind::kPath: return "/usr";
    case Kind::kModules: return nlohmann::json::array({"numpy"});
    case Kind::kEnvironment:
      return {{"packages", nlohmann::json::array({"numpy>=2"})}, {"preload", nlohmann::json::array({"numpy"})}};
    case Kind::kPackages: return nlohmann::json::array({"numpy>=2"});
    case Kind::kSwitch:
      return !WithValue(key, SessionSpec{}, [](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, bool>) return value;
        return false;
      });
    case Kind::kSize: return key.maximum == "1m" ? "15k" : "15m";
    case Kind::kCount: return 17;
    case Kind::kDuration: return "17s";
    case Kind::kCpus: return 1.5;
    case Kind::kWord: return WordsOf(key).back();
    case Kind::kVariables:
    case Kind::kLabels: return {{"A", "1"}};
    case Kind::kMounts: return nlohmann::json::array({{{"source", "/usr"}, {"target", "/b"}}});
    case Kind::kName: return "n";
    case Kind::kHosts: return {{"a.example", "192.0.2.1"}};
    case Kind::kDevices: return nlohmann::json::array({{{"Count", 1}}});
    case Kind::kCapabilities: return nlohmann::json::array({"NET_RAW"});
  }
  return nullptr;
}

// An executor for which the sample has a meaning.
inline ExecutorKind ExecutorOf(const Key& key) {
  if (key.name == "network") return ExecutorKind::kContainer;  // "bridge"
  for (const ExecutorRow& row : kExecutors) {
    if (Has(key.executors, row.kind)) return row.kind;
  }
  return kDefaultExecutor;
}

inline std::string ExactOf(const Key& key, const SessionSpec& spec) {
  std::string text;
  AppendExact(key, spec, &text);
  return text;
}

}  // namespace cella::policy
