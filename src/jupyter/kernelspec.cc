#include "jupyter/kernelspec.h"

#include <dirent.h>

#include <algorithm>
#include <map>
#include <memory>

#include "jupyter/json.h"
#include "os/io.h"

namespace cella::jupyter {
namespace {

constexpr uint64_t kMaxFile = uint64_t{1} << 20;
constexpr size_t kMaxKernels = 1000;
constexpr int kMaxEntries = 20'000;  // of a directory of kernels
constexpr size_t kMaxArguments = 256;
constexpr size_t kMaxVariables = 256;

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 32) : c; });
  return lower;
}

bool IsName(std::string_view name) {
  auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  return !name.empty() && name.front() != '.' && std::ranges::all_of(name, is_allowed);
}

std::unexpected<Error> TooLong() {
  return Err(ErrorCode::kExhausted, "an argument or a variable of the kernel expands to more than {} bytes",
             kMostExpanded);
}

Result<Kernelspec> Load(const std::string& name, const std::string& directory) {
  TRY(const std::string text, os::ReadFile(directory + "/kernel.json", kMaxFile));
  return ParseKernelspec(name, directory, text);
}

// The directories of kernels by name in lower case.
std::map<std::string, std::pair<std::string, std::string>> Scan(const std::vector<std::string>& data_directories) {
  std::map<std::string, std::pair<std::string, std::string>> found;
  for (const std::string& data : data_directories) {
    const std::string kernels = data + "/kernels";
    std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(kernels.c_str()), closedir);
    if (!directory) continue;
    for (int count = 0; count < kMaxEntries; ++count) {
      const dirent* entry = readdir(directory.get());
      if (entry == nullptr) break;
      if (!IsName(entry->d_name) || found.size() >= kMaxKernels) continue;
      const std::string path = fmt::format("{}/{}", kernels, entry->d_name);
      if (access((path + "/kernel.json").c_str(), R_OK) != 0) continue;
      found.try_emplace(Lower(entry->d_name), entry->d_name, path);
    }
  }
  return found;
}

}  // namespace

std::vector<std::string> DataDirectories(const KernelHost& host, const std::string& python_prefix) {
  std::vector<std::string> directories;
  auto add = [&](std::string directory) {
    if (directory.starts_with('/') && std::ranges::find(directories, directory) == directories.end()) {
      directories.push_back(std::move(directory));
    }
  };
  std::string_view rest = host.jupyter_path;
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    add(std::string(rest.substr(0, end)));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  if (!host.jupyter_data_dir.empty()) {
    add(host.jupyter_data_dir);
  } else if (!host.home.empty()) {
    add(host.home + "/.local/share/jupyter");
  }
  if (!python_prefix.empty()) add(python_prefix + "/share/jupyter");
  add("/usr/local/share/jupyter");
  add("/usr/share/jupyter");
  return directories;
}

Result<Kernelspec> ParseKernelspec(std::string name, std::string directory, std::string_view text) {
  Kernelspec spec;
  spec.name = std::move(name);
  spec.directory = std::move(directory);
  const auto json = ParseObject(text);
  if (!json)
    return Err(ErrorCode::kInvalid, "kernel '{}': '{}/kernel.json' is no JSON object", spec.name, spec.directory);
  spec.display_name = Text(*json, "display_name");
  spec.language = Text(*json, "language");
  if (Text(*json, "interrupt_mode") == "message") spec.interrupt_mode = InterruptMode::kMessage;
  if (auto argv = json->find("argv"); argv != json->end() && argv->is_array() && argv->size() <= kMaxArguments) {
    for (const Json& argument : *argv) {
      if (argument.is_string()) spec.argv.push_back(argument.get<std::string>());
    }
    if (spec.argv.size() != argv->size()) spec.argv.clear();
  }
  if (spec.argv.empty()) {
    return Err(ErrorCode::kInvalid, "kernel '{}': '{}/kernel.json' has no list of strings 'argv'", spec.name,
               spec.directory);
  }
  const Json& env = Object(*json, "env");
  if (env.size() > kMaxVariables) {
    return Err(ErrorCode::kInvalid, "kernel '{}': '{}/kernel.json' has more than {} variables", spec.name,
               spec.directory, kMaxVariables);
  }
  for (const auto& [variable, value] : env.items()) {
    if (value.is_string()) spec.env.emplace_back(variable, value.get<std::string>());
  }
  return spec;
}

std::vector<Kernelspec> ListKernelspecs(const std::vector<std::string>& data_directories) {
  std::vector<Kernelspec> specs;
  for (const auto& [key, place] : Scan(data_directories)) {
    if (auto spec = Load(place.first, place.second)) specs.push_back(std::move(*spec));
  }
  return specs;
}

Result<Kernelspec> FindKernelspec(const std::vector<std::string>& data_directories, std::string_view name) {
  const auto found = Scan(data_directories);
  if (auto place = found.find(Lower(name)); place != found.end())
    return Load(place->second.first, place->second.second);
  std::string known;
  for (const auto& [key, place] : found) known += (known.empty() ? "" : ", ") + place.first;
  return Err(ErrorCode::kNotFound, "unknown kernel '{}': {}", name.substr(0, 100),
             known.empty() ? "no kernelspec is installed" : "installed are " + known);
}

Result<std::string> Substitute(std::string_view text, std::string_view from, std::string_view to) {
  std::string expanded;
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    expanded.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
    if (expanded.size() > kMostExpanded) return TooLong();
  }
  expanded.append(text);
  if (expanded.size() > kMostExpanded) return TooLong();
  return expanded;
}

Result<std::vector<std::string>> ExpandArguments(const Kernelspec& spec, std::string_view connection_file,
                                                 std::string_view prefix) {
  std::vector<std::string> expanded;
  for (const std::string& argument : spec.argv) {
    TRY(std::string text, Substitute(argument, "{connection_file}", connection_file));
    TRY(text, Substitute(text, "{resource_dir}", spec.directory));
    TRY(text, Substitute(text, "{prefix}", prefix));
    expanded.push_back(std::move(text));
  }
  return expanded;
}

Result<std::string> ExpandVariables(std::string_view text,
                                    const std::vector<std::pair<std::string, std::string>>& variables) {
  std::string expanded;
  while (!text.empty()) {
    const size_t start = text.find("${");
    const size_t end = start == std::string_view::npos ? start : text.find('}', start);
    if (end == std::string_view::npos) break;
    const std::string_view name = text.substr(start + 2, end - start - 2);
    auto variable = std::ranges::find_if(variables, [&](const auto& pair) { return pair.first == name; });
    expanded += text.substr(0, start);
    expanded += variable != variables.end() ? std::string_view(variable->second) : text.substr(start, end + 1 - start);
    text.remove_prefix(end + 1);
    if (expanded.size() > kMostExpanded) return TooLong();
  }
  expanded.append(text);
  if (expanded.size() > kMostExpanded) return TooLong();
  return expanded;
}

}  // namespace cella::jupyter
