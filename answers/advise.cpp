// SPDX-License-Identifier: Apache-2.0
#include "answers/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <mutex>

#include "answers/answer.h"
#include "base/in_parallel.h"
#include "sim/capacity.h"

namespace tandem::answers {

namespace {

constexpr double kNormal90 = 1.645;
constexpr int64_t kMostTried = 64;  ///< devices up to which more than twice the samples are tried

/// What the choices found are predicted to do.
class Explanation {
 public:
  Explanation(const Question& question, const Space& space, const Search& search, const WayBounds& bounds)
      : q_(question), space_(space), search_(search), bounds_(bounds) {}

  /// In the order of the rates that are predicted, which noise can change; so are `ways` then.
  std::vector<Choice> choices(std::vector<Way>& ways) const {
    std::vector<std::pair<Way, Choice>> found(ways.size());
    std::mutex telling;
    std::size_t explained = 0;
    const auto tell = [&](std::size_t more) {
      const std::scoped_lock lock(telling);
      explained += more;
      search_.say(
          fmt::format("predicted {} of {} choice{} ...", explained, ways.size(), ways.size() == 1 ? "" : "s"),
          static_cast<double>(explained) / static_cast<double>(ways.size()));
    };
    tell(0);
    in_parallel(ways.size(), search_.threads, [&](std::size_t i) {
      found[i] = {ways[i], choice(ways[i], i == 0 && !search_.stopped())};
      tell(1);
    });
    const std::string first = found[0].second.candidate.scheme;
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first.tight, -a.second.report.rate.samples_per_second) <
             std::pair(b.first.tight, -b.second.report.rate.samples_per_second);
    });
    if (found[0].second.candidate.scheme != first && !search_.stopped())
      found[0].second = choice(found[0].first, true);
    std::vector<Choice> out;
    for (std::size_t i = 0; i < found.size(); ++i) {
      ways[i] = found[i].first;
      out.push_back(std::move(found[i].second));
    }
    for (std::size_t i = 1; i < out.size(); ++i)
      out[i].to_first = ratio_interval(out[0].report, out[i].report);
    return out;
  }

  /// With more samples per step: the first choice with larger batches or more of them, and pure data
  /// parallelism.
  std::optional<Advice::Larger> larger(const Way& first) const {
    constexpr double kWorthTelling = 1.1, kLittle = 1.05;
    const Candidate& c = first.candidate;
    std::optional<Advice::Larger> out;
    const double own = rate_of({space_.samples, c.scheme, c.devices, c.batch, 0}, first);
    double before = own;
    for (const int64_t factor : {2, 4, 8}) {
      if (search_.stopped() || (space_.devices > kMostTried && factor > 2)) break;
      search_.say(fmt::format("the first choice with {} times the samples in a step ...", factor));
      double best = 0;
      for (Advice::Larger& way : ways_with(factor, c)) {
        way.rate = rate_of(way, first);
        if (way.rate <= best) continue;
        best = way.rate;
        if (best > kWorthTelling * own && best > kLittle * before) out = way;
      }
      before = std::max(before, best);
    }
    if (out) out->rate *= first.rate / own;
    return out;
  }

 private:
  Choice choice(const Way& way, bool whole) const {
    const Candidate& c = way.candidate;
    Question own = q_.with({{"scheme", c.scheme},
                            {"devices", std::to_string(c.devices)},
                            {"batch", std::to_string(c.batch)},
                            {"precision", std::string(name(c.precision))},
                            {"recompute", way.saver.recompute.text()},
                            {"offload", way.saver.offload.text()}});
    own.timeline = false;
    return {c,
            way.saver.recompute,
            way.saver.offload,
            predict(own, c.devices, whole ? Depth::full : Depth::fit),
            {1, 1},
            way.tight};
  }

  std::vector<Advice::Larger> ways_with(int64_t factor, const Candidate& c) const {
    const int64_t samples = checked_mul(space_.samples, factor, "the samples of a step");
    std::vector<Advice::Larger> out = {{samples, c.scheme, c.devices, c.batch * factor}};
    if (bounds_.resolved(c.scheme).scheme->pipeline != nullptr && c.micro_batches > 1)
      out.push_back({samples,
                     with_settings(c.scheme, fmt::format("microbatches={}", c.micro_batches * factor)),
                     c.devices, c.batch});
    if (space_.schemes[0] == "allreduce" && samples % space_.devices == 0)
      out.push_back({samples, "allreduce", space_.devices, samples / space_.devices});
    return out;
  }

  /// Without contention and noise; 0 if it does not fit or is impossible.
  double rate_of(const Advice::Larger& way, const Way& first) const {
    try {
      const ResolvedScheme scheme = bounds_.resolved(way.scheme);
      Request p = q_.request(way.devices);
      p.job.scheme = &scheme;
      p.job.batch = way.batch;
      p.job.precision = first.candidate.precision;
      p.job.recompute = first.saver.recompute;
      p.job.offload = first.saver.offload;
      p.timeline = false;
      return memory_on(p, p.devices).fits() ? sim::undisturbed(p).rate : 0;
    } catch (const InputError&) {
      return 0;
    }
  }

  const Question& q_;
  const Space& space_;
  const Search& search_;
  const WayBounds& bounds_;
};

}  // namespace

double probability_faster(const Report& a, const Report& b) {
  const Report::Interval ratio = ratio_interval(b, a);
  const double mean = std::log(a.rate.samples_per_second / b.rate.samples_per_second);
  const double sigma = (mean > 0 ? mean - std::log(ratio.low) : std::log(ratio.high) - mean) / kNormal90;
  if (!(sigma > 0)) return mean > 0 ? 1 : mean < 0 ? 0 : 0.5;
  return boost::math::cdf(boost::math::normal(), mean / sigma);
}

Advice advise(const Question& question, const Space& space, const Search& search) {
  WayBounds bounds(question, search.recipe);
  const Explanation explanation(question, space, search, bounds);
  Ways ways = find_ways(question, space, search, bounds);
  Advice out;
  out.ways = ways.count;
  out.simulated = ways.simulated;
  out.complete = ways.complete;
  out.interrupted = search.stopped();
  out.outcomes = std::move(ways.outcomes);
  out.ranked = explanation.choices(ways.ranked);
  if (!out.interrupted) out.larger = explanation.larger(ways.ranked[0]);
  if (out.ranked.size() > 1)
    out.first_beats_second = probability_faster(out.ranked[0].report, out.ranked[1].report);
  return out;
}

}  // namespace tandem::answers
