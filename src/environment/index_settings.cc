#include "environment/index_settings.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "environment/spec_scanner.h"
#include "environment/uv_settings.h"
#include "os/io.h"

namespace cella::environment {
namespace {

constexpr uint64_t kMaxFile = 256 * 1024;

using Options = std::map<std::string, std::string, std::less<>>;

bool Exists(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words;
  while (!(text = Trimmed(text)).empty()) {
    size_t end = std::min(text.find_first_of(" \t\r\n"), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

std::string Joined(const std::vector<std::string>& words, std::string_view separator = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(separator)) + word;
  return text;
}

// "index-url" → PIP_INDEX_URL
std::string PipVariable(std::string_view option) {
  std::string name = "PIP_";
  for (char c : option) name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return name;
}

// A later file overrides an earlier one, and [install] overrides [global].
Options PipOptions(const Lookup& variable) {
  std::vector<std::string> files = {"/etc/xdg/pip/pip.conf", "/etc/pip.conf"};
  const std::string home = variable("HOME"), xdg = variable("XDG_CONFIG_HOME"), named = variable("PIP_CONFIG_FILE");
  if (!home.empty()) files.push_back(home + "/.pip/pip.conf");
  if (!xdg.empty() || !home.empty()) files.push_back((xdg.empty() ? home + "/.config" : xdg) + "/pip/pip.conf");
  if (named == "/dev/null") files.clear();
  if (!named.empty() && named != "/dev/null") files.push_back(named);
  Options options;
  for (const std::string& file : files) {
    auto text = os::ReadFile(file, kMaxFile);
    if (!text) continue;
    const auto entries = ParseIni(*text);
    for (std::string_view section : {"global.", "install."}) {
      for (const auto& [key, value] : entries) {
        if (key.starts_with(section)) options[key.substr(section.size())] = value;
      }
    }
  }
  for (const char* option : {"index-url", "extra-index-url", "no-index", "find-links", "cert", "client-cert", "proxy",
                             "trusted-host", "timeout", "default-timeout", "retries"}) {
    if (std::string value = variable(PipVariable(option)); !value.empty()) options[option] = value;
  }
  return options;
}

// As pip and uv read a switch.
bool IsOn(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return text == "1" || text == "true" || text == "yes" || text == "on" || text == "y" || text == "t";
}

// pip also takes directories as "file:///srv/wheels".
std::string WithoutFileScheme(const std::string& link) {
  constexpr std::string_view kScheme = "file://";
  return link.starts_with("file:///") ? link.substr(kScheme.size()) : link;
}

std::string WithoutPassword(const std::string& url) {
  size_t start = url.find("://");
  if (start == std::string::npos) return url;
  start += 3;
  size_t at = url.substr(start, url.find('/', start) - start).rfind('@');
  return at == std::string::npos ? url : url.substr(0, start) + url.substr(start + at + 1);
}

std::string FirstOf(const Lookup& variable, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string value = variable(name); !value.empty()) return value;
  }
  return {};
}

}  // namespace

std::vector<std::pair<std::string, std::string>> ParseIni(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> entries;
  std::string section;
  bool continues = false;  // an indented line belongs to the value before it
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool indented = !line.empty() && IsBlank(line.front());
    line = Trimmed(line);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (indented && continues) {
      entries.back().second += (entries.back().second.empty() ? "" : " ") + std::string(line);
      continue;
    }
    continues = false;
    if (line.front() == '[') {
      section = line.substr(1, line.find(']') - 1);
      continue;
    }
    size_t sign = line.find_first_of("=:");
    if (sign == std::string_view::npos) continue;
    std::string key(Trimmed(line.substr(0, sign)));
    std::ranges::replace(key, '_', '-');
    entries.emplace_back(section + "." + key, Trimmed(line.substr(sign + 1)));
    continues = true;
  }
  return entries;
}

