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

}  // namespace

void catch_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

int interrupt_code() { return interrupted ? 128 + by_signal : 0; }

}  // namespace tandem::app
