#include "docker/engine_address.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace cella::docker {
namespace {

// "unix:///run/docker.sock" and "tcp://HOST:PORT" as Docker writes them, and the forms of http::ParseUrl.
Result<http::Url> ParseEngine(const std::string& text, bool wants_tls) {
  constexpr std::string_view kUnix = "unix://", kTcp = "tcp://";
  if (text.starts_with(kUnix)) return http::ParseUrl("unix:" + text.substr(kUnix.size()));
  if (text.starts_with(kTcp)) {
    std::string rest = text.substr(kTcp.size());
    while (rest.ends_with('/')) rest.pop_back();
    const size_t bracket = rest.rfind(']');
    const bool has_port = rest.find(':', bracket == rest.npos ? 0 : bracket) != rest.npos;
    if (!has_port) rest += wants_tls ? ":2376" : ":2375";
    return http::ParseUrl((wants_tls ? "https://" : "http://") + rest);
  }
  if (text.starts_with('/')) return http::ParseUrl("unix:" + text);
  auto url = http::ParseUrl(text);
  if (!url) {
    return Err(ErrorCode::kInvalid, "'{}' is not the address of an engine: use unix:///PATH or tcp://HOST:PORT", text);
  }
  return url;
}

Result<EngineAddress> Named(const std::string& text, const char* source, const EngineSurroundings& surroundings) {
  const bool wants_tls = !surroundings.variable("DOCKER_TLS_VERIFY").empty();
  EngineAddress address;
  auto url = ParseEngine(text, wants_tls);
  if (!url) return std::unexpected(std::move(url.error()).WithContext(source));
  address.url = std::move(*url);
  address.source = source;
  if (!address.url.is_encrypted) return address;
  std::string folder = surroundings.variable("DOCKER_CERT_PATH");
  if (folder.empty() && !surroundings.variable("HOME").empty()) folder = surroundings.variable("HOME") + "/.docker";
  if (wants_tls && !folder.empty()) {
    address.ca_file = folder + "/ca.pem";
    address.certificate = {folder + "/cert.pem", folder + "/key.pem"};
  }
  return address;
}

}  // namespace

EngineSurroundings EngineSurroundings::FromProcess() {
  EngineSurroundings surroundings;
  surroundings.variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  surroundings.is_socket = [](const std::string& path) {
    struct stat info;
    return stat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
  };
  surroundings.uid = getuid();
  return surroundings;
}

Result<EngineAddress> FindEngine(const std::string& named, const EngineSurroundings& surroundings) {
  if (!named.empty()) return Named(named, "--engine", surroundings);
  if (std::string host = surroundings.variable("DOCKER_HOST"); !host.empty()) {
    return Named(host, "DOCKER_HOST", surroundings);
  }
  std::string runtime = surroundings.variable("XDG_RUNTIME_DIR");
  if (runtime.empty()) runtime = "/run/user/" + std::to_string(surroundings.uid);
  // Of the system's engines only Docker's socket is for users other than root; the group decides when it is opened.
  std::vector<std::string> usual = {"/var/run/docker.sock", runtime + "/docker.sock"};
  if (surroundings.uid == 0) usual.emplace_back("/run/podman/podman.sock");
  usual.push_back(runtime + "/podman/podman.sock");
  std::string looked;
  for (const std::string& path : usual) {
    if (surroundings.is_socket(path)) return Named("unix://" + path, "the usual socket", surroundings);
    looked += (looked.empty() ? "" : ", ") + path;
  }
  return Err(ErrorCode::kNotFound,
             "there is no container engine: none of its usual sockets exists ({}); start Docker or Podman, or name one "
             "with --engine or DOCKER_HOST",
             looked);
}

}  // namespace cella::docker
