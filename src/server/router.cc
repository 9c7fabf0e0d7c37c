#include "server/router.h"

namespace cella::server {
namespace {

std::vector<std::string_view> Split(std::string_view pattern) {
  std::vector<std::string_view> parts;
  while (!pattern.empty()) {
    pattern.remove_prefix(1);
    const size_t end = std::min(pattern.find('/'), pattern.size());
    parts.push_back(pattern.substr(0, end));
    pattern.remove_prefix(end);
  }
  return parts;
}

bool IsParameter(std::string_view part) { return part.starts_with('{'); }
bool IsRest(std::string_view part) { return part.ends_with("...}"); }

bool Matches(std::span<const std::string_view> pattern, std::span<const std::string_view> segments,
             Router::Match* match) {
  match->parameters.clear();
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (IsRest(pattern[i])) {
      match->rest = i;
      return segments.size() > i;
    }
    if (i >= segments.size()) return false;
    if (IsParameter(pattern[i])) {
      match->parameters.push_back(segments[i]);
    } else if (pattern[i] != segments[i]) {
      return false;
    }
  }
  return pattern.size() == segments.size();
}

}  // namespace

void Router::Add(Route route) {
  patterns_.push_back(Split(route.pattern));
  routes_.push_back(std::move(route));
}

Router::Match Router::Find(std::string_view method, std::span<const std::string_view> segments) const {
  Match match;
  for (size_t i = 0; i < routes_.size(); ++i) {
    if (!Matches(patterns_[i], segments, &match)) continue;
    const Route& route = routes_[i];
    if (route.method == method || (method == "HEAD" && route.method == "GET")) {
      match.route = &route;
      return match;
    }
    if (!match.allow.empty()) match.allow += ", ";
    match.allow += route.method;
  }
  match.parameters.clear();
  return match;
}

}  // namespace cella::server
