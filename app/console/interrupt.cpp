// SPDX-License-Identifier: Apache-2.0
#include "app/console/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace tandem::app {

std::atomic<bool> interrupted{false};

namespace {

std::atomic<int> by_signal{0};

void on_signal(int signal) {
  if (interrupted) _exit(128 + signal);
  by_signal = signal;
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

int interrupt_code() { return interrupted ? 128 + by_signal : 0; }

}  // namespace tandem::app
