// SPDX-License-Identifier: Apache-2.0
#pragma once
// A board that is changed without a file: what the options ask for, up to which batch the change is worth it,
// and what the choice of devices does.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "answers/pair.h"
#include "answers/question.h"

namespace tandem::answers {

/// A change of the rate that is smaller is not worth it.
inline constexpr double kWorth = 0.03;

/// What B gains over A by batch per device: powers of two from 1 on, as far as both hold them.
struct Worth {
  struct At {
    int64_t batch = 0;
    double gain = 0;  ///< 0.1: B is 10 % faster
  };
  std::vector<At> at;
  /// The largest batch at which B gains or loses kWorth and more.
  std::optional<At> largest() const;
};
/// Two predictions of a rate per batch; nothing where either would not come at once. Both questions must be
/// at hand.
Worth worth_of(const ReportPair& pair);
/// "vgg16 on 4 devices: B gains 3 % and more up to 64 images per device (+3.4 %), less from 128 on (+1.8 %)".
std::string worth_text(const ReportPair& pair, const Worth& worth);

/// Which models gain or lose kWorth and more at the batch that was asked about, and which less, the largest
/// first; "" for one model.
std::string worth_by_model(const std::vector<ReportPair>& pairs);

/// Choices of so many of a node's devices, by rate.
struct Placements {
  struct Choice {
    std::string devices;  ///< "0,1"
    double rate = 0;      ///< samples/s
  };
  Choice used, best, worst;
};
/// Absent for all of a node's devices or one of them, for several nodes, where there are more than 70
/// choices, or where they would not come at once. One prediction of a rate per choice that differs in what
/// its devices cross to each other.
std::optional<Placements> placements(const Question& question, const Report& report);
/// "Placement of 2 devices on B: 0,1 as used, 412 samples/s; 2,3 would give +21 %"; "" where it changes
/// nothing.
std::string placement_text(const Placements& placements, const std::string& side, int64_t devices);

}  // namespace tandem::answers
