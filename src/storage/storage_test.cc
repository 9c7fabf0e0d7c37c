#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "async/task_group.h"
#include "base/sha256.h"
#include "os/io.h"
#include "storage/file_storage.h"
#include "storage/names.h"
#include "storage/service.h"
#include "storage/uploads.h"
#include "store/test_directory.h"

namespace cella::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

// The real one starts Python in a jail (tests/integration/test_storage.py); this one knows the word that matters.
Result<std::vector<SourceFacts>> LookForRun(std::span<const std::string> sources) {
  std::vector<SourceFacts> facts;
  for (const std::string& source : sources) {
    facts.push_back({source.contains("async def run") ? "" : "it has no 'async def run'", "described"});
  }
  return facts;
}

const std::string kSource = "async def run(n=1):\n    return n + 1\n";

class StorageTest : public ::testing::Test {
 protected:
  std::unique_ptr<FileStorage> Open(Bounds bounds = {}) { return FileStorage::Open(path_, bounds, LookForRun).value(); }

  static std::string Content(FileStorage& storage, const std::string& name) {
    auto loaded = storage.Load(name);
    return loaded ? os::ReadFd(loaded->file.get(), uint64_t{1} << 30).value() : "error: " + loaded.error().message;
  }
  static std::vector<std::string> Names(FileStorage& storage) {
    std::vector<std::string> names;
    for (const auto& artifact : storage.List("", 1000).value().artifacts) names.push_back(artifact.name);
    return names;
  }
  void Put(const std::string& path, const std::string& content) const {
    fs::create_directories(fs::path(path_ + "/" + path).parent_path());
    std::ofstream(path_ + "/" + path) << content;
  }

  store::TestDirectory directory_;
  const std::string path_ = directory_.File("data");
};

TEST(NamesTest, RefusesBadNamesOfArtifacts) {
  const std::string nul("a\0b", 3);
  for (const std::string& name :
       {std::string(), nul, std::string(300, 'x'), std::string("/etc/passwd"), std::string(".."), std::string("a/../b"),
        std::string("a//b"), std::string("a/"), std::string("./a"), std::string("a\nb"), std::string("\xff"),
        std::string(".cella/index.db"), std::string("a/.cella-part-0123456789abcdef")}) {
    EXPECT_FALSE(CheckArtifactName(name)) << Shown(name);
  }
  for (const char* name : {"a", "a/b.json", "Bericht für Juni.txt", ".hidden", "a..b", "a/b/c/d"}) {
    EXPECT_TRUE(CheckArtifactName(name)) << name;
  }
}

TEST(NamesTest, RefusesBadNamesOfWorkflows) {
  for (const char* name : {"", "_x", "1a", "a-b", "a.b", "a/b", "é", "class", "list", "invoke", "../x"}) {
    EXPECT_FALSE(CheckWorkflowName(name)) << name;
  }
  EXPECT_TRUE(CheckWorkflowName("fetch_orders2"));
}

TEST(NamesTest, MessagesDoNotHaveThePathOfTheStorage) {
  EXPECT_EQ(WithoutPath("'/s/a/.cella/index.db' is full", "/s/a"), "'.cella/index.db' is full");
  EXPECT_EQ(WithoutPath("write in the storage '/s/a': '/s/a/x'", "/s/a"), "write in the storage '.': 'x'");
  EXPECT_EQ(WithoutPath("'x' is full", "/s/a"), "'x' is full");
}

