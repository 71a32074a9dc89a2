// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ctrl-C during work whose first part is worth keeping.
#include <atomic>

namespace tandem::app {

/// From now on SIGINT and SIGTERM end the program at once, with a message on stderr. Call once, first.
void say_interrupts();

/// From now on the first SIGINT or SIGTERM sets `interrupted`; the second ends the program at once. Call
/// once, from the main thread.
void catch_interrupts();

/// Open MPI's mpirun says that it ends its processes by SIGCONT; SIGTERM comes a second later, and SIGKILL at
/// once after it. From now on SIGCONT counts as SIGTERM, if still_alive() was called within the last half
/// second: otherwise the process had been stopped, as by `scontrol suspend`, and goes on. Call once, after
/// catch_interrupts().
void catch_mpirun_end();
/// Any thread.
void still_alive();

/// Set once a signal came. Any thread may read it.
extern std::atomic<bool> interrupted;

/// 130 after SIGINT, 143 after SIGTERM, 0 without a signal. Any thread.
int interrupt_code();

}  // namespace tandem::app
