#include "server/origin.h"

#include <algorithm>
#include <charconv>

#include "server/listen_address.h"

namespace cella::server {
namespace {

constexpr size_t kMaxHost = 253;  // of a DNS name

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::optional<uint16_t> ParsePort(std::string_view digits) {
  uint16_t port = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || port == 0) return std::nullopt;
  return port;
}

bool IsHostName(std::string_view name) {
  // Underscores are not for hosts, but names of containers have them.
  auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= kMaxHost && name[0] != '.' && !name.contains("..") &&
         std::ranges::all_of(name, allowed);
}

}  // namespace

std::optional<Authority> ParseAuthority(std::string_view text) {
  Authority authority;
  std::string_view rest;
  if (text.starts_with('[')) {
    size_t close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    authority.host = CanonicalAddress(text.substr(1, close - 1));
    if (!authority.host.contains(':')) return std::nullopt;
    authority.is_address = true;
    rest = text.substr(close + 1);
  } else {
    size_t colon = text.find(':');
    std::string name(text.substr(0, colon));
    rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon);
    std::ranges::transform(name, name.begin(), Lower);
    if (name.size() > 1 && name.ends_with('.')) name.pop_back();
    authority.host = CanonicalAddress(name);
    authority.is_address = !authority.host.empty();
    if (!authority.is_address) {
      if (!IsHostName(name)) return std::nullopt;
      authority.host = std::move(name);
    }
  }
  if (rest.empty()) return authority;
  if (rest[0] != ':' || !(authority.port = ParsePort(rest.substr(1)))) return std::nullopt;
  return authority;
}

std::optional<Origin> ParseOrigin(std::string_view text) {
  Origin origin;
  size_t end = text.find("://");
  if (end == std::string_view::npos) return std::nullopt;
  origin.scheme = text.substr(0, end);
  std::ranges::transform(origin.scheme, origin.scheme.begin(), Lower);
  if (origin.scheme != "http" && origin.scheme != "https") return std::nullopt;
  auto authority = ParseAuthority(text.substr(end + 3));
  if (!authority) return std::nullopt;
  origin.authority = std::move(*authority);
  if (!origin.authority.port) origin.authority.port = origin.scheme == "https" ? 443 : 80;
  return origin;
}

}  // namespace cella::server