TEST_F(StorageTest, ArtifactsAreFilesWithTheirDetails) {
  auto storage = Open();
  const FileStorage::Details details{
      .kind = Kind::kJson, .origin = Origin::kJail, .description = "June", .metadata = R"({"month":6})"};
  ASSERT_TRUE(storage->Save("reports/june.json", R"({"total": 3})", details));
  EXPECT_EQ(os::ReadFile(path_ + "/artifacts/reports/june.json", 100).value(), R"({"total": 3})");
  const Artifact artifact = storage->Get("reports/june.json").value().value();
  EXPECT_EQ(artifact.kind, Kind::kJson);
  EXPECT_EQ(artifact.origin, Origin::kJail);
  EXPECT_EQ(artifact.size, 12u);
  EXPECT_EQ(artifact.description, "June");
  EXPECT_EQ(artifact.metadata, R"({"month":6})");
  EXPECT_THAT(Names(*storage), ElementsAre("reports/june.json"));
  EXPECT_TRUE(storage->Delete("reports/june.json").value());
  EXPECT_FALSE(storage->Delete("reports/june.json").value());
  EXPECT_EQ(storage->Load("reports/june.json").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(fs::exists(path_ + "/artifacts/reports"));
}

TEST_F(StorageTest, MissingPartsAreEmpty) {
  auto storage = Open();
  EXPECT_THAT(Names(*storage), IsEmpty());
  EXPECT_THAT(storage->ListWorkflows().value().found, IsEmpty());
  EXPECT_EQ(storage->Get("x").value(), std::nullopt);
  EXPECT_EQ(storage->GetWorkflow("x").value().has_value(), false);
}

TEST_F(StorageTest, RefusesContentOfAnotherKind) {
  auto storage = Open();
  EXPECT_EQ(storage->Save("a", "\xff\xfe", {.kind = Kind::kText}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(storage->Save("a", "{", {.kind = Kind::kJson}).error().code, ErrorCode::kInvalid);
  EXPECT_FALSE(storage->Save("a", std::string(1000, '[') + std::string(1000, ']'), {.kind = Kind::kJson}));
  EXPECT_EQ(storage->Save("a", "x", {.metadata = "[]"}).error().code, ErrorCode::kInvalid);
  EXPECT_THAT(Names(*storage), IsEmpty());
  EXPECT_TRUE(fs::is_empty(path_ + "/.cella/tmp"));
}

TEST_F(StorageTest, KeepsWithinItsBounds) {
  auto storage = Open({.bytes = 100, .files = 3, .artifact_bytes = 60});
  EXPECT_EQ(storage->Save("big", std::string(61, 'x'), {}).error().code, ErrorCode::kExhausted);
  ASSERT_TRUE(storage->Save("a", std::string(60, 'x'), {}));
  EXPECT_THAT(storage->Save("b", std::string(41, 'x'), {}).error().message, HasSubstr("full"));
  ASSERT_TRUE(storage->Save("a", std::string(50, 'y'), {}));  // in the place of the other
  ASSERT_TRUE(storage->Save("b", std::string(40, 'x'), {}));
  ASSERT_TRUE(storage->Save("c", "", {}));
  EXPECT_THAT(storage->Save("d", "", {}).error().message, HasSubstr("3 files"));
  EXPECT_EQ(Content(*storage, "a"), std::string(50, 'y'));
}

TEST_F(StorageTest, FollowsNoLink) {
  auto storage = Open();
  const std::string outside = directory_.File("outside");
  fs::create_directory(outside);
  std::ofstream(outside + "/secret") << "secret";
  fs::create_directory(path_ + "/artifacts");
  fs::create_symlink(outside, path_ + "/artifacts/dir");
  fs::create_symlink(outside + "/secret", path_ + "/artifacts/file");
  EXPECT_THAT(Content(*storage, "dir/secret"), HasSubstr("error"));
  EXPECT_THAT(Content(*storage, "file"), HasSubstr("error"));
  EXPECT_FALSE(storage->Save("dir/new", "x", {}));
  EXPECT_FALSE(fs::exists(outside + "/new"));
  EXPECT_FALSE(storage->Delete("dir/secret").value_or(false));
  ASSERT_TRUE(storage->Save("file", "mine", {}));  // in the place of the link
  EXPECT_EQ(os::ReadFile(outside + "/secret", 100).value(), "secret");
}

TEST_F(StorageTest, DirectoriesAndFilesDoNotTakeEachOthersPlace) {
  auto storage = Open();
  ASSERT_TRUE(storage->Save("a/b", "x", {}));
  EXPECT_THAT(storage->Save("a", "x", {}).error().message, HasSubstr("directory"));
  EXPECT_THAT(storage->Save("a/b/c", "x", {}).error().message, HasSubstr("file"));
}

TEST_F(StorageTest, FilesThatPeoplePutThereAreListed) {
  auto storage = Open();
  Put("artifacts/a.json", "[1]");
  Put("artifacts/b.txt", "text");
  Put("artifacts/c.bin", "\xff");
  EXPECT_THAT(Names(*storage), ElementsAre("a.json", "b.txt", "c.bin"));
  EXPECT_EQ(storage->Get("a.json").value()->kind, Kind::kJson);
  EXPECT_EQ(storage->Get("b.txt").value()->kind, Kind::kText);
  EXPECT_EQ(storage->Get("c.bin").value()->kind, Kind::kBytes);
  fs::remove(path_ + "/artifacts/b.txt");
  EXPECT_THAT(Names(*storage), ElementsAre("a.json", "c.bin"));
}

TEST_F(StorageTest, AnEditedFileKeepsItsKindWhereItFits) {
  auto storage = Open();
  ASSERT_TRUE(storage->Save("a", "[1]", {.kind = Kind::kJson, .description = "list"}));
  Put("artifacts/a", "[1, 2]");
  EXPECT_EQ(storage->Load("a")->info.kind, Kind::kJson);
  Put("artifacts/a", "no more JSON");
  EXPECT_EQ(storage->Load("a")->info.kind, Kind::kText);
  EXPECT_EQ(storage->Load("a")->info.description, "list");
}

TEST_F(StorageTest, ListsInPages) {
  auto storage = Open();
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(storage->Save(name, name, {}));
  const ArtifactPage first = storage->List("", 2).value();
  EXPECT_EQ(first.artifacts.size(), 2u);
  EXPECT_TRUE(first.more);
  const ArtifactPage second = storage->List("b", 2).value();
  EXPECT_EQ(second.artifacts.size(), 1u);
  EXPECT_FALSE(second.more);
}

TEST_F(StorageTest, StoresOnlyWorkflows) {
  auto storage = Open();
  EXPECT_THAT(storage->CreateWorkflow("a", "def run(): pass", "", Origin::kCaller).error().message,
              HasSubstr("not stored"));
  EXPECT_FALSE(fs::exists(path_ + "/workflows"));
  ASSERT_TRUE(storage->CreateWorkflow("a", kSource, "adds one", Origin::kCaller));
  EXPECT_EQ(os::ReadFile(path_ + "/workflows/a.py", 1000).value(), kSource);
  const Workflow workflow = storage->GetWorkflow("a").value().value();
  EXPECT_EQ(workflow.source, kSource);
  EXPECT_EQ(workflow.description, "adds one");
  EXPECT_TRUE(workflow.approved);
  EXPECT_TRUE(storage->DeleteWorkflow("a").value());
  EXPECT_FALSE(storage->DeleteWorkflow("a").value());
  EXPECT_FALSE(storage->GetWorkflow("a").value().has_value());
}

TEST_F(StorageTest, LeavesOutFilesThatAreNoWorkflows) {
  auto storage = Open();
  Put("workflows/good.py", kSource);
  Put("workflows/_private.py", kSource);
  Put("workflows/broken.py", "def run(");
  Put("workflows/notes.txt", "x");
  const Workflows workflows = storage->ListWorkflows().value();
  ASSERT_EQ(workflows.found.size(), 1u);
  EXPECT_EQ(workflows.found[0].name, "good");
  EXPECT_EQ(workflows.found[0].description, "described");
  EXPECT_EQ(workflows.left_out.size(), 2u);
  fs::remove(path_ + "/workflows/good.py");
  EXPECT_THAT(storage->ListWorkflows().value().found, IsEmpty());
}

TEST_F(StorageTest, SearchFindsAnyWordAndQuotesTheQuery) {
  auto storage = Open();
  ASSERT_TRUE(storage->CreateWorkflow("fetch_orders", kSource, "Gets the orders of a customer", Origin::kCaller));
  ASSERT_TRUE(storage->CreateWorkflow("send_mail", kSource, "Sends a letter to a customer", Origin::kCaller));
  auto found = [&](std::string_view query, size_t limit = 10) {
    std::vector<std::string> names;
    for (const auto& each : storage->SearchWorkflows(query, limit).value().found) names.push_back(each.name);
    return names;
  };
  EXPECT_THAT(found("orders"), ElementsAre("fetch_orders"));
  EXPECT_THAT(found("letter by mail"), ElementsAre("send_mail"));
  EXPECT_EQ(found("letter orders").size(), 2u);
  EXPECT_EQ(found("customer").size(), 2u);
  EXPECT_EQ(found("customer", 1).size(), 1u);
  EXPECT_THAT(found("nothing like it"), IsEmpty());
  EXPECT_THAT(found(R"(" OR NEAR( * ^ name: -)"), IsEmpty());
  EXPECT_THAT(found("\xff\xff"), IsEmpty());
  EXPECT_EQ(storage->SearchWorkflows(std::string(300, 'a'), 10).error().code, ErrorCode::kInvalid);
}

TEST_F(StorageTest, AJailsWorkflowNeedsApproval) {
  auto storage = Open();
  EXPECT_FALSE(storage->CreateWorkflow("a", kSource, "", Origin::kJail).value().approved);
  EXPECT_EQ(storage->ApproveWorkflow("a", "another").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(storage->GetWorkflow("a").value()->approved);
  EXPECT_TRUE(storage->ApproveWorkflow("a", Sha256Hex(kSource)).value().approved);
  EXPECT_TRUE(storage->GetWorkflow("a").value()->approved);
  // It is this source that was approved, under whatever name.
  EXPECT_FALSE(storage->CreateWorkflow("a", kSource + "\n", "", Origin::kJail).value().approved);
  EXPECT_TRUE(storage->CreateWorkflow("b", kSource, "", Origin::kJail).value().approved);
  EXPECT_EQ(storage->ApproveWorkflow("none", "").error().code, ErrorCode::kNotFound);
}

TEST_F(StorageTest, AJailCannotTakeTheTrustOfAPersonsWorkflowAway) {
  auto storage = Open();
  ASSERT_TRUE(storage->CreateWorkflow("mine", kSource, "", Origin::kCaller).value().approved);
  ASSERT_TRUE(storage->CreateWorkflow("copy", kSource, "", Origin::kJail));
  EXPECT_TRUE(storage->GetWorkflow("mine").value()->approved);
}

TEST_F(StorageTest, AForgottenRowDoesNotMakeAJailsWorkflowTrusted) {
  {
    auto storage = Open();
    ASSERT_TRUE(storage->CreateWorkflow("a", kSource, "", Origin::kJail));
    fs::rename(path_ + "/workflows/a.py", path_ + "/workflows/b.py");
  }
  EXPECT_FALSE(Open()->GetWorkflow("b").value()->approved);
}

TEST_F(StorageTest, TwoOpenStoragesSeeEachOther) {
  auto one = Open(), two = Open();
  ASSERT_TRUE(one->Save("a", "1", {.kind = Kind::kText, .description = "one"}));
  EXPECT_EQ(two->Get("a").value()->description, "one");
  ASSERT_TRUE(two->CreateWorkflow("w", kSource, "two", Origin::kCaller));
  EXPECT_EQ(one->ListWorkflows().value().found.at(0).description, "two");
  ASSERT_TRUE(two->Delete("a").value());
  EXPECT_THAT(Names(*one), IsEmpty());
}

TEST_F(StorageTest, ProcessesThatSaveOneNameTearNothing) {
  constexpr int kProcesses = 4, kSaves = 25;
  auto content = [](int process, int save) {
    return std::string(20'000, static_cast<char>('a' + process)) + char(save);
  };
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = fork();
    if (child == 0) {
      auto storage = FileStorage::Open(path_, {}, LookForRun);
      bool good = storage.has_value();
      for (int save = 0; good && save < kSaves; ++save) {
        good = (*storage)->Save("shared", content(process, save), {}).has_value() &&
               (*storage)->Save(fmt::format("own/{}-{}", process, save), content(process, save), {}).has_value();
        auto loaded = (*storage)->Load("shared");
        const std::string text = loaded ? os::ReadFd(loaded->file.get(), 1 << 20).value_or("") : "";
        good = good && text.size() == 20'001 && text == content(text[0] - 'a', text.back());
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Names(*Open()).size(), 1u + kProcesses * kSaves);
}

// A child saves and tells each name when it is acknowledged; it is killed at any moment.
TEST_F(StorageTest, KillsLoseNothingThatWasAcknowledged) {
  std::vector<std::string> acknowledged;
  for (int round = 0; round < 12; ++round) {
    auto pipe = os::MakePipe().value();
    const pid_t child = fork();
    if (child == 0) {
      auto storage = FileStorage::Open(path_, {}, LookForRun);
      for (int save = 0; storage; ++save) {
        const std::string name = fmt::format("r{}/{}", round, save);
        const std::string text = name + std::string(5000, 'x');
        if (!(*storage)->Save(name, text, {.kind = Kind::kText, .description = name})) _exit(1);
        if (!os::WriteAll(pipe.write.get(), name + "\n")) _exit(1);
      }
      _exit(1);
    }
    pipe.write.Reset();
    std::string told;
    std::array<char, 256> buffer;
    const size_t wanted = 20 + static_cast<size_t>(round) * 7;
    while (told.size() < wanted) {
      const ssize_t count = read(pipe.read.get(), buffer.data(), buffer.size());
      ASSERT_GT(count, 0);
      told.append(buffer.data(), static_cast<size_t>(count));
    }
    usleep(static_cast<useconds_t>(round * 300));  // another moment of the save each time
    kill(child, SIGKILL);
    for (ssize_t count = 1; count > 0;) {
      count = read(pipe.read.get(), buffer.data(), buffer.size());
      if (count > 0) told.append(buffer.data(), static_cast<size_t>(count));
    }
    waitpid(child, nullptr, 0);
    for (size_t end = told.find('\n'); end != std::string::npos; end = told.find('\n')) {
      acknowledged.push_back(told.substr(0, end));
      told.erase(0, end + 1);
    }
  }
  auto storage = Open();
  for (const std::string& name : acknowledged) {
    ASSERT_EQ(Content(*storage, name), name + std::string(5000, 'x'));
    EXPECT_EQ(storage->Get(name).value()->description, name);
  }
  for (const std::string& name : Names(*storage)) {
    EXPECT_EQ(Content(*storage, name), name + std::string(5000, 'x')) << "half a file: " << name;
  }
}

TEST_F(StorageTest, AFailedWriteLeavesTheOldContent) {
  ASSERT_TRUE(Open()->Save("a", "old", {}));
  const pid_t child = fork();
  if (child == 0) {
    (void)signal(SIGXFSZ, SIG_IGN);
    const rlimit most{100'000, 100'000};  // writes beyond fail, as at a full disk
    setrlimit(RLIMIT_FSIZE, &most);
    auto storage = FileStorage::Open(path_, {}, LookForRun);
    _exit(storage && !(*storage)->Save("a", std::string(200'000, 'n'), {}) && (*storage)->Save("b", "new", {}) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  auto storage = Open();
  EXPECT_EQ(Content(*storage, "a"), "old");
  EXPECT_THAT(Names(*storage), ElementsAre("a", "b"));
  EXPECT_TRUE(fs::is_empty(path_ + "/.cella/tmp"));
}

TEST(WhyWritableTest, StoragesAndWhatGuestsWriteMustNotOverlap) {
  EXPECT_NE(WhyWritable("/a/b", {"/a"}), "");
  EXPECT_NE(WhyWritable("/a", {"/a"}), "");
  EXPECT_NE(WhyWritable("/a", {"/a/b"}), "");
  EXPECT_NE(WhyWritable("/a", {"/"}), "");
  EXPECT_EQ(WhyWritable("/ab", {"/a"}), "");
  EXPECT_EQ(WhyWritable("/a", {}), "");
}

// Calls of storages on the threads of a service, until `go`.
class ServiceTest : public StorageTest {
 protected:
  static constexpr int kCalls = 40;

  async::Task<std::shared_ptr<FileStorage>> OpenAt(const std::string& name) {
    auto opened = co_await service_.Open(path_ + name, {});
    co_return opened.value();
  }
  async::Task<void> Block(std::shared_ptr<FileStorage> storage) {
    auto wait = [this]() -> Result<bool> {
      went_.wait();
      return true;
    };
    auto waited = co_await service_.Run(*storage, wait);
    ++(waited ? waited_ : refused_);
  }
  static Result<std::string> Save(FileStorage& storage) {
    TRY(const Artifact artifact, storage.Save("a", "x", {}));
    return artifact.name;
  }

  async::Loop loop_;
  Service service_{loop_, LookForRun};
  std::promise<void> go_;
  std::shared_future<void> went_ = go_.get_future().share();
  int waited_ = 0, refused_ = 0;
};

TEST_F(ServiceTest, CallsOfOneClientDoNotHoldUpAnother) {
  auto all = [&]() -> async::Task<void> {
    auto flooded = co_await OpenAt("/alice/work");
    auto other = co_await OpenAt("/bob/work");
    async::TaskGroup calls(loop_);
    for (int i = 0; i < kCalls; ++i) calls.Add(Block(flooded));
    auto save = [&] { return Save(*other); };
    auto saved = co_await service_.Run(*other, save);
    EXPECT_EQ(saved.value_or("refused"), "a");
    EXPECT_EQ(waited_, 0);
    go_.set_value();
    co_await calls.Join();
    EXPECT_EQ(waited_, kCalls);
  };
  loop_.Run(all());
}

TEST_F(ServiceTest, ACancelledCallDoesNotWaitForThoseBeforeIt) {
  auto all = [&]() -> async::Task<void> {
    auto storage = co_await OpenAt("/alice/work");
    auto sibling = co_await OpenAt("/alice/more");
    async::TaskGroup running(loop_), waiting(loop_);
    for (int i = 0; i < 2; ++i) running.Add(Block(storage));
    for (int i = 0; i < kCalls; ++i) waiting.Add(Block(sibling));
    (void)co_await async::SleepUntil(async::Clock::now());
    waiting.Cancel();
    co_await waiting.Join();
    EXPECT_EQ(refused_, kCalls);
    go_.set_value();
    co_await running.Join();
    EXPECT_EQ(waited_, 2);
  };
  loop_.Run(all());
}

class UploadsTest : public StorageTest {
 protected:
  uint64_t Begin(const std::string& name) { return uploads_.Add(storage_->BeginSave(name).value()); }

  std::unique_ptr<FileStorage> storage_ = Open();
  Uploads uploads_;
};

TEST_F(UploadsTest, KeepsPartsInTheirOrder) {
  const uint64_t first = Begin("a"), second = Begin("b");
  ASSERT_TRUE(uploads_.Append(first, "one, "));
  ASSERT_TRUE(uploads_.Append(second, "other"));
  ASSERT_TRUE(uploads_.Append(first, "two"));
  EXPECT_THAT(Names(*storage_), IsEmpty());
  ASSERT_TRUE(uploads_.Take(first).value().Commit({.kind = Kind::kText}));
  EXPECT_EQ(Content(*storage_, "a"), "one, two");
  EXPECT_THAT(Names(*storage_), ElementsAre("a"));
}

TEST_F(UploadsTest, RefusesUnknownAndTakenOnes) {
  const uint64_t id = Begin("a");
  EXPECT_EQ(uploads_.Append(id + 1, "x").error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(uploads_.Take(id));
  EXPECT_EQ(uploads_.Append(id, "x").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(uploads_.Take(id).error().code, ErrorCode::kNotFound);
}

TEST_F(UploadsTest, ForgetsTheOldestBeyondTheirNumber) {
  const uint64_t oldest = Begin("oldest"), next = Begin("next");
  for (size_t i = 0; i < Uploads::kMost - 1; ++i) Begin("more");
  EXPECT_FALSE(uploads_.Append(oldest, "x"));
  EXPECT_TRUE(uploads_.Append(next, "x"));
  EXPECT_EQ(std::distance(fs::directory_iterator(path_ + "/.cella/tmp"), {}), static_cast<long>(Uploads::kMost));
}

TEST_F(UploadsTest, ForgetsTheOldestBeyondTheirBytes) {
  const std::string part(size_t{50} << 20, 'x');
  const uint64_t first = Begin("a"), second = Begin("b"), third = Begin("c");
  ASSERT_TRUE(uploads_.Append(first, part));
  ASSERT_TRUE(uploads_.Append(second, part));
  ASSERT_TRUE(uploads_.Append(third, part));
  EXPECT_FALSE(uploads_.Append(first, "x"));
  EXPECT_TRUE(uploads_.Append(second, "x"));
  EXPECT_EQ(uploads_.Append(third, part).error().code, ErrorCode::kExhausted) << "an artifact has a bound of its own";
}

}  // namespace
}  // namespace cella::storage
