// SPDX-License-Identifier: Apache-2.0
#pragma once
// Output of link benchmarks: p2pBandwidthLatencyTest and bandwidthTest of the CUDA samples, nvbandwidth (text
// and JSON).
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/rooms.h"

namespace tandem::calibration {

/// Figures between any two devices; [from][to], 0 on the diagonal and where none was measured.
using PairMatrix = std::vector<std::vector<double>>;

struct LinkTests {
  std::vector<std::string> devices;  ///< models, as far as the text names them
  std::vector<int64_t> buses;        ///< where they sit on PCI, ascending as nvidia-smi counts; -1: not told
  PairMatrix access;                 ///< 1: peer access, -1: none, 0: not told
  PairMatrix peer;    ///< bytes/s one way, peer access on (where the pair has none: staged all the same)
  PairMatrix staged;  ///< bytes/s one way, peer access off
  PairMatrix peer_latency, staged_latency;     ///< seconds, as the device's clock tells
  std::vector<double> to_device, from_device;  ///< bytes/s from and to pinned host memory; 0 = not measured
  std::size_t count() const;                   ///< devices that figures speak of
};

/// Throws InputError with the line where a matrix is cut short or a figure is none, where one direction is
/// measured twice (two machines in one text), or nothing of these programs is found. O(size of the text).
LinkTests read_link_tests(std::string_view text, const std::string& file);
/// Whether a text looks like one of them; reads a prefix only.
bool looks_like_link_tests(std::string_view text);
/// Both together, of one machine; figures of `more` fill what `tests` leaves open. True where `more` measured
/// again what `tests` has, with another result, which is left out.
bool merge(LinkTests& tests, const LinkTests& more);
/// {"schema": "tandem-links-1", ...}: bytes/s and seconds.
std::string link_tests_json(const LinkTests& tests);

}  // namespace tandem::calibration
