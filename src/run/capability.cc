#include "run/capability.h"

#include <algorithm>

#include "run/executor.h"

namespace cella::run {
namespace {

struct Row {
  std::string_view name;
  bool (*has)(Guest& guest, const Traits& traits);
};

// In the order of their names.
constexpr Row kRows[] = {
    {"calls", [](Guest& guest, const Traits&) { return guest.call_socket() != nullptr; }},
    {"checkpoints", [](Guest& guest, const Traits&) { return guest.checkpoints() != nullptr; }},
    {"completion", [](Guest& guest, const Traits&) { return guest.assistant() != nullptr; }},
    {"deps", [](Guest& guest, const Traits&) { return guest.packages() != nullptr; }},
    {"display", [](Guest&, const Traits& traits) { return traits.display; }},
    {"errors", [](Guest&, const Traits& traits) { return traits.errors; }},
    {"files", [](Guest& guest, const Traits&) { return guest.workspace() != nullptr; }},
    {"input", [](Guest&, const Traits& traits) { return traits.input; }},
    {"interrupt", [](Guest&, const Traits& traits) { return traits.interrupt; }},
    {"jail", [](Guest& guest, const Traits&) { return !guest.isolation().namespaces.empty(); }},
    {"reset", [](Guest& guest, const Traits&) { return guest.resettable() != nullptr; }},
    {"state", [](Guest&, const Traits& traits) { return traits.state; }},
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
