// Replays what the fuzzer found interesting.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "http_request.h"

namespace cella::http {
namespace {

TEST(HttpRequestCorpus, ParsesOrRejectsEveryInput) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CELLA_CORPUS "/http_request")) {
    SCOPED_TRACE(entry.path().string());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    FeedConnection(bytes);
    // Cut anywhere, it is just as harmless.
    const size_t step = bytes.size() / 64 + 1;
    for (size_t i = 0; i < bytes.size(); i += step) FeedConnection(std::string_view(bytes).substr(0, i));
    ++count;
  }
  EXPECT_GT(count, 10);
}

}  // namespace
}  // namespace cella::http
