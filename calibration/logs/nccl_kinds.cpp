// SPDX-License-Identifier: Apache-2.0
#include "calibration/logs/nccl_kinds.h"

#include <array>

namespace tandem::calibration {
namespace {

struct Kind {
  std::string_view program, name;
};
constexpr std::array kKinds = {Kind{"all_reduce", "all-reduce"},
                               Kind{"all_gather", "all-gather"},
                               Kind{"reduce_scatter", "reduce-scatter"},
                               Kind{"broadcast", "broadcast"},
                               Kind{"reduce", "reduce"},
                               Kind{"alltoall", "all-to-all"},
                               Kind{"sendrecv", "sendrecv"},
                               Kind{"gather", "gather"},
                               Kind{"scatter", "scatter"}};

/// Only an all-reduce of more than two ranks has more bus bandwidth than algorithm bandwidth.
constexpr double kReduces = 1.02;
/// Before 2020 gathers left a rank's own part out of both bandwidths, which are then equal.
constexpr double kEqual = 0.98;

}  // namespace

std::string kind_by_program(std::string_view text) {
  const std::size_t at = text.find("_perf");
  if (at == std::string_view::npos) return "";
  for (const Kind& kind : kKinds) {
    if (text.substr(0, at).ends_with(kind.program)) return std::string(kind.name);
  }
  return "";
}

std::string kind_by_operation(std::string_view name) {
  for (const Kind& kind : kKinds) {
    if (name == kind.program) return std::string(kind.name);
  }
  return "";
}

std::vector<std::string_view> kinds_by_columns(const NcclColumns& c, int64_t ranks, double ratio) {
  if (c.parts == 0) return {};
  const bool whole = c.parts == 1;
  if (!whole && ranks > 0 && c.parts != ranks) return {};
  // These programs do not check what they did in place.
  const bool unchecked = c.checked && c.in_place && !c.in_place_checked;
  const bool checked = c.checked && c.in_place && c.in_place_checked;
  if (c.operation) {
    if (c.rooted) return {"reduce"};
    if (!whole) return {"reduce-scatter"};
    if (ratio > kReduces || !c.root_column || checked) return {"all-reduce"};
    if (ranks > 2 || unchecked) return {"sendrecv"};
    return {"all-reduce", "sendrecv"};
  }
  if (c.rooted) {
    if (whole) return {"broadcast"};
    return {"gather", "scatter"};
  }
  if (whole) return {"sendrecv"};
  // Before the columns were the same for all, only an all-to-all named an operation and printed none.
  if (unchecked || (c.headed && c.redop_named && !c.root_column)) return {"all-to-all"};
  if (checked || (!c.root_column && (c.headed || ratio > kEqual))) return {"all-gather"};
  return {"all-gather", "all-to-all"};
}

}  // namespace tandem::calibration
