// Workflows of a storage: sources with an `async def run`, their trust and the search in them.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/random.h"
#include "base/sha256.h"
#include "base/text.h"
#include "os/beneath.h"
#include "os/io.h"
#include "storage/file_storage.h"
#include "storage/names.h"
#include "store/transaction.h"

namespace cella::storage {
namespace {

constexpr const char* kFolder = "workflows";
constexpr std::string_view kSuffix = ".py";
constexpr size_t kMostEntries = 4 * kMaxWorkflows;
constexpr size_t kMostLeftOut = 100;
constexpr size_t kMaxQuery = 256;
constexpr size_t kMaxWords = 32;
constexpr size_t kMostFound = 100;
// A source that the code of a jail saved, and no person has approved.
constexpr const char* kApproved =
    "NOT EXISTS (SELECT 1 FROM sources WHERE sources.hash = workflows.hash AND from_jail = 1 AND approved = 0)";

std::string PathOfWorkflow(std::string_view name) { return fmt::format("{}/{}{}", kFolder, name, kSuffix); }

// Each word quoted, so that no word is an operator of the search: "a" OR "b".
std::string MatchOf(std::string_view query) {
  std::string match;
  size_t words = 0;
  for (size_t at = 0; at < query.size() && words < kMaxWords;) {
    auto joins = [&](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             static_cast<unsigned char>(c) >= 0x80;
    };
    const size_t start = at;
    while (at < query.size() && joins(query[at])) ++at;
    if (at > start) {
      match += fmt::format("{}\"{}\"", words++ == 0 ? "" : " OR ", query.substr(start, at - start));
    } else {
      ++at;
    }
  }
  return match;
}

}  // namespace

struct FileStorage::FoundFile {
  std::string name;
  std::string source;
  std::string hash;
  os::EntryInfo info;
  std::string problem;
  std::string description;  // of its documentation
};

Result<std::optional<FileStorage::FoundFile>> FileStorage::ReadSource(const std::string& name) const {
  auto opened = directory_.OpenWithInfo(PathOfWorkflow(name));
  if (!opened) {
    const int failure = opened.error().sys_errno;
    if (failure == ENOENT || failure == ENOTDIR) return std::nullopt;
    return std::unexpected(std::move(opened.error()).WithContext(kFolder));
  }
  FoundFile file{.name = name, .source = {}, .hash = {}, .info = opened->info, .problem = {}, .description = {}};
  if (opened->info.size > kMaxSource) {
    file.problem = fmt::format("it has more than {} bytes", kMaxSource);
  } else {
    TRY(file.source, os::ReadFd(opened->fd.get(), 2 * kMaxSource));
  }
  if (file.problem.empty() && (!IsUtf8(file.source) || file.source.contains('\0'))) file.problem = "it is not UTF-8";
  if (!file.problem.empty()) file.source.clear();
  file.hash = file.problem.empty() ? Sha256Hex(file.source) : "";
  return file;
}

// What is to be learnt of sources that were never looked at. Not under the lock: it takes a while.
Status FileStorage::Check(std::vector<FoundFile>* files) {
  std::vector<std::string> sources;
  std::vector<FoundFile*> unknown;
  for (FoundFile& file : *files) {
    if (!file.problem.empty()) continue;
    {
      const std::scoped_lock lock(mutex_);
      TRY(auto row, index_.Prepare("SELECT problem, description FROM sources WHERE hash = ?"));
      row.Bind(file.hash);
      TRY(const bool found, row.Step());
      if (found && !row.IsNull(0)) {
        file.problem = row.Text(0);
        file.description = row.Text(1);
        continue;
      }
    }
    unknown.push_back(&file);
    sources.push_back(file.source);
  }
  if (sources.empty()) return {};
  if (!check_) return Err(ErrorCode::kUnsupported, "no Python is there that could read workflows");
  TRY(const std::vector<SourceFacts> facts, check_(sources));
  const std::scoped_lock lock(mutex_);
  TRY(auto transaction, store::Transaction::Begin(index_));
  for (size_t i = 0; i < unknown.size() && i < facts.size(); ++i) {
    unknown[i]->problem = facts[i].problem;
    unknown[i]->description = facts[i].description.substr(0, kMaxDescription);
    TRY_VOID(
        index_.Run("INSERT INTO sources (hash, problem, description) VALUES (?, ?, ?) ON CONFLICT (hash) DO UPDATE "
                   "SET problem = excluded.problem, description = excluded.description",
                   unknown[i]->hash, unknown[i]->problem, unknown[i]->description));
  }
  return transaction.Commit();
}

// Files that the index does not know as they are, and names in the index whose files are gone.
Result<std::vector<FileStorage::FoundFile>> FileStorage::ChangedFiles(std::vector<LeftOut>* left_out,
                                                                      std::vector<std::string>* gone) {
  std::map<std::string, std::pair<uint64_t, int64_t>> known;
  {
    const std::scoped_lock lock(mutex_);
    TRY(auto rows, index_.Prepare("SELECT name, size, changed_ns FROM workflows"));
    for (;;) {
      TRY(const bool more, rows.Step());
      if (!more) break;
      known[rows.Text(0)] = {static_cast<uint64_t>(rows.Integer(1)), rows.Integer(2)};
    }
  }
  std::vector<FoundFile> changed;
  size_t workflows = 0;
  auto page = directory_.ListChildren(kFolder, "", kMostEntries);
  if (!page && page.error().sys_errno != ENOENT) return std::unexpected(std::move(page.error()));
  for (const os::ChildEntry& entry : page ? page->entries : std::vector<os::ChildEntry>()) {
    if (entry.info.type != os::EntryType::kFile || !entry.name.ends_with(kSuffix)) continue;
    const std::string name = entry.name.substr(0, entry.name.size() - kSuffix.size());
    if (auto sound = CheckWorkflowName(name); !sound) {
      if (left_out->size() < kMostLeftOut)
        left_out->push_back({Shown(entry.name), "its name is not that of a workflow"});
      continue;
    }
    if (++workflows > kMaxWorkflows) {
      if (left_out->size() < kMostLeftOut) {
        left_out->push_back({entry.name, fmt::format("there are more than {} workflows", kMaxWorkflows)});
      }
      continue;
    }
    auto row = known.find(name);
    const bool current = row != known.end() && row->second == std::pair(entry.info.size, entry.info.modified_ns);
    if (row != known.end()) known.erase(row);
    if (current) continue;
    TRY(auto file, ReadSource(name));
    if (file) changed.push_back(std::move(*file));
  }
  for (const auto& [name, info] : known) gone->push_back(name);
  return changed;
}

Status FileStorage::PutWorkflow(const FoundFile& file, std::string_view description, Origin origin) {
  TRY_VOID(DropWorkflow(file.name));
  TRY_VOID(
      index_.Run("INSERT INTO workflows (name, size, changed_ns, hash, origin, description) VALUES (?, ?, ?, ?, ?, "
                 "?)",
                 file.name, file.info.size, file.info.modified_ns, file.hash, ToString(origin), description));
  return index_.Run("INSERT INTO workflow_words (rowid, name, description, source) VALUES (?, ?, ?, ?)",
                    index_.last_insert_rowid(), file.name, description, file.source);
}

Status FileStorage::DropWorkflow(const std::string& name) {
  TRY_VOID(index_.Run("DELETE FROM workflow_words WHERE rowid IN (SELECT id FROM workflows WHERE name = ?)", name));
  return index_.Run("DELETE FROM workflows WHERE name = ?", name);
}

// Brings the index in line with the files, which people may have put there. What is no workflow gets no row.
Status FileStorage::Refresh(std::vector<LeftOut>* left_out) {
  std::vector<std::string> gone;
  TRY(std::vector<FoundFile> changed, ChangedFiles(left_out, &gone));
  if (changed.empty() && gone.empty()) return {};
  TRY_VOID(Check(&changed));
  const std::scoped_lock lock(mutex_);
  TRY(auto transaction, store::Transaction::Begin(index_));
  for (FoundFile& file : changed) {
    if (!file.problem.empty() && left_out->size() < kMostLeftOut) {
      left_out->push_back({file.name + ".py", file.problem});
    }
    // Since it was read, another process may have saved it with a description.
    TRY(auto row, index_.Prepare("SELECT size, changed_ns FROM workflows WHERE name = ?"));
    row.Bind(file.name);
    TRY(const bool found, row.Step());
    auto now = directory_.Stat(PathOfWorkflow(file.name));
    const bool same = now && now->size == file.info.size && now->modified_ns == file.info.modified_ns;
    const bool current =
        found && now && static_cast<uint64_t>(row.Integer(0)) == now->size && row.Integer(1) == now->modified_ns;
    row.Reset();
    if (current || !same) continue;
    if (file.problem.empty()) {
      TRY_VOID(PutWorkflow(file, file.description, Origin::kCaller));
    } else {
      TRY_VOID(DropWorkflow(file.name));
    }
  }
  for (const std::string& name : gone) {
    if (!directory_.Stat(PathOfWorkflow(name))) TRY_VOID(DropWorkflow(name));
  }
  TRY_VOID(transaction.Commit());
  TidyLog();
  return {};
}

Result<Workflow> FileStorage::CreateWorkflow(const std::string& name, const std::string& source,
                                             const std::string& description, Origin origin) {
  TRY_VOID(CheckWorkflowName(name));
  if (source.size() > kMaxSource || !IsUtf8(source) || source.contains('\0')) {
    return Err(ErrorCode::kInvalid, "the source of '{}' must be UTF-8 of at most {} bytes", name, kMaxSource);
  }
  if (description.size() > kMaxDescription || !IsUtf8(description)) {
    return Err(ErrorCode::kInvalid, "a description is UTF-8 of at most {} bytes", kMaxDescription);
  }
  std::vector<FoundFile> files(1);
  FoundFile& file = files.front();
  file.name = name;
  file.source = source;
  file.hash = Sha256Hex(source);
  TRY_VOID(Check(&files));
  if (!file.problem.empty()) return Err(ErrorCode::kInvalid, "'{}' was not stored: {}", name, file.problem);
  const std::string part = RandomHex(24);
  TRY(const UniqueFd fd, MakePart(part));
  auto placed = [&]() -> Result<UniqueFd> {
    TRY_VOID(os::WriteAll(fd.get(), source));
    if (fsync(fd.get()) < 0) return SysErr(errno, "write '{}'", name);
    struct stat info = {};
    if (fstat(fd.get(), &info) < 0) return SysErr(errno, "write '{}'", name);
    file.info = os::InfoOf(info);
    const std::scoped_lock lock(mutex_);
    // Committed before the file is there: without this row it would count as a person's.
    if (origin == Origin::kJail) {
      // Not of a source that a person has put there too: a jail must not take its trust away.
      TRY_VOID(
          index_.Run("UPDATE sources SET from_jail = 1 WHERE hash = ? AND NOT EXISTS (SELECT 1 FROM workflows WHERE "
                     "workflows.hash = sources.hash AND origin = 'caller')",
                     file.hash));
    } else {
      TRY_VOID(index_.Run("UPDATE sources SET approved = 1 WHERE hash = ? AND from_jail = 1", file.hash));
    }
    TRY(auto transaction, store::Transaction::Begin(index_));
    TRY(const int64_t before, index_.Number("SELECT size FROM workflows WHERE name = ?", name));
    TRY(const int64_t others, index_.Number("SELECT count(*) FROM workflows WHERE name <> ?", name));
    if (static_cast<size_t>(others) >= kMaxWorkflows) {
      return Err(ErrorCode::kExhausted, "the storage has {} workflows already; delete some", kMaxWorkflows);
    }
    TRY_VOID(CheckRoom(before > 0 ? std::optional(static_cast<uint64_t>(before)) : std::nullopt, source.size()));
    TRY(UniqueFd parent, Place(part, PathOfWorkflow(name)));
    TRY_VOID(PutWorkflow(file, description.empty() ? file.description : description, origin));
    TRY_VOID(transaction.Commit());
    TidyLog();
    return parent;
  }();
  DropPart(part);
  if (!placed) return std::unexpected(std::move(placed.error()));
  if (fsync(placed->get()) < 0) return SysErr(errno, "write '{}'", name);
  TRY(auto made, GetWorkflow(name));
  if (!made) return Err(ErrorCode::kNotFound, "'{}' was deleted meanwhile", name);
  return std::move(*made);
}

Result<std::vector<Workflow>> FileStorage::Read(std::string_view sql, std::string_view text, size_t limit) {
  const std::scoped_lock lock(mutex_);
  TRY(auto rows, index_.Prepare(sql));
  rows.Bind(text);
  std::vector<Workflow> list;
  while (list.size() < limit) {
    TRY(const bool more, rows.Step());
    if (!more) break;
    list.push_back({.name = rows.Text(0),
                    .description = rows.Text(1),
                    .source = {},
                    .sha256 = rows.Text(2),
                    .origin = rows.Text(3) == ToString(Origin::kJail) ? Origin::kJail : Origin::kCaller,
                    .approved = rows.Integer(4) != 0});
  }
  return list;
}

Result<Workflows> FileStorage::ListWorkflows() {
  static const std::string kSql =
      fmt::format("SELECT name, description, hash, origin, {} FROM workflows WHERE ? = '' ORDER BY name", kApproved);
  Workflows workflows;
  TRY_VOID(Refresh(&workflows.left_out));
  TRY(workflows.found, Read(kSql, "", kMaxWorkflows));
  return workflows;
}

Result<Workflows> FileStorage::SearchWorkflows(std::string_view query, size_t limit) {
  static const std::string kSql = fmt::format(
      "SELECT workflows.name, workflows.description, hash, origin, {} FROM workflow_words JOIN workflows ON "
      "workflows.id = workflow_words.rowid WHERE workflow_words MATCH ? ORDER BY bm25(workflow_words, 5, 3, 1), "
      "workflows.name",
      kApproved);
  if (query.size() > kMaxQuery) {
    return Err(ErrorCode::kInvalid, "a search takes at most {} bytes, not {}", kMaxQuery, query.size());
  }
  Workflows workflows;
  const std::string match = MatchOf(ToUtf8Lossy(query));
  if (match.empty()) return workflows;
  TRY_VOID(Refresh(&workflows.left_out));
  TRY(workflows.found, Read(kSql, match, std::min(limit, kMostFound)));
  return workflows;
}

Result<std::optional<Workflow>> FileStorage::GetWorkflow(const std::string& name) {
  static const std::string kSql =
      fmt::format("SELECT name, description, hash, origin, {} FROM workflows WHERE name = ?", kApproved);
  TRY_VOID(CheckWorkflowName(name));
  // A file that was changed between the two is read again.
  for (int attempt = 0; attempt < 4; ++attempt) {
    std::vector<LeftOut> left_out;
    TRY_VOID(Refresh(&left_out));
    TRY(auto rows, Read(kSql, name, 1));
    if (rows.empty()) return std::nullopt;
    TRY(auto file, ReadSource(name));
    if (!file || file->hash != rows.front().sha256) continue;
    rows.front().source = std::move(file->source);
    return std::move(rows.front());
  }
  return Err(ErrorCode::kExhausted, "the workflow '{}' changes all the time", name);
}

Result<bool> FileStorage::DeleteWorkflow(const std::string& name) {
  TRY_VOID(CheckWorkflowName(name));
  const std::scoped_lock lock(mutex_);
  TRY(auto transaction, store::Transaction::Begin(index_));
  auto info = directory_.Stat(PathOfWorkflow(name));
  const bool found = info && info->type == os::EntryType::kFile;
  if (found) TRY_VOID(directory_.RemoveFile(PathOfWorkflow(name)));
  TRY_VOID(DropWorkflow(name));
  TRY_VOID(transaction.Commit());
  TidyLog();
  return found;
}

Result<Workflow> FileStorage::ApproveWorkflow(const std::string& name, const std::string& sha256) {
  TRY(auto workflow, GetWorkflow(name));
  if (!workflow || workflow->sha256 != sha256)
    return Err(ErrorCode::kNotFound, "there is no workflow '{}' in '{}'", Shown(name), path_);
  {
    const std::scoped_lock lock(mutex_);
    TRY_VOID(index_.Run("UPDATE sources SET approved = 1 WHERE hash = ?", workflow->sha256));
  }
  workflow->approved = true;
  return std::move(*workflow);
}

}  // namespace cella::storage
