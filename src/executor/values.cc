#include "executor/values.h"

#include <nlohmann/json.hpp>

#include "base/random.h"

namespace cella::executor {
namespace {

// Of one value, and of all that travel in the frame.
constexpr size_t kMostInline = size_t{32} << 10;
constexpr size_t kMostInlineTogether = size_t{64} << 10;
// So long that a guest cannot have a file of that name.
constexpr size_t kRandomDigits = 32;

Result<Variable> AsText(const Variable& variable) {
  using Json = nlohmann::json;
  Variable text = variable;
  if (variable.kind == Variable::Kind::kJson) {
    text.kind = Variable::Kind::kText;
    const size_t first = variable.data.find_first_not_of(" \t\r\n");
    const char kind = first == std::string::npos ? '\0' : variable.data[first];
    if (kind == 'n') text.data.clear();
    if (kind == '"') {
      const Json json = Json::parse(variable.data, nullptr, false);
      if (!json.is_string()) return Err(ErrorCode::kInvalid, "{}: the value is no JSON", variable.name);
      text.data = json.get<std::string>();
    }
  }
  if (text.data.contains('\0')) {
    return Err(ErrorCode::kInvalid,
               "{}: the value holds a NUL, which no variable of Bash can hold: write it to a file of the workspace",
               variable.name);
  }
  return text;
}

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

async::Task<Status> PlaceTexts(async::BlockingPool& pool, const std::vector<Variable>& variables, std::string workspace,
                               const ValueWriter& write, PlacedValues* placed) {
  auto convert = [&variables]() -> Result<std::vector<Variable>> {
    std::vector<Variable> texts;
    for (const Variable& variable : variables) {
      TRY(Variable text, AsText(variable));
      texts.push_back(std::move(text));
    }
    return texts;
  };
  auto texts = co_await pool.Run(convert);
  if (!texts) co_return std::unexpected(std::move(texts.error()));
  auto done = co_await PlaceValues(*texts, std::move(workspace), PlaceInFiles::kLarge, write, placed);
  co_return done;
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