Result<IndexSettings> ReadIndexSettings(const Lookup& variable) {
  IndexSettings settings;
  Options pip = PipOptions(variable);
  settings.index_url = pip["index-url"];
  settings.extra_index_urls = Words(pip["extra-index-url"]);
  settings.no_index = IsOn(pip["no-index"]);
  settings.find_links = Words(pip["find-links"]);
  settings.certificate = pip["cert"];
  settings.client_certificate = pip["client-cert"];
  settings.trusted_hosts = Words(pip["trusted-host"]);
  settings.timeout = pip["timeout"].empty() ? pip["default-timeout"] : pip["timeout"];
  settings.retries = pip["retries"];
  settings.http_proxy = FirstOf(variable, {"http_proxy", "HTTP_PROXY"});
  settings.https_proxy = FirstOf(variable, {"https_proxy", "HTTPS_PROXY"});
  settings.all_proxy = FirstOf(variable, {"all_proxy", "ALL_PROXY"});
  settings.no_proxy = FirstOf(variable, {"no_proxy", "NO_PROXY"});
  if (!pip["proxy"].empty()) settings.http_proxy = settings.https_proxy = pip["proxy"];

  // What is said to uv outweighs what is said to pip, because uv is the installer.
  TRY_VOID(AddUvFiles(variable, &settings));
  if (auto url = FirstOf(variable, {"UV_DEFAULT_INDEX", "UV_INDEX_URL"}); !url.empty()) {
    settings.index_url = url;
    settings.no_index = false;
  }
  if (auto urls = FirstOf(variable, {"UV_INDEX", "UV_EXTRA_INDEX_URL"}); !urls.empty()) {
    settings.extra_index_urls = Words(urls);
  }
  if (auto links = variable("UV_FIND_LINKS"); !links.empty()) {
    std::ranges::replace(links, ',', ' ');
    settings.find_links = Words(links);
  }
  if (auto hosts = variable("UV_INSECURE_HOST"); !hosts.empty()) settings.trusted_hosts = Words(hosts);
  if (auto timeout = variable("UV_HTTP_TIMEOUT"); !timeout.empty()) settings.timeout = timeout;
  if (settings.certificate.empty()) {
    settings.certificate = FirstOf(variable, {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"});
  }
  if (auto client = variable("SSL_CLIENT_CERT"); !client.empty()) settings.client_certificate = client;

  for (std::string& link : settings.find_links) link = WithoutFileScheme(link);
  // A directory that is missing is a fatal error of uv, but not of pip.
  std::erase_if(settings.find_links, [](const std::string& link) { return !link.contains("://") && !Exists(link); });
  for (std::string* file : {&settings.certificate, &settings.client_certificate}) {
    if (!file->empty() && !Exists(*file)) file->clear();
  }
  return settings;
}

std::string IndexSettings::Identity() const {
  std::string text = no_index ? "no index" : WithoutPassword(index_url);
  for (const std::string& url : extra_index_urls) text += "\n" + WithoutPassword(url);
  for (const std::string& link : find_links) text += "\n" + WithoutPassword(link);
  return text;
}

Variables IndexSettings::ForUv() const {
  Variables variables = {{"UV_NO_CONFIG", "1"}, {"UV_PYTHON_DOWNLOADS", "never"}, {"UV_NO_PROGRESS", "1"}};
  auto set = [&](const char* name, const std::string& value) {
    if (!value.empty()) variables.emplace_back(name, value);
  };
  set("UV_DEFAULT_INDEX", index_url);
  set("UV_INDEX", Joined(extra_index_urls));
  if (no_index) set("UV_NO_INDEX", "1");  // for the installer's scripts: uv has an option, and no variable
  set("UV_FIND_LINKS", Joined(find_links, ","));
  set("UV_INSECURE_HOST", Joined(trusted_hosts));
  set("UV_HTTP_TIMEOUT", timeout.empty() ? "30" : timeout);
  set("UV_HTTP_RETRIES", retries);
  set("SSL_CERT_FILE", certificate);
  set("SSL_CLIENT_CERT", client_certificate);
  if (certificate.empty()) set("UV_SYSTEM_CERTS", "1");
  AddProxies(&variables);
  return variables;
}

void IndexSettings::AddProxies(Variables* variables) const {
  for (const auto& [name, value] : {std::pair{"HTTP_PROXY", &http_proxy},
                                    {"HTTPS_PROXY", &https_proxy},
                                    {"ALL_PROXY", &all_proxy},
                                    {"NO_PROXY", &no_proxy}}) {
    if (!value->empty()) variables->emplace_back(name, *value);
  }
}

Variables IndexSettings::ForPip() const {
  Variables variables = {{"PIP_CONFIG_FILE", "/dev/null"}, {"PIP_DISABLE_PIP_VERSION_CHECK", "1"}};
  auto set = [&](const char* name, const std::string& value) {
    if (!value.empty()) variables.emplace_back(name, value);
  };
  set("PIP_INDEX_URL", index_url);
  set("PIP_EXTRA_INDEX_URL", Joined(extra_index_urls));
  if (no_index) set("PIP_NO_INDEX", "1");
  set("PIP_FIND_LINKS", Joined(find_links));
  set("PIP_CERT", certificate);
  set("PIP_CLIENT_CERT", client_certificate);
  set("PIP_TRUSTED_HOST", Joined(trusted_hosts));
  set("PIP_TIMEOUT", timeout);
  set("PIP_RETRIES", retries);
  AddProxies(&variables);
  return variables;
}

std::vector<std::string> IndexSettings::Paths() const {
  std::vector<std::string> paths;
  for (const std::string& link : find_links) {
    if (link.starts_with('/')) paths.push_back(link);
  }
  for (const std::string& file : {certificate, client_certificate}) {
    if (file.starts_with('/')) paths.push_back(file);
  }
  return paths;
}

}  // namespace cella::environment
