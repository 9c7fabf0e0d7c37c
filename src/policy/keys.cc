#include "policy/keys.h"

#include <algorithm>
#include <array>

#include "policy/container_keys.h"
#include "policy/limit_keys.h"
#include "policy/place_keys.h"

namespace cella::policy {
namespace {

template <size_t... Places, size_t... Containers, size_t... Limits>
constexpr auto Join(std::index_sequence<Places...>, std::index_sequence<Containers...>,
                    std::index_sequence<Limits...>) {
  return std::array{kPlaceKeys[Places]..., kContainerKeys[Containers]..., kLimitKeys[Limits]...};
}

constexpr std::array kKeys =
    Join(std::make_index_sequence<std::size(kPlaceKeys)>(), std::make_index_sequence<std::size(kContainerKeys)>(),
         std::make_index_sequence<std::size(kLimitKeys)>());
static_assert(std::size(kKeys) <= 64, "KeySet has a bit for each");

}  // namespace

std::span<const Key> Keys() { return kKeys; }

const Key* Find(std::string_view name) {
  const auto* found = std::ranges::find(kKeys, name, &Key::name);
  return found == std::end(kKeys) ? nullptr : found;
}

}  // namespace cella::policy
