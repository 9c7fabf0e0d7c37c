// Where the operator's packages come from: index, proxy, certificates and directories with packages, read from pip's
// and uv's configuration files and variables, and written as the variables of both programs in an installer's jail.
// Never from a guest. Reading blocks on the file system.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cella::environment {

using Variables = std::vector<std::pair<std::string, std::string>>;

struct IndexSettings {
  std::string index_url;  // empty: the program's own default
  std::vector<std::string> extra_index_urls;
  bool no_index = false;                // packages come from find_links alone
  std::vector<std::string> find_links;  // existing directories, or URLs
  std::string certificate;              // a file; empty: the system's
  std::string client_certificate;
  std::string http_proxy, https_proxy, all_proxy, no_proxy;
  std::vector<std::string> trusted_hosts;
  std::string timeout;  // seconds
  std::string retries;

  // The same index gives the same text; without passwords.
  std::string Identity() const;
  Variables ForUv() const;
  Variables ForPip() const;
  // Files and directories that the installer must see.
  std::vector<std::string> Paths() const;

 private:
  void AddProxies(Variables* variables) const;
};

// Sections and keys of an INI file as pip writes it: "install.index-url" → value; lines of a value are joined by
// blanks.
std::vector<std::pair<std::string, std::string>> ParseIni(std::string_view text);

using Lookup = std::function<std::string(std::string_view)>;  // of an environment variable; "": not set

// kInvalid: a file that PIP_CONFIG_FILE or UV_CONFIG_FILE names is not understood. Other files that cannot be read are
// left out, as pip does it.
Result<IndexSettings> ReadIndexSettings(const Lookup& variable);

}  // namespace cella::environment
