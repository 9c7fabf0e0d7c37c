// Values of keys that only containers have: addresses of machines, requests for devices, capabilities. What a client
// or a file wrote is checked here, before an engine sees it. Pure.
#pragma once

#include <expected>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cella::policy {

// {"NAME": "ADDRESS"}. The error says what is wrong.
std::expected<std::vector<std::pair<std::string, std::string>>, std::string> ReadHosts(const nlohmann::json& value);
// "NAME:ADDRESS"
std::expected<std::pair<std::string, std::string>, std::string> ParseHost(std::string_view text);

// A list of the Engine API's DeviceRequest; the text of the same list.
std::expected<std::string, std::string> ReadDevices(const nlohmann::json& value);
// As options have it: "all", a number, "device=ID[,ID]", or such a list.
std::expected<std::string, std::string> ParseDevices(std::string_view text);

// Names as "NET_RAW" or "CAP_NET_RAW", without the prefix and each once. "ALL" is none.
std::expected<std::vector<std::string>, std::string> ReadCapabilities(const nlohmann::json& value);

}  // namespace cella::policy
