#include "policy/container_values.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "policy/names.h"

namespace cella::policy {
namespace {

using nlohmann::json;
using Wrong = std::unexpected<std::string>;

constexpr size_t kMaxHosts = 64;
constexpr size_t kMaxHostName = 253;
constexpr size_t kMaxDevices = 16;
constexpr size_t kMaxDeviceText = 4096;
constexpr size_t kMaxCapabilities = 64;
constexpr size_t kMaxCapabilityName = 32;

bool IsHostName(std::string_view text) {
  if (text.empty() || text.size() > kMaxHostName || text.front() == '-' || text.front() == '.') return false;
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
  });
}

// "host-gateway" is the engine's word for the address of its own machine.
bool IsAddress(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> bytes;
  return text == "host-gateway" || inet_pton(AF_INET, text.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1;
}

std::expected<void, std::string> CheckHost(std::string_view name, const std::string& address) {
  if (!IsHostName(name)) return Wrong(fmt::format("'{}' is not the name of a machine", Shown(name)));
  if (!IsAddress(address)) {
    return Wrong(fmt::format("'{}' is not an address of '{}': give IPv4, IPv6 or host-gateway", Shown(address), name));
  }
  return {};
}

bool IsListOfTexts(const json& value) {
  return value.is_array() && std::ranges::all_of(value, [](const json& each) { return each.is_string(); });
}

bool IsDevice(const json& request) {
  if (!request.is_object()) return false;
  for (const auto& [key, value] : request.items()) {
    const bool is_known =
        key == "Driver"         ? value.is_string()
        : key == "Count"        ? value.is_number_integer()
        : key == "DeviceIDs"    ? IsListOfTexts(value)
        : key == "Capabilities" ? value.is_array() && std::ranges::all_of(value, IsListOfTexts)
        : key == "Options"
            ? value.is_object() && std::ranges::all_of(value, [](const json& each) { return each.is_string(); })
            : false;
    if (!is_known && !value.is_null()) return false;
  }
  return true;
}

}  // namespace

std::expected<std::vector<std::pair<std::string, std::string>>, std::string> ReadHosts(const json& value) {
  if (!value.is_object()) return Wrong("must be an object of addresses, as {\"db\": \"192.0.2.1\"}");
  if (value.size() > kMaxHosts) return Wrong(fmt::format("has {} entries: at most {}", value.size(), kMaxHosts));
  std::vector<std::pair<std::string, std::string>> hosts;
  for (const auto& [name, address] : value.items()) {
    if (!address.is_string()) return Wrong(fmt::format("the address of '{}' must be text", Shown(name)));
    if (auto checked = CheckHost(name, address.get_ref<const std::string&>()); !checked) return Wrong(checked.error());
    hosts.emplace_back(name, address.get<std::string>());
  }
  return hosts;
}

std::expected<std::pair<std::string, std::string>, std::string> ParseHost(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return Wrong(fmt::format("'{}' is not NAME:ADDRESS", Shown(text)));
  std::pair<std::string, std::string> host(text.substr(0, colon), text.substr(colon + 1));
  if (auto checked = CheckHost(host.first, host.second); !checked) return Wrong(checked.error());
  return host;
}

std::expected<std::string, std::string> ReadDevices(const json& value) {
  const bool is_list = value.is_array() && !value.empty() && value.size() <= kMaxDevices;
  if (!is_list || !std::ranges::all_of(value, IsDevice)) {
    return Wrong(
        fmt::format("must be a list of at most {} requests as {{\"Driver\": \"\", \"Count\": 1, \"DeviceIDs\": [], "
                    "\"Capabilities\": "
                    "[[\"gpu\"]], \"Options\": {{}}}}",
                    kMaxDevices));
  }
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kMaxDeviceText) return Wrong(fmt::format("is too long: at most {} bytes", kMaxDeviceText));
  return text;
}

std::expected<std::string, std::string> ParseDevices(std::string_view text) {
  const json gpu = json::array({json::array({"gpu"})});
  if (text.starts_with('[') && text.size() <= kMaxDeviceText) return ReadDevices(json::parse(text, nullptr, false));
  if (text == "all") return ReadDevices(json::array({{{"Count", -1}, {"Capabilities", gpu}}}));
  constexpr std::string_view kIds = "device=";
  if (text.starts_with(kIds) && text.size() > kIds.size()) {
    json ids = json::array();
    for (std::string_view rest = text.substr(kIds.size()); !rest.empty();) {
      const size_t comma = std::min(rest.find(','), rest.size());
      ids.push_back(std::string(rest.substr(0, comma)));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return ReadDevices(json::array({{{"DeviceIDs", ids}, {"Capabilities", gpu}}}));
  }
  const bool is_number = !text.empty() && text.size() <= 4 && text.find_first_not_of("0123456789") == text.npos;
  if (is_number && std::stoi(std::string(text)) > 0) {
    return ReadDevices(json::array({{{"Count", std::stoi(std::string(text))}, {"Capabilities", gpu}}}));
  }
  return Wrong(fmt::format("'{}' is none of all, a number, device=ID[,ID] and a JSON list", Shown(text)));
}

std::expected<std::vector<std::string>, std::string> ReadCapabilities(const json& value) {
  if (!value.is_array()) return Wrong("must be a list of capabilities, as [\"NET_RAW\"]");
  if (value.size() > kMaxCapabilities) {
    return Wrong(fmt::format("has {} entries: at most {}", value.size(), kMaxCapabilities));
  }
  std::vector<std::string> names;
  for (const json& each : value) {
    if (!each.is_string()) return Wrong("must be a list of texts");
    std::string name = each.get<std::string>();
    if (name.starts_with("CAP_")) name.erase(0, 4);
    const bool is_name = !name.empty() && name.size() <= kMaxCapabilityName && name != "ALL" &&
                         std::ranges::all_of(name, [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
    if (!is_name) return Wrong(fmt::format("'{}' is not a capability, as NET_RAW (ALL is none)", Shown(name)));
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace cella::policy
