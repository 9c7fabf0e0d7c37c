// Kernelspecs: the installed kernels of a machine, and how each is started. What reads them blocks on the file system.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cella::jupyter {

enum class InterruptMode { kSignal, kMessage };

struct Kernelspec {
  std::string name;
  std::string directory;  // {resource_dir}
  std::string display_name;
  std::string language;                                  // as the kernel names it: "python", "R"
  std::vector<std::string> argv;                         // with placeholders
  std::vector<std::pair<std::string, std::string>> env;  // with ${VAR}
  InterruptMode interrupt_mode = InterruptMode::kSignal;
};

// Where kernels are installed, best first: directories that hold "kernels/NAME/kernel.json".
struct KernelHost {
  std::string jupyter_path;      // JUPYTER_PATH
  std::string jupyter_data_dir;  // JUPYTER_DATA_DIR; empty: below home
  std::string home;
};
std::vector<std::string> DataDirectories(const KernelHost& host, const std::string& python_prefix);

// Every kernel once, by name: the first directory that has it counts. A broken one is left out.
std::vector<Kernelspec> ListKernelspecs(const std::vector<std::string>& data_directories);
// Names are compared without case. kNotFound names the kernels that there are; kInvalid: its kernel.json is broken.
Result<Kernelspec> FindKernelspec(const std::vector<std::string>& data_directories, std::string_view name);

// Reads the text of a kernel.json.
Result<Kernelspec> ParseKernelspec(std::string name, std::string directory, std::string_view text);

// The kernel (Linux) starts no program with a longer argument or variable. A kernelspec may be a guest's, and what it
// expands to is bounded by this: kExhausted.
inline constexpr size_t kMostExpanded = size_t{128} << 10;

// Every `from` in the text replaced.
Result<std::string> Substitute(std::string_view text, std::string_view from, std::string_view to);
// argv with its placeholders replaced.
Result<std::vector<std::string>> ExpandArguments(const Kernelspec& spec, std::string_view connection_file,
                                                 std::string_view prefix);
// ${VAR} from `variables`; an unknown one stays as it is.
Result<std::string> ExpandVariables(std::string_view text,
                                    const std::vector<std::pair<std::string, std::string>>& variables);

}  // namespace cella::jupyter
