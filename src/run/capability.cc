#include "run/capability.h"

#include <algorithm>

#include "run/executor.h"

namespace cella::run {
namespace {

struct Row {
  std::string_view name;
  bool (*has)(Guest& guest, const Traits& traits);
};

bool HasNamespace(Guest& guest, std::string_view name) {
  return std::ranges::find(guest.isolation().namespaces, name) != guest.isolation().namespaces.end();
}

bool HasPackages(Guest& guest, const Traits&) { return guest.packages() != nullptr; }

// In the order of their names.
constexpr Row kRows[] = {
    {"calls", [](Guest& guest, const Traits&) { return guest.call_socket() != nullptr; }},
    {"checkpoints", [](Guest& guest, const Traits&) { return guest.checkpoints() != nullptr; }},
    {"completion", [](Guest& guest, const Traits&) { return guest.assistant() != nullptr; }},
    {"cpu_limit",
     [](Guest& guest, const Traits&) {
       const auto& limits = guest.isolation().limits;
       return limits.contains("cpus") || limits.contains("cpu_time");
     }},
    {"deps", HasPackages},
    {"deps_install", HasPackages},
    {"deps_uninstall", HasPackages},
    {"display", [](Guest&, const Traits& traits) { return traits.display; }},
    {"errors", [](Guest&, const Traits& traits) { return traits.errors; }},
    {"files", [](Guest& guest, const Traits&) { return guest.workspace() != nullptr; }},
    {"filesystem_isolation",
     [](Guest& guest, const Traits&) { return HasNamespace(guest, "mount") || HasNamespace(guest, "mnt"); }},
    {"input", [](Guest&, const Traits& traits) { return traits.input; }},
    {"interrupt", [](Guest&, const Traits& traits) { return traits.interrupt; }},
    {"jail", [](Guest& guest, const Traits&) { return !guest.isolation().namespaces.empty(); }},
    {"memory_limit", [](Guest& guest, const Traits&) { return guest.isolation().limits.contains("memory"); }},
    {"network_isolation", [](Guest& guest, const Traits&) { return guest.isolation().network == "none"; }},
    {"process_isolation",
     [](Guest& guest, const Traits&) {
       const auto& details = guest.isolation().details;
       const auto found = details.find("runs_as");
       return found == details.end() || found->second != kRunsInThisProcess;
     }},
    {"reset", [](Guest& guest, const Traits&) { return guest.resettable() != nullptr; }},
    {"state", [](Guest&, const Traits& traits) { return traits.state; }},
    {"timeout", [](Guest&, const Traits&) { return true; }},
    {"value", [](Guest&, const Traits& traits) { return traits.value; }},
};

}  // namespace

std::vector<std::string_view> Capabilities(Guest& guest, std::string_view language) {
  const Traits& traits = guest.traits(language);
  std::vector<std::string_view> names;
  for (const Row& row : kRows) {
    if (row.has(guest, traits)) names.push_back(row.name);
  }
  return names;
}

bool Supports(Guest& guest, std::string_view language, std::string_view capability) {
  const std::vector<std::string_view> names = Capabilities(guest, language);
  return std::ranges::find(names, capability) != names.end();
}

}  // namespace cella::run
