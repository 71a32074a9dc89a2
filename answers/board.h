// SPDX-License-Identifier: Apache-2.0
#pragma once
// Changes of a board without a new file: the batch up to which a change is worth it, and how the choice of
// devices matters.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "answers/pair.h"
#include "answers/question.h"

namespace tandem::answers {

/// Smaller changes of the rate are not worth it.
inline constexpr double kWorth = 0.03;

/// Gain of B over A by batch per device: powers of two from 1 up to what both hold.
struct Worth {
  struct At {
    int64_t batch = 0;
    double gain = 0;  ///< 0.1: B is 10 % faster
  };
  std::vector<At> at;
  /// The largest batch at which B gains or loses kWorth and more.
  std::optional<At> largest() const;
};
/// Two predictions of a rate per batch; empty if they would take long. Both questions must be present.
Worth worth_of(const ReportPair& pair);
/// "vgg16 on 4 devices: B gains 3 % and more up to 64 images per device (+3.4 %), less from 128 on (+1.8 %)".
std::string worth_text(const ReportPair& pair, const Worth& worth);

/// The models that gain or lose at least kWorth at the batch asked about, largest first, and those that
/// change less; "" for one model.
std::string worth_by_model(const std::vector<ReportPair>& pairs);

/// Choices of that many devices of a node, by rate.
struct Placements {
  struct Choice {
    std::string devices;  ///< "0,1"
    double rate = 0;      ///< samples/s
  };
  Choice used, best, worst;
};
/// Absent for one or all devices of a node, for several nodes, for more than 70 choices, or if it would take
/// long. One prediction of a rate per choice that differs in the links between its devices.
std::optional<Placements> placements(const Question& question, const Report& report);
/// "Placement of 2 devices on B: 0,1 as used, 412 samples/s; 2,3 would give +21 %"; "" where it changes
/// nothing.
std::string placement_text(const Placements& placements, const std::string& side, int64_t devices);

}  // namespace tandem::answers
