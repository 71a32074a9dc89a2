// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chakra execution traces (MLCommons, schema 1.0.0): a file a rank, a sequence of protobuf messages with
// their lengths before them, first the metadata, then nodes that wait for others. What PyTorch's converter
// writes of a real step is read; what is written runs in ASTRA-sim. Both need protobuf when Tandem is built,
// and throw DeviceError without it.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibration/traces/kineto.h"
#include "sim/bound/bound_program.h"

namespace tandem::calibration {

/// Whether a text begins as such a file does; reads only a prefix. Never throws.
bool looks_like_chakra(std::string_view prefix);

/// Reads a trace of any size, plain or unpacked, and schedules it where nodes have no start: each begins when
/// all it waits for has ended and its stream, or its thread of the host, is free, the smallest number first,
/// and takes what the file says. Steps are not marked. The rank is the number before ".et" in `file`, the
/// world is that of the largest process group; 0 of 1 where nothing tells. Some 200 bytes a node. Throws
/// InputError with the node: a damaged file, two nodes of one number, a node that waits for itself, or
/// nothing that runs on a device. A dependency on a node that is not there counts for nothing, and a note
/// says so.
Trace read_chakra(const ByteSource& source, const std::string& file);

/// What each device does in a steady period of a bound Program (until what happens every few iterations has
/// happened), as the ASTRA-sim of 2026-03 runs it: compute takes what is priced, in whole microseconds whose
/// sum is right; collectives, and messages between the stages of a pipeline, have their bytes, and what they
/// take is the reader's to find. Input is left out: it comes while others compute. Sizes are a rank's input,
/// as PyTorch counts: an all-gather's is a shard.
class ChakraWriter {
 public:
  /// Keeps a reference. Throws InputError where no such trace can say what happens: servers, or an order of
  /// messages that decides. O(devices x kinds of groups).
  explicit ChakraWriter(const sim::BoundProgram& plan);
  /// The groups of collectives that not all devices take part in, by the numbers that the files call them:
  /// {"1": [0, 1], ...}, as ASTRA-sim's --comm-group-configuration takes them. "" where there are none.
  std::string groups() const;
  /// The file of a device. O(ops). Any thread.
  std::string rank(int64_t device) const;
  int64_t devices() const { return static_cast<int64_t>(places_.size()); }
  int64_t nodes() const;                          ///< in all files, about
  uint32_t first() const { return first_; }       ///< iteration that is written ...
  uint32_t iterations() const { return count_; }  ///< ... and that many
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Place {
    uint32_t role = 0, instance = 0;
  };
  struct Group {
    int32_t number = 0;  ///< 0: all devices
    std::vector<int64_t> devices;
  };
  class Rank;
  const Group& group_of(uint32_t role, uint32_t instance, uint32_t axes) const;

  const sim::BoundProgram& plan_;
  std::vector<Place> places_;  ///< [device]
  std::vector<Group> groups_;
  /// [role][axes that occur, in order]: and of each instance the index into groups_.
  std::vector<std::vector<std::pair<uint32_t, std::vector<uint32_t>>>> member_;
  std::vector<std::vector<int64_t>> message_bytes_;  ///< [channel][key]
  uint32_t first_ = 0, count_ = 1;
  std::vector<std::string> notes_;
};

}  // namespace tandem::calibration
