#include "environment/store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "os/test_directory.h"

namespace cella::environment {
namespace {

namespace fs = std::filesystem;

class StoreTest : public testing::Test {
 protected:
  // A plain removal fails in directories that their owner may not read.
  void TearDown() override { RemoveReadOnlyTree(directory_.path("state")); }

  Store Open() {
    auto store = Store::Open(directory_.path("state"));
    EXPECT_TRUE(store) << store.error().message;
    return std::move(*store);
  }

  static void Publish(const Store& store, const std::string& key) {
    auto staging = store.MakeStaging();
    ASSERT_TRUE(staging) << staging.error().message;
    fs::create_directories(staging->path + "/venv/bin");
    std::ofstream(staging->path + "/venv/bin/python") << "x";
    fs::permissions(staging->path + "/venv/bin", fs::perms::owner_read | fs::perms::owner_exec);
    Manifest manifest{.key = key,
                      .python = "/usr/bin/python3",
                      .version = "3.11.2",
                      .requested = {"six"},
                      .packages = {{"six", "1.17.0"}},
                      .lock = "six==1.17.0\n",
                      .bytes = 7,
                      .files = 1};
    auto published = store.Publish(*staging, manifest);
    ASSERT_TRUE(published) << published.error().message;
  }

  os::TempDirectory directory_;
};

TEST_F(StoreTest, FindsWhatWasPublished) {
  const Store store = Open();
  EXPECT_FALSE(store.Find("k1"));
  Publish(store, "k1");
  auto ready = store.Find("k1");
  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->manifest.packages.at(0).version, "1.17.0");
  EXPECT_TRUE(fs::exists(ready->venv + "/bin/python"));
  // The builder that is second leaves what is there.
  Publish(store, "k1");
  EXPECT_TRUE(store.Find("k1"));
  EXPECT_TRUE(fs::is_empty(store.work() + "/staging"));
}

TEST_F(StoreTest, BuildTakesThePlaceOfADirectoryWhoseManifestCannotBeRead) {
  const Store store = Open();
  Publish(store, "k1");
  std::ofstream(store.ready() + "/k1/manifest.json") << "{";
  EXPECT_FALSE(store.Find("k1"));
  Publish(store, "k1");
  EXPECT_TRUE(store.Find("k1"));
}

TEST_F(StoreTest, CountsThoseWhoUseAnEnvironment) {
  const Store store = Open();
  Publish(store, "k1");
  EXPECT_EQ(store.List().at(0).uses, 0u);
  auto first = store.Find("k1"), second = store.Find("k1");
  ASSERT_TRUE(first && second);
  const StoredEnvironment listed = store.List().at(0);
  EXPECT_TRUE(listed.in_use);
  EXPECT_EQ(listed.uses, 2u);
}

TEST_F(StoreTest, RefusesADirectoryThatOthersMayUse) {
  Open();
  fs::permissions(directory_.path("state/environments"), fs::perms::all);
  auto store = Store::Open(directory_.path("state"));
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, ErrorCode::kPermission);
}

TEST_F(StoreTest, SweepsBuildsThatNoProcessWorksOn) {
  const Store store = Open();
  auto alive = store.MakeStaging();
  ASSERT_TRUE(alive);
  std::string dead;
  {
    auto staging = store.MakeStaging();
    ASSERT_TRUE(staging);
    dead = staging->path;
    fs::create_directories(dead + "/venv/lib");
    fs::permissions(dead + "/venv", fs::perms::owner_read | fs::perms::owner_exec);
  }
  store.Sweep();
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(alive->path));
}

void MakeOld(const std::string& path) {
  const struct timespec old[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), old, 0), 0) << path;
}

