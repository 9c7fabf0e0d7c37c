// For tests: a server on its own loop and thread, and a blocking socket that says exactly what it is told. Every wait
// has a limit, so that a test fails instead of hanging.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "async/event.h"
#include "http/server.h"

namespace cella::http {

using namespace std::chrono_literals;

inline constexpr auto kPatience = 10s;

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cella-http-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

class FunctionHandler : public Handler {
 public:
  using Function = std::function<async::Task<void>(Exchange&)>;
  explicit FunctionHandler(Function function) : function_(std::move(function)) {}
  async::Task<void> Handle(Exchange& exchange) override { return function_(exchange); }
  bool AcceptsEscapedSlash(const Request& request) const override {
    return !request.segments().empty() && request.segments()[0] == "files";
  }

 private:
  Function function_;
};

// Runs until it is destroyed, then drains without grace.
class TestServer {
 public:
  explicit TestServer(FunctionHandler::Function function, const Limits& limits = {}, std::string_view address = "",
                      const ListenOptions& options = {})
      : handler_(std::move(function)) {
    std::string where = address.empty() ? "unix:" + (directory_ / "socket") : std::string(address);
    auto listener = Listener::Open(ParseAddress(where).value(), options);
    EXPECT_TRUE(listener) << (listener ? "" : listener.error().message);
    address_ = listener->address();
    std::promise<void> ready;
    thread_ = std::thread([this, limits, &ready, &listener] {
      auto main = [&]() -> async::Task<void> {
        Server server(loop_, handler_, limits);
        server.Start(std::move(*listener));
        async::Event stop(loop_);
        server_ = &server;
        stop_ = &stop;
        ready.set_value();
        (void)co_await stop.Wait();
        co_await server.Drain(async::Clock::now() + grace_);
        drained_ = true;
      };
      loop_.Run(main());
    });
    ready.get_future().wait();
  }
  ~TestServer() { Stop(0ms); }

  // Drains with that much grace, and waits for the end.
  void Stop(std::chrono::milliseconds grace) {
    if (!thread_.joinable()) return;
    BeginStop(grace);
    thread_.join();
  }
  void BeginStop(std::chrono::milliseconds grace) {
    if (std::exchange(stopping_, true)) return;  // the loop may have ended
    RunOnLoop([this, grace] {
      grace_ = grace;
      stop_->Set();
    });
  }
  bool is_drained() const { return drained_; }
  const Address& address() const { return address_; }
  size_t connections() {
    size_t count = 0;
    RunOnLoop([&] { count = server_->connections(); });
    return count;
  }
  void RunOnLoop(const std::function<void()>& work) {
    std::promise<void> done;
    boost::asio::post(loop_.context(), [&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  async::Loop& loop() { return loop_; }

 private:
  TemporaryDirectory directory_;
  async::Loop loop_;
  FunctionHandler handler_;
  Address address_;
  Server* server_ = nullptr;
  async::Event* stop_ = nullptr;
  std::chrono::milliseconds grace_ = 0ms;
  std::atomic<bool> drained_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

struct TestResponse {
  int status = 0;
  std::string head;
  std::string body;

  std::string header(std::string_view name) const {
    for (size_t at = head.find("\r\n"); at != head.npos && at + 2 < head.size(); at = head.find("\r\n", at + 2)) {
      std::string_view line = std::string_view(head).substr(at + 2, head.find("\r\n", at + 2) - at - 2);
      size_t colon = line.find(": ");
      if (colon != line.npos && EqualsIgnoringCase(line.substr(0, colon), name)) {
        return std::string(line.substr(colon + 2));
      }
    }
    return "";
  }
};

class TestClient {
 public:
  explicit TestClient(const Address& address) {
    if (address.is_unix()) {
      fd_ = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_un to = {};
      to.sun_family = AF_UNIX;
      address.path.copy(to.sun_path, sizeof to.sun_path - 1);
      EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0) << strerror(errno);
    } else {
      fd_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in to = {};
      to.sin_family = AF_INET;
      to.sin_port = htons(address.port);
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0) << strerror(errno);
    }
  }
  explicit TestClient(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  void Close() { fd_.Reset(); }
  void EndWriting() { (void)shutdown(fd_.get(), SHUT_WR); }

  // Stops early when the server no longer takes it.
  TestClient& Say(std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t n = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) break;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return *this;
  }

  // Reads once; false at the end, when reset, or after too long.
  bool ReadMore() {
    pollfd one = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
    if (poll(&one, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) <= 0) {
      ADD_FAILURE() << "nothing came; so far: " << pending_;
      return false;
    }
    char buffer[16384];
    ssize_t n = recv(fd_.get(), buffer, sizeof buffer, 0);
    was_reset_ = n < 0;
    if (n <= 0) return false;
    pending_.append(buffer, static_cast<size_t>(n));
    return true;
  }
  std::string ReadUntil(std::string_view end) {
    size_t at;
    while ((at = pending_.find(end)) == pending_.npos) {
      if (!ReadMore()) return std::exchange(pending_, "");
    }
    std::string got = pending_.substr(0, at + end.size());
    pending_.erase(0, got.size());
    return got;
  }
  std::string ReadToEnd() {
    while (ReadMore()) {
    }
    return std::exchange(pending_, "");
  }
  std::string ReadBytes(size_t count) {
    while (pending_.size() < count && ReadMore()) {
    }
    std::string got = pending_.substr(0, count);
    pending_.erase(0, got.size());
    return got;
  }
  bool is_at_end() { return pending_.empty() && !ReadMore(); }
  bool was_reset() const { return was_reset_; }

  // A whole response; chunks are put together. Status 0: there was none.
  TestResponse ReadResponse(std::string_view method = "GET") {
    TestResponse response;
    response.head = ReadUntil("\r\n\r\n");
    if (response.head.size() < 12 || !response.head.starts_with("HTTP/1.1 ")) return response;
    response.status = atoi(response.head.c_str() + 9);
    if (method == "HEAD" || response.status < 200 || response.status == 204) return response;
    if (response.header("transfer-encoding") == "chunked") {
      for (;;) {
        size_t size = strtoul(ReadUntil("\r\n").c_str(), nullptr, 16);
        response.body += ReadBytes(size);
        EXPECT_EQ(ReadBytes(2), "\r\n");
        if (size == 0) return response;
      }
    }
    std::string length = response.header("content-length");
    response.body = length.empty() ? ReadToEnd() : ReadBytes(strtoul(length.c_str(), nullptr, 10));
    return response;
  }

  TestResponse Get(std::string_view target) {
    Say(fmt::format("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", target));
    return ReadResponse();
  }

 private:
  UniqueFd fd_;
  std::string pending_;
  bool was_reset_ = false;
};

}  // namespace cella::http
