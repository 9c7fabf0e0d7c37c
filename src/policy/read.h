// Values of keys as people write them: JSON (the Policy document; cella.toml after conversion) and the text of an
// option. One parser, so that the same words mean the same everywhere, with the same refusals. Pure.
#pragma once

#include <expected>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "policy/keys.h"
#include "policy/scalar.h"

namespace cella::policy {

// What is wrong, and where below the value that was looked at: "", "memory", "[0].source".
struct Fault {
  std::string where;
  std::string message;

  std::string Text() const { return where.empty() ? message : where + ": " + message; }
};
template <typename T>
using Read = std::expected<T, Fault>;

// A limit that is set counts as asked for.
Read<void> Set(const Key& key, const nlohmann::json& value, SessionSpec* spec);
// The same for a text; of a list, one more entry. Paths may be relative. NAME=VALUE for variables,
// SOURCE:TARGET[:ro|rw] for mounts.
Read<void> SetText(const Key& key, std::string_view text, SessionSpec* spec);

// An object in which no key is there twice. A null is the same as no value.
Read<Request> ReadDocument(const nlohmann::json& object);

// An environment: a name, or an object with `python`, `packages` and `preload`.
Read<EnvironmentChoice> ReadEnvironment(const nlohmann::json& value);

// The text of a Scalar is that of `value`.
Scalar ToScalar(const nlohmann::json& value);

}  // namespace cella::policy
