// SPDX-License-Identifier: Apache-2.0
#pragma once
// Output of link benchmarks: p2pBandwidthLatencyTest and bandwidthTest of the CUDA samples, nvbandwidth (text
// and JSON); and what it changes about a system's links.
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "topologies/system.h"

namespace tandem::calibration {

/// Figures between any two devices; [from][to], 0 on the diagonal and where none was measured.
using PairMatrix = std::vector<std::vector<double>>;

struct LinkTests {
  std::vector<std::string> devices;  ///< models, as far as the text names them
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
/// Both together, of one machine; figures of `more` fill what `tests` leaves open.
void merge(LinkTests& tests, const LinkTests& more);
/// {"schema": "tandem-links-1", ...}: bytes/s and seconds.
std::string link_tests_json(const LinkTests& tests);

/// What the measurements say about one class of a system's links.
struct LinkFit {
  std::string path;  ///< in the system file: "links.pcie.achieved", "peer_access.staged_cap"
  double before = 0, after = 0;
  std::size_t figures = 0;  ///< that it is the median of
};

/// Fractions of the nominal bandwidths and the rate of staged copies, each the median over the pairs (or host
/// copies, where no pair tells) whose narrowest link is of the class. Appends contradictions to `notes`: peer
/// access that the system does not expect, rates above the nominal one. Throws InputError when the system has
/// fewer accelerators than the tests speak of.
std::vector<LinkFit> fit_links(const LinkTests& tests, const System& system, std::vector<std::string>& notes);

}  // namespace tandem::calibration
