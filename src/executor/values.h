// Values of a run that its code gets as variables: small ones travel in the runner's frame, large ones in files of the
// workspace, which the runner reads and removes. Lives on the loop.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "async/blocking_pool.h"
#include "async/task.h"
#include "cella/run.h"
#include "os/directory.h"
#include "runner/protocol.h"

namespace cella::executor {

// Whether the runner of this language takes values.
inline bool TakesValues(std::string_view language) {
  return language == "python" || language == "javascript" || language == "bash";
}
// Whether its variables can only hold texts without NUL.
inline bool TakesTexts(std::string_view language) { return language == "bash"; }

struct PlacedValues {
  std::vector<runner::Value> values;
  std::vector<std::string> files;  // in the workspace; to be removed if the runner did not
};

// Writes a new file of that name into the workspace.
using ValueWriter = std::function<async::Task<Status>(std::string name, std::string_view content)>;

enum class PlaceInFiles { kLarge, kAll };

// `workspace` is its path as the guest sees it. What was written before an Error stays in `placed->files`.
async::Task<Status> PlaceValues(const std::vector<Variable>& variables, std::string workspace, PlaceInFiles which,
                                const ValueWriter& write, PlacedValues* placed);

// The same for variables that hold texts: of JSON, a text is itself, null is empty, and all else is JSON. kInvalid: a
// value holds a NUL.
async::Task<Status> PlaceTexts(async::BlockingPool& pool, const std::vector<Variable>& variables, std::string workspace,
                               const ValueWriter& write, PlacedValues* placed);

// Writes into a directory of this machine, on the pool. Both outlive the writer.
ValueWriter WriterInto(async::BlockingPool& pool, const os::Directory& directory);

// Best effort: the guest may have done anything to them.
void RemoveValues(const os::Directory& directory, std::vector<std::string>* files);

}  // namespace cella::executor