TEST_F(StoreTest, CollectionForgetsWhatWasResolvedAndBuiltLongAgo) {
  const Store store = Open();
  for (const char* key : {"old", "named", "new"}) {
    fs::create_directories(store.work() + "/staging/" + key);
    ASSERT_TRUE(store.PublishBuilt(store.work() + "/staging/" + key, key));
    ASSERT_TRUE(store.KeepLock(key, "six==1.17.0 --hash=sha256:00\n"));
    MakeOld(store.root() + "/requests/" + key + ".json");
    MakeOld(store.root() + "/built/" + key);
  }
  ASSERT_TRUE(store.SaveName({"mine", "", {"six"}, {}, "six==1.17.0 # built:named\n", "k1"}));
  ASSERT_TRUE(store.KeepLock("new", "six==1.17.0\n"));
  ASSERT_TRUE(store.FindBuilt("new"));
  ASSERT_TRUE(store.Lock("request-old"));
  auto held = store.Lock("request-held");
  ASSERT_TRUE(held);
  for (const char* name : {"request-old", "request-held"}) MakeOld(store.root() + "/locks/" + name + ".lock");
  ASSERT_TRUE(store.Collect(60));
  EXPECT_FALSE(store.FindLock("old", 1000));
  EXPECT_TRUE(store.FindLock("new", 1000));
  EXPECT_FALSE(fs::exists(store.root() + "/requests/old.json"));
  EXPECT_FALSE(store.FindBuilt("old"));
  EXPECT_TRUE(store.FindBuilt("new") && store.FindBuilt("named"));
  EXPECT_FALSE(fs::exists(store.root() + "/locks/request-old.lock"));
  EXPECT_TRUE(fs::exists(store.root() + "/locks/request-held.lock"));
}

TEST_F(StoreTest, CollectsOnlyWhatIsNeitherNamedNorUsed) {
  const Store store = Open();
  for (const char* key : {"named", "used", "free"}) Publish(store, key);
  ASSERT_TRUE(
      store.SaveName({.name = "a", .python = "", .packages = {"six"}, .preload = {}, .lock = "l", .key = "named"}));
  auto used = store.Find("used");
  ASSERT_TRUE(used);
  auto collected = store.Collect(0);
  ASSERT_TRUE(collected);
  EXPECT_EQ(collected->environments, 1u);
  EXPECT_FALSE(store.Find("free"));
  EXPECT_TRUE(store.Find("named"));
  EXPECT_TRUE(fs::exists(used->venv));
  used.reset();
  EXPECT_EQ(store.Collect(3600)->environments, 0u);
  EXPECT_EQ(store.Collect(0)->environments, 1u);
}

TEST_F(StoreTest, KeepsLocksForATime) {
  const Store store = Open();
  ASSERT_TRUE(store.KeepLock("r", "six==1\n"));
  EXPECT_EQ(store.FindLock("r", 3600), "six==1\n");
  EXPECT_FALSE(store.FindLock("other", 3600));
  std::ofstream(store.root() + "/requests/r.json") << "{\"resolved\": 1, \"lock\": \"\"}";
  EXPECT_FALSE(store.FindLock("r", 3600));
  std::ofstream(store.root() + "/requests/r.json") << "not JSON";
  EXPECT_FALSE(store.FindLock("r", 3600));
}

