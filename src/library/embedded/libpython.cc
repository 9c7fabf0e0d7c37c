#include "library/embedded/libpython.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>

#include "language/python.h"
#include "library/embedded/plugin.h"

namespace cella::library {
namespace {

#if defined(__aarch64__)
constexpr const char* kTriplet = "aarch64-linux-gnu";
#else
constexpr const char* kTriplet = "x86_64-linux-gnu";
#endif

std::string LoaderError() {
  const char* text = dlerror();
  return text == nullptr ? "the loader gave no reason" : text;
}

// "3.11" of "3.11.7".
std::string MinorOf(const std::string& version) { return version.substr(0, version.find('.', version.find('.') + 1)); }

// A libpython that the process has loaded without showing its symbols to others.
std::string LoadedLibrary() {
  std::string found;
  (void)dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        if (!path.substr(path.rfind('/') + 1).starts_with("libpython3.")) return 0;
        *static_cast<std::string*>(to) = path;
        return 1;
      },
      &found);
  return found;
}

Result<std::string> LibraryOf(const language::Python& python) {
  const std::string name = fmt::format("libpython{}.so.1.0", MinorOf(python.version));
  for (const std::string& prefix : {python.base_prefix, python.base_exec_prefix}) {
    for (const std::string& directory : {std::string("lib"), fmt::format("lib/{}", kTriplet), std::string("lib64")}) {
      std::string path = fmt::format("{}/{}/{}", prefix, directory, name);
      if (access(path.c_str(), R_OK) == 0) return path;
    }
  }
  return Err(ErrorCode::kUnsupported,
             "Python {} at '{}' has no shared library ({} below '{}'): install it (Debian: libpython{}), build Python "
             "with --enable-shared, or choose another interpreter with python",
             python.version, python.executable, name, python.base_prefix, MinorOf(python.version));
}

// Makes the interpreter's symbols global.
Status Load(const std::string& path, int more_flags) {
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | more_flags) != nullptr) return {};
  return Err(ErrorCode::kUnsupported, "load '{}': {}", path, LoaderError());
}

struct Entries {
  decltype(&cella_python_start) start = nullptr;
  decltype(&cella_python_version) version = nullptr;
  decltype(&cella_python_prefix) prefix = nullptr;
  decltype(&cella_python_serve) serve = nullptr;
};

Result<Entries> LoadPlugin(const engine::Installation& installation) {
  if (installation.python_plugin.empty() || installation.python_packages.empty()) {
    return Err(ErrorCode::kUnsupported,
               "this installation has no cella-python.so: build cella with Python's headers (Debian: python3-dev)");
  }
  void* plugin = dlopen(installation.python_plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    return Err(ErrorCode::kUnsupported, "load '{}': {}; it needs Python 3.9 or later", installation.python_plugin,
               LoaderError());
  }
  Entries entries;
  const auto find = [plugin](auto* entry, const char* name) {
    *entry = reinterpret_cast<std::remove_pointer_t<decltype(entry)>>(dlsym(plugin, name));
    return *entry != nullptr;
  };
  if (find(&entries.start, "cella_python_start") && find(&entries.version, "cella_python_version") &&
      find(&entries.prefix, "cella_python_prefix") && find(&entries.serve, "cella_python_serve")) {
    return entries;
  }
  return Err(ErrorCode::kInternal, "'{}' is no plugin of this libcella", installation.python_plugin);
}

Result<language::Python> Choose(const language::HostEnv& host, const Policy& policy) {
  TRY(language::Python python, language::ResolvePython({policy.python, policy.venv, host}));
  int major = 0, minor = 0;
  if (std::sscanf(python.version.c_str(), "%d.%d", &major, &minor) != 2 || std::pair(major, minor) < std::pair(3, 9)) {
    return Err(ErrorCode::kUnsupported,
               "inprocess needs Python 3.9 or later, and '{}' is {}: choose another with python", python.executable,
               python.version);
  }
  return python;
}

// What the process runs is what the policy named.
Status CheckSame(const language::Python& wanted, const EmbeddedPython& running) {
  if (MinorOf(wanted.version) == MinorOf(running.version) && wanted.prefix == running.prefix) return {};
  return Err(ErrorCode::kUnsupported,
             "this process runs Python {} of '{}' already, and '{}' is {} of '{}': a process has one interpreter; use "
             "another process, or the executor sandbox",
             running.version, running.prefix, wanted.executable, wanted.version, wanted.prefix);
}

// Of the process that started the interpreter. A child of fork has neither the thread that opens sessions nor a lock
// that can be trusted.
std::atomic<pid_t> owner = 0;

// A process has one interpreter, which stays until the process ends.
struct OfProcess {
  std::mutex mutex;
  std::optional<EmbeddedPython> running;
};
OfProcess& State() {
  static auto* state = new OfProcess;
  return *state;
}

Result<EmbeddedPython> Start(const engine::Installation& installation, const std::optional<language::Python>& chosen,
                             const sigset_t& signals) {
  std::string program;
  if (!HasInterpreter()) {
    if (const std::string loaded = LoadedLibrary(); !loaded.empty()) {
      TRY_VOID(Load(loaded, RTLD_NOLOAD));
    } else if (dlsym(RTLD_DEFAULT, "Py_IsInitialized") == nullptr) {
      TRY(const std::string library, LibraryOf(*chosen));
      TRY_VOID(Load(library, 0));
    }
    program = chosen->executable;
  }
  TRY(const Entries entries, LoadPlugin(installation));
  const std::string runners = installation.runners + "/python";
  cella_python_options options = {};
  options.program = program.c_str();
  options.packages = installation.python_packages.c_str();
  options.runners = runners.c_str();
  options.version = CELLA_VERSION;
  options.signals = signals;
  if (char* failed = entries.start(&options)) {
    std::string words = failed;
    free(failed);
    return Err(ErrorCode::kUnsupported, "the interpreter of this process cannot run sessions: {}", words);
  }
  return EmbeddedPython{entries.version(), entries.prefix(), entries.serve};
}

}  // namespace

Result<EmbeddedPython> StartPython(const engine::Installation& installation, const language::HostEnv& host,
                                   const Policy& policy, const sigset_t& signals) {
  pid_t none = 0;
  if (!owner.compare_exchange_strong(none, getpid()) && none != getpid()) {
    return Err(
        ErrorCode::kUnsupported,
        "the interpreter belongs to process {}, of which this one is a fork: use inprocess in a program that was "
        "exec'ed, or the executor sandbox",
        none);
  }
  const std::scoped_lock lock(State().mutex);
  const bool is_named = !policy.python.empty() || !policy.venv.empty();
  std::optional<language::Python> chosen;
  if (is_named || (!State().running && !HasInterpreter())) {
    TRY(chosen, Choose(host, policy));
  }
  if (!State().running) {
    TRY(State().running, Start(installation, chosen, signals));
  }
  if (is_named) TRY_VOID(CheckSame(*chosen, *State().running));
  return *State().running;
}

bool HasInterpreter() {
  const auto initialized = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  return initialized != nullptr && initialized() != 0;
}

Status CheckInterpreterIsFree() {
  const auto holds = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  if (!HasInterpreter() || holds == nullptr || holds() == 0) return {};
  return Err(ErrorCode::kInvalid,
             "this thread holds the lock of the interpreter that the session needs: call libcella between "
             "Py_BEGIN_ALLOW_THREADS and Py_END_ALLOW_THREADS");
}

}  // namespace cella::library
