/* The two services that a Python runner asks of the library beside it, without any jail: enough to drive the runner's
 * own part of them. A zygote's control message is one byte with five descriptors: session socket, stdin, stdout,
 * stderr, and a pipe that gets the child's pid; for the byte 'p' then also its wait status, once it has ended. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int cella_checkpoint_fork(int* pidfd, int session, int ours, int theirs) {
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  long pid = syscall(SYS_clone, CLONE_PARENT | CLONE_PIDFD | SIGCHLD, 0, pidfd, 0, 0);
  int error = errno;
  if (pid == 0) {
    char byte;
    setpgid(0, 0);
    close(theirs);
    dup3(ours, session, O_CLOEXEC);
    close(ours);
    if (recv(session, &byte, 1, MSG_PEEK) <= 0) _exit(0);
    struct timespec now = {0, 0};
    while (sigtimedwait(&all, 0, &now) > 0) continue;
  }
  sigprocmask(SIG_SETMASK, &before, 0);
  return pid < 0 ? -error : (int)pid;
}

int cella_zygote_serve(int control, int idle_ms) {
  static int greeted;
  if (!greeted++) send(control, "ready", 5, 0);
  if (idle_ms < 0) send(control, "warm", 4, 0);
  for (;;) {
    struct pollfd ready = {control, POLLIN, 0};
    if (poll(&ready, 1, idle_ms) == 0) return -2;
    char byte, space[CMSG_SPACE(5 * sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    if (recvmsg(control, &message, MSG_CMSG_CLOEXEC) <= 0) return -1;
    int fds[5];
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fds);
    if (byte == 'p' && fork() == 0) {
      /* A process must wait for the program: its parent, which is no zygote. */
      pid_t program = fork();
      if (program > 0) {
        int status = 0;
        for (int fd = 0; fd < 4; ++fd) close(fds[fd]);
        close(control);
        waitpid(program, &status, 0);
        if (write(fds[4], &status, sizeof status) < 0) _exit(1);
        _exit(0);
      }
      byte = 'c';
    }
    pid_t pid = byte == 'f' ? fork() : byte == 'c' ? 0 : 1;
    if (pid == 0) {
      for (int fd = 0; fd < 3; ++fd) dup2(fds[1 + fd], fd), close(fds[1 + fd]);
      pid = getpid();
      if (write(fds[4], &pid, sizeof pid) < 0) _exit(1);
      close(fds[4]);
      close(control);
      int session = fcntl(fds[0], F_DUPFD_CLOEXEC, 500);
      for (int fd = 0; fd < 3; ++fd) dup3(fd, session + 1 + fd, O_CLOEXEC);
      close(fds[0]);
      return session;
    }
    for (int index = 0; index < 5; ++index) close(fds[index]);
    while (waitpid(-1, 0, WNOHANG) > 0) continue;
  }
}
