#include "installer/foreign_python.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "environment/requirement.h"

namespace cella::installer {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxText = size_t{1} << 20;
constexpr size_t kMaxPackages = 5000;
constexpr int kOldestMinor = 8;
constexpr int kNewestMinor = 40;
// The versions of glibc for which uv has a platform. Wheels for an older one fit a newer one.
constexpr std::array<int, 12> kManylinux = {17, 28, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40};

std::string Text(const Json& json, const char* key) {
  auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::unexpected<Error> Malformed() {
  return Err(ErrorCode::kUnsupported, "the image's python3 did not describe itself as expected");
}

// "2.36" → 36; nothing: no glibc 2.
std::optional<int> GlibcMinor(std::string_view version) {
  if (!version.starts_with("2.")) return std::nullopt;
  version.remove_prefix(2);
  int minor = 0;
  const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), minor);
  if (error != std::errc() || minor < 0 || (end != version.data() + version.size() && *end != '.')) return std::nullopt;
  return minor;
}

Result<std::string> PlatformOf(const std::string& machine, const std::string& libc) {
  if (machine != "x86_64" && machine != "aarch64") {
    return Err(ErrorCode::kUnsupported, "packages are installed for images of x86_64 and aarch64 alone");
  }
  if (libc == "musl") return machine + "-unknown-linux-musl";
  constexpr std::string_view kGlibc = "glibc ";
  const auto minor = libc.starts_with(kGlibc) ? GlibcMinor(std::string_view(libc).substr(kGlibc.size())) : std::nullopt;
  if (!minor || *minor < kManylinux.front()) {
    return Err(ErrorCode::kUnsupported, "packages are installed for images with glibc 2.17 or later, or musl");
  }
  const auto fits =
      std::ranges::find_if(kManylinux.rbegin(), kManylinux.rend(), [&](int known) { return known <= *minor; });
  return fmt::format("{}-manylinux_2_{}", machine, *fits);
}

}  // namespace

Result<ForeignPython> ParseForeignPython(std::string_view text) {
  if (text.size() > kMaxText) return Malformed();
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return Malformed();
  ForeignPython python;
  int minor = 0, micro = 0;
  auto version = json.find("version");
  if (version == json.end() || !version->is_array() || version->size() != 3) return Malformed();
  for (const Json& part : *version) {
    if (!part.is_number_unsigned() || part.get<uint64_t>() > 1000) return Malformed();
  }
  minor = (*version)[1].get<int>();
  micro = (*version)[2].get<int>();
  if ((*version)[0] != 3 || minor < kOldestMinor || minor > kNewestMinor) {
    return Err(ErrorCode::kUnsupported, "packages are installed for Python 3.{} and later", kOldestMinor);
  }
  python.version = fmt::format("3.{}.{}", minor, micro);
  if (Text(json, "implementation") != "cpython" || !Text(json, "flags").empty()) {
    return Err(ErrorCode::kUnsupported, "packages are installed for CPython in its usual build alone, not for '{}{}'",
               Text(json, "implementation").substr(0, 20), Text(json, "flags").substr(0, 20));
  }
  TRY(python.platform, PlatformOf(Text(json, "machine"), Text(json, "libc")));
  auto packages = json.find("packages");
  if (packages == json.end() || !packages->is_object() || packages->size() > kMaxPackages) return Malformed();
  std::map<std::string, std::string> found;
  for (const auto& [name, number] : packages->items()) {
    if (!number.is_string() || !environment::IsPackageName(name)) continue;
    if (environment::IsVersion(number.get_ref<const std::string&>())) {
      found.try_emplace(environment::NormalizeName(name), number.get<std::string>());
    }
  }
  for (auto& [name, number] : found) python.packages.push_back({name, number});
  return python;
}

}  // namespace cella::installer
