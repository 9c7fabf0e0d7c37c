#include "cli/repl/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>

namespace cella::cli {
namespace {

constexpr std::string_view kBracketPastes = "\x1B[?2004h";
constexpr std::string_view kBracketNoPastes = "\x1B[?2004l";

// A few bytes, right now: they accompany a change of modes.
void WriteNow(int fd, std::string_view bytes) { (void)!write(fd, bytes.data(), bytes.size()); }

}  // namespace

Result<std::unique_ptr<Terminal>> Terminal::Open(async::Loop& loop) {
  async::Opened in = async::OpenPrivately(STDIN_FILENO, O_RDWR);
  termios modes;
  if (!in.fd || tcgetattr(in.fd.get(), &modes) < 0) return SysErr(errno, "open the terminal");
  std::unique_ptr<Terminal> terminal(new Terminal(loop, std::move(in)));
  terminal->EnterRawMode();
  return terminal;
}

Terminal::Terminal(async::Loop& loop, async::Opened in)
    : in_(loop, std::move(in.fd), in.sharing), out_(loop, STDIN_FILENO) {}

ScreenSize Terminal::size() const {
  winsize window = {};
  ScreenSize size;
  if (ioctl(STDIN_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row > 0 && window.ws_col > 0) {
    size = {window.ws_row, window.ws_col};
  }
  return size;
}

bool Terminal::WasChanged() const {
  termios modes;
  return raw_ && tcgetpgrp(STDIN_FILENO) == getpgrp() && tcgetattr(STDIN_FILENO, &modes) == 0 &&
         (modes.c_lflag & (ICANON | ECHO)) != 0;
}

void Terminal::EnterRawMode() {
  if (tcgetattr(STDIN_FILENO, &saved_) < 0) return;
  termios raw = saved_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
  raw.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IGNCR);
  raw.c_oflag |= OPOST | ONLCR;
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  raw_ = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
  WriteNow(STDIN_FILENO, kBracketPastes);
}

void Terminal::Restore() {
  if (!raw_) return;
  WriteNow(STDIN_FILENO, kBracketNoPastes);
  (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &saved_);
  raw_ = false;
}

void Terminal::Suspend() {
  Restore();
  (void)raise(SIGTSTP);
  EnterRawMode();
}

async::Task<void> Terminal::ReadKeys(Mailbox& mailbox) {
  std::array<char, 4096> buffer;
  for (;;) {
    auto n = co_await in_.ReadSome(buffer);
    if (!n || *n == 0) break;
    for (Key& key : decoder_.Feed(std::string_view(buffer.data(), *n))) mailbox.Post(std::move(key));
  }
  mailbox.Post(Hangup{});
}

}  // namespace cella::cli
