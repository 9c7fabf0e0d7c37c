#include "language/version_managers.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/unique_fd.h"
#include "language/host_path.h"
#include "language/tool_query.h"
#include "language/visible.h"

namespace cella::language {
namespace {

// A directory or file of a manager: what the variable names, else below the home directory.
struct Place {
  std::string_view variable = {};
  std::string_view below_home = {};
  std::string_view shown = {};  // the part of it that is shown; empty: all
};

struct Manager {
  std::string_view proxy = {};  // the program that its proxies are links to; empty: they are scripts
  std::array<Place, 4> places = {};
  std::array<std::string_view, 2> choices = {};   // variables by which the caller chooses a version
  std::array<std::string_view, 2> deciding = {};  // below the first place
};

constexpr Manager kManagers[] = {
    {.places = {{{"PYENV_ROOT", ".pyenv"}}}, .choices = {"PYENV_VERSION"}, .deciding = {"version", "versions"}},
    {.places = {{{"RBENV_ROOT", ".rbenv"}}}, .choices = {"RBENV_VERSION"}, .deciding = {"version", "versions"}},
    {.places = {{{"NODENV_ROOT", ".nodenv"}}}, .choices = {"NODENV_VERSION"}, .deciding = {"version", "versions"}},
    {.places = {{{"PLENV_ROOT", ".plenv"}}}, .choices = {"PLENV_VERSION"}, .deciding = {"version", "versions"}},
    {.places = {{{"GOENV_ROOT", ".goenv"}}}, .choices = {"GOENV_VERSION"}, .deciding = {"version", "versions"}},
    {.places = {{{"ASDF_DATA_DIR", ".asdf"}, {"ASDF_DIR", ".asdf"}, {"", ".tool-versions"}, {"", ".asdfrc"}}},
     .choices = {"ASDF_PYTHON_VERSION", "ASDF_NODEJS_VERSION"},
     .deciding = {"installs"}},
    {.proxy = "mise",
     .places = {{{"MISE_DATA_DIR", ".local/share/mise"}, {"MISE_CONFIG_DIR", ".config/mise"}, {"", ".tool-versions"}}},
     .choices = {"MISE_PYTHON_VERSION", "MISE_NODE_VERSION"},
     .deciding = {"installs"}},
    {.proxy = "rustup",
     // Of the second not all: beside bin lie credentials of package registries.
     .places = {{{"RUSTUP_HOME", ".rustup"}, {"CARGO_HOME", ".cargo", "bin"}}},
     .choices = {"RUSTUP_TOOLCHAIN"},
     .deciding = {"settings.toml", "toolchains"}},
    {.proxy = "volta-shim", .places = {{{"VOLTA_HOME", ".volta"}}}, .deciding = {"tools/user"}},
};

// "" when nothing names it.
std::string PathOf(const Place& place, const HostEnv& host) {
  std::string_view value = place.variable.empty() ? std::string_view() : host.Get(place.variable);
  if (value.starts_with('/')) return Normalize(value, "/");
  if (place.below_home.empty() || !host.home.starts_with('/')) return {};
  return Normalize(fmt::format("{}/{}", host.home, place.below_home), "/");
}

bool InShimsDirectory(const std::string& program) { return BaseName(DirName(program)) == "shims"; }

const Manager* ManagerOf(const std::vector<std::string>& chain, const HostEnv& host) {
  for (const Manager& manager : kManagers) {
    // One that the distribution installed. Elsewhere a name proves nothing.
    if (!manager.proxy.empty() && BaseName(chain.back()) == manager.proxy && AlwaysVisible(chain.back())) {
      return &manager;
    }
    for (const Place& place : manager.places) {
      const std::string path = PathOf(place, host);
      if (path.empty()) continue;
      const std::vector<std::string> names = {path, RealPath(path)};
      for (const std::string& name : names) {
        if (!name.empty() && std::ranges::any_of(chain, [&](const auto& each) { return IsBelow(each, name); })) {
          return &manager;
        }
      }
    }
  }
  return nullptr;
}

// pyenv's choice for the current directory, taken over as data: names of versions only. "" when there is none.
std::string ProjectPyenvVersion(const std::string& cwd) {
  constexpr uint64_t kMaxFile = 4096;
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_+";
  if (!cwd.starts_with('/')) return {};
  for (std::string dir = cwd;; dir = DirName(dir)) {
    std::string file = dir == "/" ? "/.python-version" : dir + "/.python-version";
    if (::access(file.c_str(), F_OK) == 0) {
      auto text = ReadDataFile(file, kMaxFile);
      std::string versions;
      for (std::string_view rest = text ? std::string_view(*text) : std::string_view(); !rest.empty();) {
        size_t end = std::min(rest.find_first_of(" \t\r\n"), rest.size());
        std::string_view word = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (word.empty()) continue;
        if (word.starts_with('.') || word.find_first_not_of(kPlain) != std::string_view::npos) return {};
        if (!versions.empty()) versions += ':';
        versions += word;
      }
      return versions;
    }
    if (dir == "/") return {};
  }
}

// The elements of PATH that the question shows: a shim's own helpers (asdf), and what it calls "system".
std::vector<std::string> ShownPath(const HostEnv& host, const std::vector<std::string>& visible) {
  std::vector<std::string> shown;
  for (std::string_view rest = host.path; !rest.empty();) {
    size_t colon = rest.find(':');
    std::string dir(rest.substr(0, colon));
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    if (std::ranges::any_of(visible, [&](const auto& each) { return IsBelow(dir, each); })) shown.push_back(dir);
  }
  return shown;
}

}  // namespace

bool IsShim(const std::string& program) {
  if (InShimsDirectory(program)) return true;
  UniqueFd fd(::open(program.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  char start[2] = {};
  return fd && ::read(fd.get(), start, sizeof(start)) == 2 && start[0] == '#' && start[1] == '!';
}

bool IsProxy(std::string_view name, const std::string& program) {
  if (InShimsDirectory(program)) return true;
  const std::string real = RealPath(program);
  std::string_view real_name = BaseName(real);
  if (real_name == name) return false;
  return real_name == "snap" || std::ranges::any_of(kManagers, [&](const Manager& manager) {
           return !manager.proxy.empty() && manager.proxy == real_name;
         });
}

Result<ProxyQuestion> DescribeProxy(const std::string& program, const HostEnv& host) {
  const std::vector<std::string> chain = LinkChain(program);
  ProxyQuestion question;
  VisibleSet visible(host.home);
  std::vector<std::pair<std::string, std::string>> variables;
  if (const Manager* manager = ManagerOf(chain, host)) {
    for (const Place& place : manager->places) {
      std::string path = PathOf(place, host);
      if (path.empty()) continue;
      if (!place.variable.empty()) variables.emplace_back(place.variable, path);
      if (!place.shown.empty()) path += fmt::format("/{}", place.shown);
      question.deciding.push_back(path);
      if (::access(path.c_str(), F_OK) == 0) TRY_VOID(visible.Add(path));
    }
    for (std::string_view file : manager->deciding) {
      if (!file.empty()) question.deciding.push_back(fmt::format("{}/{}", PathOf(manager->places[0], host), file));
    }
    for (std::string_view choice : manager->choices) {
      std::string value(choice.empty() ? std::string_view() : host.Get(choice));
      if (value.empty() && choice == "PYENV_VERSION") value = ProjectPyenvVersion(host.cwd);
      if (!value.empty()) variables.emplace_back(choice, std::move(value));
    }
    if (host.home.starts_with('/')) variables.emplace_back("HOME", host.home);
  }
  for (const std::string& path : chain) {
    if (!visible.Covers(path) && !IsBelow(path, "/etc")) TRY_VOID(visible.Add(PrefixOf(path)));
  }
  question.visible = visible.Take();
  question.env = CleanEnvironment(ShownPath(host, question.visible));
  std::erase_if(question.env, [&](const std::string& each) {
    return std::ranges::any_of(variables, [&](const auto& variable) { return each.starts_with(variable.first + "="); });
  });
  for (const auto& [name, value] : variables) question.env.push_back(name + "=" + value);
  return question;
}

std::vector<std::string> ManagerVariables() {
  // Two more, by which installed interpreters are looked up.
  std::vector<std::string> names = {"XDG_DATA_HOME", "UV_PYTHON_INSTALL_DIR"};
  for (const Manager& manager : kManagers) {
    for (const Place& place : manager.places) {
      if (!place.variable.empty()) names.emplace_back(place.variable);
    }
    for (std::string_view choice : manager.choices) {
      if (!choice.empty()) names.emplace_back(choice);
    }
  }
  return names;
}

}  // namespace cella::language
