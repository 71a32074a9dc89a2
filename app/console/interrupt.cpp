// SPDX-License-Identifier: Apache-2.0
#include "app/console/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <ctime>

namespace tandem::app {

std::atomic<bool> interrupted{false};

namespace {

std::atomic<int> by_signal{0};

void on_signal(int signal) {
  if (interrupted) _exit(128 + signal);
  by_signal = signal;
  interrupted = true;
}

std::atomic<int64_t> alive_at{0};  ///< nanoseconds of the monotonic clock

int64_t monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void on_continue(int /*signal*/) {
  constexpr int64_t kHalfASecond = 500'000'000;
  if (interrupted || monotonic_now() - alive_at > kHalfASecond) return;
  by_signal = SIGTERM;
  interrupted = true;
}

void end_on_signal(int signal) {
  constexpr char kWords[] = "\ntandem: interrupted, nothing was kept\n";
  [[maybe_unused]] const auto wrote = write(STDERR_FILENO, kWords, sizeof kWords - 1);
  _exit(128 + signal);
}

}  // namespace

void say_interrupts() {
  std::signal(SIGINT, end_on_signal);
  std::signal(SIGTERM, end_on_signal);
}

void catch_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

void catch_mpirun_end() { std::signal(SIGCONT, on_continue); }

void still_alive() { alive_at = monotonic_now(); }

int interrupt_code() { return interrupted ? 128 + by_signal : 0; }

}  // namespace tandem::app
