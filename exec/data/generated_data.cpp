// SPDX-License-Identifier: Apache-2.0
#include "exec/data/generated_data.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace tandem::exec {

const std::vector<OptionSpec>& teacher_options() {
  using Type = OptionSpec::Type;
  static const std::vector<OptionSpec> options = {
      {"samples", Type::count, "16384", "samples to train on; a fourth as many are held out", "", 5, 4194304},
      {"inputs", Type::count, "64", "values per sample", "", 1, 4096},
      {"classes", Type::count, "10", "number of classes", "", 2, 1000},
      {"decay", Type::real, "0.5", "decay of the inputs' deviations: input i has (i + 1)^-decay", "", 0, 4},
      {"noise", Type::real, "0.2", "share of samples with a random label", "", 0, 1},
      {"draw", Type::count, "1", "number of the teacher and its samples", "", 0, 1000000}};
  return options;
}

Dataset teacher_data(const Options& o, bool test) {
  const int64_t all = o.count("samples"), n = test ? std::max<int64_t>(1, all / 4) : all,
                inputs = o.count("inputs"), classes = o.count("classes");
  const auto seed = static_cast<uint64_t>(o.count("draw"));
  const double noise = o.real("noise"), decay = o.real("decay");
  std::vector<double> deviation, teacher;
  for (int64_t i = 0; i < inputs; ++i) deviation.push_back(std::pow(static_cast<double>(i + 1), -decay));
  for (int64_t i = 0; i < inputs * classes; ++i)
    teacher.push_back(to_normal(draw_bits(seed, 0x7ea, static_cast<uint64_t>(i))));
  Dataset out;
  out.name = "teacher";
  out.shape = {inputs};
  out.classes = classes;
  out.values.reserve(static_cast<std::size_t>(n * inputs));
  std::vector<double> z(static_cast<std::size_t>(inputs));
  for (int64_t s = 0; s < n; ++s) {
    const auto sample = static_cast<uint64_t>(s), part = static_cast<uint64_t>(test ? 2 : 1);
    for (int64_t i = 0; i < inputs; ++i) {
      const auto at = static_cast<std::size_t>(i);
      z[at] = to_normal(draw_bits(seed, part, sample, static_cast<uint64_t>(i)));
      out.values.push_back(static_cast<float>(z[at] * deviation[at]));
    }
    int64_t best = 0;
    double most = -1e300;
    for (int64_t c = 0; c < classes; ++c) {
      double score = 0;
      for (int64_t i = 0; i < inputs; ++i)
        score += teacher[static_cast<std::size_t>(c * inputs + i)] * z[static_cast<std::size_t>(i)];
      if (score > most) most = score, best = c;
    }
    const uint64_t draw = draw_bits(seed, part, sample, 0xbad, 1);
    if (to_unit(draw) < noise) best = static_cast<int64_t>(mix64(draw) % static_cast<uint64_t>(classes));
    out.labels.push_back(static_cast<int32_t>(best));
  }
  return out;
}

}  // namespace tandem::exec
