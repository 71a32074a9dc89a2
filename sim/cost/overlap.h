// SPDX-License-Identifier: Apache-2.0
#pragma once
// What collectives and simultaneous kernels cost each other. Data: calibration/profiles/overlap.json.
//
// A collective that runs in a kernel holds multiprocessors, which simultaneous products then lack, and moves
// bytes through the memory of its members, which all kernels share:
//
//   units   = each * max(1, bus rate / rate of a channel), at most `most`; in an NVLink switch its channels
//   traffic = bytes on the bus * those of device memory per byte of them, by protocol
//
// Who waits for memory waits longer where both together ask for more than there is: both in proportion.
// On processors a collective takes cores instead: beside_on_processor().
#include "schemes/program/program.h"
#include "sim/bound/bound_program.h"
#include "sim/cost/link_profile.h"
#include "topologies/devices/device.h"

namespace tandem::sim {

/// A collective as its library runs it.
struct Running {
  CollKind kind = CollKind::all_reduce;
  double ranks = 2;
  bool in_switch = false;  ///< NVLS
  std::string_view protocol;
  double seconds_per_byte = 0;  ///< of the buffer; 0: not known
};
/// Sets what `t` takes of each member's device (Transfer::units, Transfer::traffic). Nothing where the
/// library copies through the host, or the device is no GPU.
void occupy(Transfer& t, const Running& collective, const Library& library, const Device& device);

/// Thread blocks that NCCL gives a buffer of `bytes`, of `most` (Transfer::units): fewer where each would get
/// less than its threads are worth. LL: 512 threads of 8 bytes per rank; LL128: 640 of 8; else 512 of 64
/// (NVIDIA/nccl 2.5 to 2.12, src/enqueue.cc getLoopInfo, and thresholds of src/graph/tuning.cc).
double blocks_of(double bytes, std::string_view protocol, double ranks, double most);

/// Shares of a device that a collective takes while it runs.
struct Taken {
  double units = 0, memory = 0;  ///< of the multiprocessors; of the bandwidth that streaming kernels reach
};
Taken taken(const Transfer& collective, double seconds, const Device& device);

/// How many times as long as alone a kernel and a collective take at the same time, both at least 1.
struct Beside {
  double kernel = 1, collective = 1;
  double lost = 0;  ///< seconds that kernels lose besides, per second that the collective takes alone
};
/// `product`: the kernel's arithmetic needs multiprocessors, and memory for the share `memory` of its time.
/// Any other kernel streams: it has enough with the multiprocessors that are left, and needs memory always.
Beside beside(const Taken& taken, bool product, double memory);
/// Of a collective that a thread of the processor itself carries out, and kernels on its cores. With cores of
/// its own nobody waits for another. Else that thread, which polls until all has come, shares a core with one
/// of the threads that compute, half the time each. One that sleeps while it waits, and works for the share
/// `busy` of the collective's time alone, has its core when it wants it up to half the time. Kernels are cut
/// evenly over the cores (oneDNN, balance211), so that all wait for that one. On 24 cores whose threads are
/// bound, Horovod's thread costs a step a factor of 1.2 while it only looks every few milliseconds whether
/// there is work (horovod/horovod#2804: 27.8 images/s, 23.2 during it; 9.2 where nothing is bound).
Beside beside_on_processor(bool own_cores, bool polls = true, double busy = 1);

}  // namespace tandem::sim
