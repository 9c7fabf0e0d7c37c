// The kinds of executors, as data: one row each. What differs between them lies behind the port in src/run; nothing
// else asks for a kind by name. To add one: a value, a row, a folder in src/executor, and a line in src/engine.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

namespace cella {

// Where the code runs. The values are the indices of the rows.
enum class ExecutorKind { kSandbox, kLocal, kContainer, kSubprocess, kInProcess };

struct ExecutorRow {
  ExecutorKind kind;
  std::string_view name;  // in options, configuration and JSON
  bool confines;          // a guest cannot reach the host beyond what its policy shows it
  bool allowed;           // clients of a server may ask for it unless the operator says otherwise
  std::string_view help;
};

inline constexpr ExecutorRow kExecutors[] = {
    {ExecutorKind::kSandbox, "sandbox", true, true, "A jail of its own for each session."},
    {ExecutorKind::kLocal, "local", false, false, "Programs of the caller, with limits but without a jail."},
    {ExecutorKind::kContainer, "container", true, false, "A container of Docker or Podman for each session."},
    {ExecutorKind::kSubprocess, "subprocess", false, false, "A Jupyter kernel for each session, with limits."},
    {ExecutorKind::kInProcess, "inprocess", false, false, "The chosen Python as a plain process, with limits."},
};
inline constexpr size_t kExecutorCount = std::size(kExecutors);
inline constexpr ExecutorKind kDefaultExecutor = ExecutorKind::kSandbox;

constexpr size_t IndexOf(ExecutorKind kind) { return static_cast<size_t>(kind); }
constexpr const ExecutorRow& RowOf(ExecutorKind kind) { return kExecutors[IndexOf(kind)]; }
constexpr bool Confines(ExecutorKind kind) { return RowOf(kind).confines; }

static_assert(
    [] {
      for (size_t i = 0; i < kExecutorCount; ++i) {
        if (IndexOf(kExecutors[i].kind) != i) return false;
      }
      return true;
    }(),
    "the rows are in the order of the values");

// "sandbox, local, container"
std::string_view ExecutorNames();

}  // namespace cella
