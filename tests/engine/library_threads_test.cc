// cella.h from many threads at once, linked as a module: the form in which a sanitizer sees all of it.
#include <cella.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 8;
constexpr int kRounds = 3;

std::string RunToValue(cella_session* session, const std::string& code) {
  cella_error* error = nullptr;
  cella_result* result = cella_session_run(session, code.data(), code.size(), &error);
  if (result == nullptr) {
    std::string words = cella_error_message(error);
    cella_error_free(error);
    return "failed: " + words;
  }
  const char* value = cella_result_value(result, nullptr);
  std::string text = value == nullptr ? "none" : value;
  cella_result_free(result);
  return text;
}

// Events are taken by one thread while another one interrupts.
void Interrupt(cella_session* session) {
  cella_run_spec* spec = cella_run_spec_new();
  const std::string code = "print('on', flush=True)\nwhile True: pass";
  cella_run_spec_add_block(spec, "python", code.data(), code.size());
  cella_run* run = cella_session_start(session, spec, nullptr);
  cella_run_spec_free(spec);
  ASSERT_NE(run, nullptr);
  std::atomic<bool> on = false;
  std::thread other([&] {
    while (!on) std::this_thread::yield();
    cella_run_interrupt(run);
  });
  for (;;) {
    cella_event* event = nullptr;
    if (cella_run_next(run, -1, &event, nullptr) != CELLA_NEXT_EVENT) break;
    if (cella_event_get_kind(event) == CELLA_EVENT_OUTPUT) on = true;
    cella_event_free(event);
  }
  on = true;
  other.join();
  cella_run_free(run);
}

TEST(LibraryThreadsTest, EightThreadsShareOneEngine) {
  cella_engine* engine = cella_engine_new(nullptr);
  ASSERT_NE(engine, nullptr);
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([engine, number] {
      for (int round = 0; round < kRounds; ++round) {
        cella_error* error = nullptr;
        cella_session* session = cella_session_open(engine, R"({"python": "/usr/bin/python3"})", &error);
        ASSERT_NE(session, nullptr) << cella_error_message(error);
        EXPECT_EQ(RunToValue(session, "x = " + std::to_string(number)), "none");
        EXPECT_EQ(RunToValue(session, "x * 10"), std::to_string(number * 10));
        Interrupt(session);
        EXPECT_EQ(RunToValue(session, "x"), std::to_string(number));
        cella_session_free(session);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  cella_engine_free(engine);
}

TEST(LibraryThreadsTest, EightThreadsShareOneSession) {
  cella_engine* engine = cella_engine_new(nullptr);
  cella_session* session = cella_session_open(engine, R"({"python": "/usr/bin/python3"})", nullptr);
  ASSERT_NE(session, nullptr);
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([session, number] {
      for (int round = 0; round < kRounds; ++round) {
        EXPECT_EQ(RunToValue(session, std::to_string(number) + " + 1"), std::to_string(number + 1));
      }
    });
  }
  for (std::thread& each : threads) each.join();
  cella_session_free(session);
  cella_engine_free(engine);
}

}  // namespace
