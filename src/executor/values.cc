#include "executor/values.h"

#include "base/random.h"

namespace cella::executor {
namespace {

// Of one value, and of all that travel in the frame.
constexpr size_t kMostInline = size_t{32} << 10;
constexpr size_t kMostInlineTogether = size_t{64} << 10;
// So long that a guest cannot have a file of that name.
constexpr size_t kRandomDigits = 32;

}  // namespace

async::Task<Status> PlaceValues(const std::vector<Variable>& variables, std::string workspace, PlaceInFiles which,
                                const ValueWriter& write, PlacedValues* placed) {
  size_t together = 0;
  for (const Variable& variable : variables) {
    runner::Value value{.name = variable.name, .kind = variable.kind, .data = {}, .file = {}};
    const bool is_small = which == PlaceInFiles::kLarge && variable.kind != Variable::Kind::kBytes &&
                          variable.data.size() <= kMostInline && together + variable.data.size() <= kMostInlineTogether;
    if (is_small) {
      together += variable.data.size();
      value.data = variable.data;
    } else {
      std::string name = ".cella-value-" + RandomHex(kRandomDigits);
      placed->files.push_back(name);
      auto written = co_await write(name, variable.data);
      if (!written) co_return std::unexpected(std::move(written.error()).WithContext(variable.name));
      value.file = workspace + "/" + name;
    }
    placed->values.push_back(std::move(value));
  }
  co_return Status{};
}

ValueWriter WriterInto(async::BlockingPool& pool, const os::Directory& directory) {
  return [&pool, &directory](std::string name, std::string_view content) -> async::Task<Status> {
    auto work = [&]() -> Status { return directory.WriteFile(name, content, os::Directory::IfExists::kRefuse, 0600); };
    auto written = co_await pool.Run(work);
    co_return written;
  };
}

void RemoveValues(const os::Directory& directory, std::vector<std::string>* files) {
  for (const std::string& name : *files) (void)directory.RemoveFile(name);
  files->clear();
}

}  // namespace cella::executor
