#include "language/python_search.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "language/tool.h"
#include "language/visible.h"

namespace cella::language {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr size_t kMaxEntries = 4096;  // of a directory; more than any real one has

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::vector<std::string> List(const std::string& dir) {
  std::vector<std::string> names;
  std::unique_ptr<DIR, decltype([](DIR* open) { ::closedir(open); })> open(::opendir(dir.c_str()));
  if (!open) return names;
  while (const dirent* entry = ::readdir(open.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    if (names.size() >= kMaxEntries) break;
  }
  std::ranges::sort(names);
  return names;
}

// "3.12.5" of "cpython-3.12.5-linux-x86_64-gnu" and "python3.12"; "" when no X.Y is in it.
std::string_view VersionIn(std::string_view name) {
  for (size_t at = name.find_first_of(kDigits); at != std::string_view::npos; at = name.find_first_of(kDigits, at)) {
    size_t end = at;
    while (end < name.size() &&
           (IsDigit(name[end]) || (name[end] == '.' && end + 1 < name.size() && IsDigit(name[end + 1])))) {
      ++end;
    }
    std::string_view found = name.substr(at, end - at);
    if (found.contains('.')) return found;
    at = end;
  }
  return {};
}

// Free-threaded builds ("3.13t", "+freethreaded") and other implementations are taken only by path.
bool IsOrdinary(std::string_view name) {
  std::string_view version = VersionIn(name);
  size_t end = version.empty() ? name.size() : static_cast<size_t>(version.data() - name.data()) + version.size();
  return !name.starts_with("pypy") && !name.starts_with("graalpy") && !name.contains("freethreaded") &&
         (end >= name.size() || name[end] != 't');
}

struct Managed {
  std::string version;  // by its name; may be empty
  std::string prefix;
};

// Newest first.
std::vector<Managed> ManagedIn(const std::string& root) {
  std::vector<Managed> found;
  for (const std::string& name : List(root)) {
    if (!IsOrdinary(name) || (root == "/opt" && !name.starts_with("python"))) continue;
    std::string prefix = root + "/" + name;
    // An environment that pyenv-virtualenv keeps among the versions.
    if (::access((prefix + "/pyvenv.cfg").c_str(), F_OK) == 0) continue;
    found.push_back({std::string(VersionIn(name)), std::move(prefix)});
  }
  std::ranges::sort(found, [](const Managed& a, const Managed& b) {
    int order = CompareVersions(a.version, b.version);
    return order != 0 ? order > 0 : a.prefix < b.prefix;
  });
  return found;
}

class Candidates {
 public:
  void Add(std::string path) {
    if (std::ranges::find(paths_, path) == paths_.end() && ::access(path.c_str(), X_OK) == 0) {
      paths_.push_back(std::move(path));
    }
  }
  std::vector<std::string> Take() { return std::move(paths_); }

 private:
  std::vector<std::string> paths_;
};

}  // namespace

std::optional<std::string> ParsePythonVersion(std::string_view text) {
  if (text.starts_with("python")) text.remove_prefix(6);
  int parts = 0;
  for (std::string_view rest = text;; ++parts) {
    size_t digits = std::min(rest.find_first_not_of(kDigits), rest.size());
    if (digits == 0 || digits > 3 || parts == 3) return std::nullopt;
    rest.remove_prefix(digits);
    if (rest.empty()) return std::string(text);
    if (rest[0] != '.') return std::nullopt;
    rest.remove_prefix(1);
  }
}

bool VersionMatches(std::string_view version, std::string_view wanted) {
  return version.starts_with(wanted) && (version.size() == wanted.size() || version[wanted.size()] == '.');
}

std::vector<std::string> PythonRoots(const HostEnv& host) {
  auto or_home = [&](std::string_view variable, std::string_view below_home) {
    std::string_view value = host.Get(variable);
    return value.empty() ? host.home + std::string(below_home) : std::string(value);
  };
  std::string data = or_home("XDG_DATA_HOME", "/.local/share");
  std::string_view uv = host.Get("UV_PYTHON_INSTALL_DIR");
  std::string_view mise = host.Get("MISE_DATA_DIR");
  return {or_home("PYENV_ROOT", "/.pyenv") + "/versions",
          uv.empty() ? data + "/uv/python" : std::string(uv),
          "/opt/python",
          "/opt",
          or_home("ASDF_DATA_DIR", "/.asdf") + "/installs/python",
          (mise.empty() ? data + "/mise" : std::string(mise)) + "/installs/python"};
}

std::vector<std::string> VersionCandidates(std::string_view wanted, const HostEnv& host) {
  // Programs carry two numbers in their name: python3.12 is 3.12.1, too.
  size_t dot = wanted.find('.');
  size_t second = dot == std::string_view::npos ? dot : wanted.find('.', dot + 1);
  std::string name = fmt::format("python{}", wanted.substr(0, second));
  Candidates candidates;
  for (std::string& path : FindOnPath(name, host.path)) candidates.Add(std::move(path));
  std::vector<std::string> roots = PythonRoots(host);
  for (size_t i = 0; i < roots.size(); ++i) {
    if (roots[i] == "/opt/python") {
      candidates.Add("/usr/bin/" + name);
      candidates.Add("/usr/local/bin/" + name);
    }
    for (const Managed& managed : ManagedIn(roots[i])) {
      // A name may tell less than was asked for ("cpython-3.12-…" for 3.12.1): then the interpreter decides.
      bool possible =
          managed.version.empty() || VersionMatches(managed.version, wanted) || VersionMatches(wanted, managed.version);
      if (possible) candidates.Add(managed.prefix + "/bin/" + name);
    }
  }
  for (const char* plain : {"python3", "python"}) {
    for (std::string& path : FindOnPath(plain, host.path)) candidates.Add(std::move(path));
  }
  return candidates.Take();
}

std::vector<std::string> InstalledPythons(const HostEnv& host) {
  Candidates candidates;
  std::string path = host.path + ":/usr/local/bin:/usr/bin";
  for (std::string_view rest = path; !rest.empty();) {
    size_t colon = rest.find(':');
    std::string dir(rest.substr(0, colon));
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    if (!dir.starts_with('/') || BaseName(dir) == "shims") continue;
    for (const std::string& name : List(dir)) {
      if (name.starts_with("python3") && ParsePythonVersion(name)) candidates.Add(dir + "/" + name);
    }
  }
  for (const std::string& root : PythonRoots(host)) {
    for (const Managed& managed : ManagedIn(root)) candidates.Add(managed.prefix + "/bin/python3");
  }
  return candidates.Take();
}

}  // namespace cella::language
