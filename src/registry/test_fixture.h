// For tests of the registry: one in a directory of its own, driven from outside the loop.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "async/task.h"
#include "registry/registry.h"
#include "store/test_directory.h"

namespace cella::registry {

inline NewSession SomeSession(const std::string& id, const std::string& owner = "alice") {
  return {.id = id, .owner = owner, .name = "n", .executor = "sandbox", .resources = R"({"cgroup":"cella-1"})"};
}

inline NewRun SomeRun(const std::string& id, const std::string& session) {
  NewRun run;
  run.id = id;
  run.session = session;
  run.owner = "alice";
  run.language = "python";
  run.code_sha256 = std::string(64, 'a');
  run.code_bytes = 5;
  return run;
}

inline RunResult SomeResult(const std::string& id) {
  RunResult result;
  result.id = id;
  result.stdout_text = "hello\n";
  result.outcome.usage = {1.5, 1.25, 4096};
  result.state = StateAfter::kKept;
  return result;
}

class RegistryFixture : public ::testing::Test {
 protected:
  // Everything happens in `body`, between opening and closing.
  template <typename Body>
  void WithRegistry(RegistryOptions options, Body body) {
    if (options.instance.empty()) options.instance = "one";
    // The background must not interfere with what is tested.
    options.retention.interval = std::chrono::seconds(0);
    auto main = [&]() -> async::Task<void> {
      auto registry = co_await Registry::Open(loop_, path_, options);
      EXPECT_TRUE(registry.has_value()) << registry.error().message;
      if (!registry) co_return;
      co_await body(**registry);
      co_await (*registry)->Close();
    };
    loop_.Run(main());
  }

  Result<std::string> OpenFails() {
    auto main = [&]() -> async::Task<Result<std::string>> {
      RegistryOptions options;
      options.instance = "one";
      auto registry = co_await Registry::Open(loop_, path_, options);
      if (!registry) co_return registry.error().message;
      co_await (*registry)->Close();
      co_return Err(ErrorCode::kInternal, "it was opened");
    };
    return loop_.Run(main());
  }

  async::Loop loop_;
  store::TestDirectory directory_;
  const std::string path_ = directory_.File("registry.db");
};

}  // namespace cella::registry
