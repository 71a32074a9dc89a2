// SPDX-License-Identifier: Apache-2.0
#include "base/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace tandem::base {

namespace {

constexpr std::size_t kMostOutput = 64 << 20;

/// Both ends of a pipe (read, write), closed when it dies and never inherited by accident. The child's stdin
/// is a socket instead, because writing to a socket can be told not to raise SIGPIPE.
struct Pipe {
  int ends[2] = {-1, -1};
  explicit Pipe(bool socket = false) {
    if ((socket ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) : pipe2(ends, O_CLOEXEC)) != 0)
      throw DeviceError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  ~Pipe() { close_end(0), close_end(1); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_end(int i) {
    if (ends[i] >= 0) close(ends[i]);
    ends[i] = -1;
  }
};

pid_t spawn(const std::vector<std::string>& argv, Pipe& in, Pipe& out, Pipe& err, std::string_view package) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.ends[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, err.ends[1], 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, words[0], &actions, &attributes, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error == ENOENT) {
    throw DeviceError(fmt::format("{} is not installed: apt-get install {}", argv[0], package));
  }
  if (error != 0) throw DeviceError(fmt::format("cannot start {}: {}", argv[0], std::strerror(error)));
  return pid;
}

/// Reads what is available into `text`; closes the pipe at its end.
void drain(Pipe& pipe, std::string& text) {
  char buffer[16384];
  const ssize_t got = read(pipe.ends[0], buffer, sizeof buffer);
  if (got > 0) {
    text.append(buffer,
                std::min(static_cast<std::size_t>(got), kMostOutput - std::min(kMostOutput, text.size())));
  } else if (got == 0 || errno != EINTR) {
    pipe.close_end(0);
  }
}

void feed(Pipe& pipe, std::string_view& input) {
  const ssize_t wrote = send(pipe.ends[1], input.data(), input.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (wrote > 0) input.remove_prefix(static_cast<std::size_t>(wrote));
  if (input.empty() || (wrote < 0 && errno != EINTR && errno != EAGAIN)) pipe.close_end(1);
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& argv, std::string_view input, std::string_view package,
                      std::chrono::seconds limit) {
  Pipe in(true), out, err;
  const pid_t pid = spawn(argv, in, out, err, package);
  in.close_end(0), out.close_end(1), err.close_end(1);
  if (input.empty()) in.close_end(1);
  ChildResult result;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (in.ends[1] >= 0 || out.ends[0] >= 0 || err.ends[0] >= 0) {
    pollfd polled[3] = {{in.ends[1], POLLOUT, 0}, {out.ends[0], POLLIN, 0}, {err.ends[0], POLLIN, 0}};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now())
            .count();
    if (left <= 0) {
      kill(pid, SIGKILL);
      result.timed_out = true;
      break;
    }
    if (poll(polled, 3, static_cast<int>(left)) < 0 && errno != EINTR) break;
    if (polled[0].revents != 0) feed(in, input);
    if (polled[1].revents != 0) drain(out, result.out);
    if (polled[2].revents != 0) drain(err, result.err);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace tandem::base
