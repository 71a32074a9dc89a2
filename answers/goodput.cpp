// SPDX-License-Identifier: Apache-2.0
#include "answers/goodput.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace tandem::answers {

namespace {

/// Of a job that always has its nodes. An attempt at an interval and its checkpoint takes a = interval +
/// checkpoint. Until one succeeds M (e^(a/M) - 1) passes and e^(a/M) - 1 attempts fail; each failure is
/// followed by a restart of M (e^(R/M) - 1), since restarts may fail too.
FailureTimes complete_model(const FailingJob& job, double mtbf) {
  const double attempt = job.interval + job.checkpoint;
  const double until = mtbf * std::expm1(attempt / mtbf);
  const double working = std::exp(-job.restart / mtbf);  // no restart
  FailureTimes t;
  t.useful = working * job.interval / until;
  t.checkpoints = working * job.checkpoint / until;
  t.repeated = working * (1 - attempt / until);
  t.restarts = 1 - working;
  return t;
}

/// [j]: probability that j nodes are down: working nodes fail, and each failed one is repaired independently.
std::vector<double> away(const FailingJob& job) {
  if (!(job.repair > 0)) return {1};
  const auto rates = static_cast<int64_t>(job.rates.size());
  std::vector<double> p = {1};
  double sum = 1;
  for (int64_t j = 0; j < job.spares + rates; ++j) {
    const double failing = 1 / job.mtbf(std::max<int64_t>(0, j - job.spares));
    p.push_back(p.back() * failing * job.repair / static_cast<double>(j + 1));
    sum += p.back();
  }
  for (double& each : p) each /= sum;
  return p;
}

/// Simulates a job, one failure or repair after another. For one thread at a time.
class Life {
 public:
  Life(const FailingJob& job, uint64_t seed) : job_(job), draws_(seed ^ 0x6661696c) {}
  double goodput(int64_t failures) {
    while (failed_ < failures) {
      if (missing() == static_cast<int64_t>(job_.rates.size())) {
        pass(to_repair());
        --away_;
      } else if (restart()) {
        work();
      }
    }
    return useful_ / time_;
  }

 private:
  int64_t missing() const { return std::max<int64_t>(0, away_ - job_.spares); }
  double exponential(double mean) { return -mean * std::log1p(-to_unit(draws_.next())); }
  double to_failure() { return exponential(job_.mtbf(missing())); }
  double to_repair() {
    return away_ == 0 ? std::numeric_limits<double>::infinity()
                      : exponential(job_.repair / static_cast<double>(away_));
  }
  void pass(double time) { time_ += time; }
  void fail() {
    ++failed_;
    if (job_.repair > 0) ++away_;
  }
  /// Nodes that come back in the meantime join. False: it failed.
  bool restart() {
    for (double left = job_.restart;;) {
      const double failure = to_failure(), repair = to_repair(), next = std::min(failure, repair);
      if (left <= next) return pass(left), true;
      pass(next);
      left -= next;
      if (failure <= repair) return fail(), false;
      --away_;
    }
  }
  /// Until a failure, or a checkpoint after which a repaired node joins.
  void work() {
    const double attempt = job_.interval + job_.checkpoint;
    const double rate = job_.rates[static_cast<std::size_t>(missing())];
    for (double done = 0;;) {  // progress of the attempt
      const double failure = to_failure(), repair = to_repair(), next = std::min(failure, repair);
      const double whole = std::floor((done + next) / attempt);
      useful_ += whole * job_.interval * rate;
      pass(next);
      done = std::max(0.0, done + next - whole * attempt);
      if (failure <= repair) return fail();
      if (missing() == 0) {  // another spare
        --away_;
        continue;
      }
      const double fails = to_failure();  // of the working nodes, before the checkpoint is written
      --away_;
      if (fails < attempt - done) return pass(fails), fail();
      useful_ += job_.interval * rate;
      return pass(attempt - done);
    }
  }

  const FailingJob& job_;
  SplitMix64 draws_;
  int64_t away_ = 0, failed_ = 0;
  double time_ = 0, useful_ = 0;
};

}  // namespace

double optimal_interval(double checkpoint, double mtbf) {
  if (checkpoint >= 2 * mtbf) return mtbf;
  const double x = std::sqrt(checkpoint / (2 * mtbf));
  return std::sqrt(2 * checkpoint * mtbf) * (1 + x / 3 + x * x / 9) - checkpoint;
}

FailureTimes expected_times(const FailingJob& job) {
  const std::vector<double> p = away(job);
  FailureTimes out;
  for (std::size_t j = 0; j < p.size(); ++j) {
    const int64_t missing = std::max<int64_t>(0, static_cast<int64_t>(j) - job.spares);
    if (missing == static_cast<int64_t>(job.rates.size())) {
      out.waiting += p[j];
      continue;
    }
    const FailureTimes here = complete_model(job, job.mtbf(missing));
    const double rate = job.rates[static_cast<std::size_t>(missing)];
    // A returning node costs a restart, once in the time that this many nodes are down.
    const double until_back = missing == 0 ? 0 : job.repair / static_cast<double>(j);
    const double joining = missing == 0 ? 0 : job.restart / (job.restart + until_back);
    const double share = p[j] * (1 - joining);
    out.useful += share * here.useful * rate;
    out.fewer_nodes += share * here.useful * (1 - rate);
    out.checkpoints += share * here.checkpoints;
    out.repeated += share * here.repeated;
    out.restarts += share * here.restarts + p[j] * joining;
  }
  return out;
}

double simulated_goodput(const FailingJob& job, uint64_t seed, int64_t failures) {
  return Life(job, seed).goodput(failures);
}

}  // namespace tandem::answers