TEST_F(StoreTest, LayersCannotBeListedAndEndWithTheirSession) {
  const Store store = Open();
  struct stat info;
  ASSERT_EQ(::stat(store.layers().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0311u);
  std::string path;
  {
    auto layer = store.MakeLayer();
    auto staging = store.MakeStaging();
    ASSERT_TRUE(layer && staging);
    EXPECT_GE(layer->name.size(), 32u);
    fs::create_directories(staging->path + "/layer");
    std::ofstream(staging->path + "/layer/six.py") << "x";
    auto below = store.PublishLayer(*staging, *layer, 1);
    ASSERT_TRUE(below) << below.error().message;
    path = store.layers() + "/" + *below;
    store.Sweep();
    EXPECT_TRUE(fs::exists(path + "/six.py"));
  }
  store.Sweep();
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(StoreTest, NamesAreChecked) {
  const Store store = Open();
  for (const char* name : {"", ".", "../x", "a/b", ".hidden", "a b"}) {
    EXPECT_FALSE(store.FindName(name)) << name;
    EXPECT_FALSE(IsEnvironmentName(name)) << name;
  }
  auto missing = store.FindName("data");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

TEST_F(StoreTest, NamesBelongToTheirOwners) {
  const Store store = Open();
  ASSERT_TRUE(store.SaveName({"tools", "", {"six"}, {}, "lock", "key", "", false}));
  ASSERT_TRUE(store.SaveName({"tools", "", {"attrs"}, {}, "lock", "other", "ann", false}));
  ASSERT_TRUE(store.SaveName({"auto-1", "", {"attrs"}, {}, "lock", "other", "bob", true}));
  EXPECT_EQ(store.FindName("tools", "ann")->key, "other");
  EXPECT_EQ(store.FindName("tools", "bob")->key, "key") << "of the operator";
  EXPECT_FALSE(store.FindName("auto-1", "ann"));
  EXPECT_TRUE(store.FindName("auto-1", "bob")->automatic);
  EXPECT_EQ(store.Names().size(), 3u);
  EXPECT_EQ(store.FindName("nothing", "ann").error().message.find("auto-1"), std::string::npos);
  ASSERT_TRUE(store.RemoveName("tools", "ann"));
  EXPECT_EQ(store.FindName("tools", "ann")->key, "key");
  EXPECT_FALSE(store.RemoveName("auto-1", "ann"));
}

TEST_F(StoreTest, CacheIsEmptiedAboveItsBoundUnlessAnInstallerHoldsIt) {
  const Store store = Open();
  const std::string wheel = store.work() + "/cache/archive/six.py";
  fs::create_directories(fs::path(wheel).parent_path());
  std::ofstream(wheel) << std::string(5000, 'x');
  store.TrimCache(6000);
  EXPECT_TRUE(fs::exists(wheel));
  {
    auto held = store.LockShared("cache");
    ASSERT_TRUE(held);
    store.TrimCache(4000);
    EXPECT_TRUE(fs::exists(wheel)) << "an installer works with it";
  }
  store.TrimCache(4000);
  EXPECT_FALSE(fs::exists(wheel));
  EXPECT_TRUE(fs::is_directory(store.work() + "/cache"));
}

TEST_F(StoreTest, BuiltWheelsAreFoundByTheirKeyAlone) {
  const Store store = Open();
  auto staging = store.MakeStaging();
  ASSERT_TRUE(staging);
  fs::create_directories(staging->path + "/taken");
  std::ofstream(staging->path + "/taken/a-1.0-py3-none-any.whl") << "wheel";
  ASSERT_TRUE(store.PublishBuilt(staging->path + "/taken", "abc-123"));
  ASSERT_TRUE(store.FindBuilt("abc-123"));
  EXPECT_TRUE(fs::exists(*store.FindBuilt("abc-123") + "/a-1.0-py3-none-any.whl"));
  for (const char* key : {"", "other", "../names", "abc-123/..", "."}) EXPECT_FALSE(store.FindBuilt(key)) << key;
}

TEST_F(StoreTest, OneLockAtATime) {
  const Store store = Open();
  {
    auto first = store.Lock("build-k");
    ASSERT_TRUE(first);
    EXPECT_FALSE(store.Lock("build-k"));
  }
  EXPECT_TRUE(store.Lock("build-k"));
}

TEST(RequestKeyTest, DependsOnEverythingThatDecidesTheResult) {
  const BasePython python{"/usr/bin/python3.11", "3.11.2", "1:2:3"};
  const Request request{python, {*ParseRequirement("six")}, {}, {}, "index"};
  Request other = request;
  EXPECT_EQ(RequestKey(request), RequestKey(other));
  other.packages = {*ParseRequirement("six>1")};
  EXPECT_NE(RequestKey(request), RequestKey(other));
  other = request;
  other.index = "another";
  EXPECT_NE(RequestKey(request), RequestKey(other));
  other = request;
  other.packages.swap(other.constraints);
  EXPECT_NE(RequestKey(request), RequestKey(other));
  BasePython upgraded = python;
  upgraded.stamp = "4";
  EXPECT_NE(ContentKey(python, "l"), ContentKey(upgraded, "l"));
  EXPECT_NE(ContentKey(python, "l"), ContentKey(python, "m"));
}

}  // namespace
}  // namespace cella::environment
