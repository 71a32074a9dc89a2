// SPDX-License-Identifier: Apache-2.0
// Compressed gradients: what workers execute against the algorithms of the papers, written here a second
// time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "exec/execute.h"
#include "schemes/step/compression.h"
#include "tests/cross/settings.h"

namespace tandem::tests {
namespace {

using Vector = std::vector<double>;
constexpr int32_t kIterations = 13;

/// Trains with integer gradients in one bucket.
std::vector<float> trained(const std::string& text, int64_t workers, const Backend& backend,
                           int32_t iterations = kIterations) {
  const ResolvedScheme scheme = resolve_scheme(text, {});
  Execution e = execution({text, {workers, 1, workers}}, scheme, "cpu", iterations);
  e.backend = &backend;
  e.integer_gradients = true;
  return execute(e, {false, false, true}).parameters;
}

/// x less the sums that `summed` makes of every worker's (gradients + what it left out), which it changes.
template <typename Summed>
Vector recurrence(int64_t workers, int32_t iterations, bool feedback, Summed summed) {
  const auto n = static_cast<std::size_t>(model().parameter_elements());
  Vector x(n);
  std::vector<Vector> delta(static_cast<std::size_t>(workers), Vector(n));
  for (int32_t t = 0; t < iterations; ++t) {
    for (uint32_t w = 0; w < workers; ++w) {
      for (std::size_t i = 0; i < n; ++i)
        delta[w][i] = (feedback ? delta[w][i] : 0) +
                      integer_gradient(w, static_cast<uint32_t>(t), static_cast<int64_t>(i));
    }
    const Vector sum = summed(delta);
    for (std::size_t i = 0; i < n; ++i) x[i] -= sum[i];
  }
  return x;
}

/// Aji and Heafield 2017, algorithm 1, with the largest of all.
TEST(Compression, TopKIsThePapers) {
  for (const bool feedback : {true, false}) {
    for (const double density : {0.02, 0.3}) {
      const std::string text = fmt::format("allreduce:compression=topk,density={},error-feedback={}", density,
                                           feedback ? "on" : "off");
      const auto summed = [&](std::vector<Vector>& delta) {
        const std::size_t n = delta[0].size();
        const auto kept = static_cast<std::size_t>(std::ceil(density * static_cast<double>(n)));
        Vector sum(n);
        for (Vector& d : delta) {
          std::vector<std::size_t> order(n);
          std::iota(order.begin(), order.end(), 0);
          std::stable_sort(order.begin(), order.end(),
                           [&](std::size_t a, std::size_t b) { return std::abs(d[a]) > std::abs(d[b]); });
          for (std::size_t k = 0; k < kept; ++k) sum[order[k]] += std::exchange(d[order[k]], 0);
        }
        return sum;
      };
      const Vector expected = recurrence(3, kIterations, feedback, summed);
      for (const std::string& scheme :
           {text, "parameter-server:overlap=off," + text.substr(text.find(':') + 1),
            "hybrid:microbatches=1," + text.substr(text.find(':') + 1)}) {
        for (const Backend& backend : backends()) {
          const std::vector<float> x = trained(scheme, 3, backend);
          for (std::size_t i = 0; i < x.size(); ++i)
            ASSERT_EQ(static_cast<double>(x[i]), expected[i]) << scheme << " " << backend.name << " " << i;
        }
      }
    }
  }
}

/// Alistarh et al. 2017 with the maximum as the norm, to the nearest, in single precision, since many
/// integers are ties: where compilers fuse operations a few may go the other way.
TEST(Compression, Int8IsThePapersAndNeverFarOff) {
  const auto summed = [](std::vector<Vector>& delta) {
    const std::size_t n = delta[0].size();
    Vector sum(n);
    for (Vector& d : delta) {
      for (std::size_t first = 0; first < n; first += kScaledTogether) {
        const std::size_t end = std::min<std::size_t>(n, first + kScaledTogether);
        float largest = 0;
        for (std::size_t i = first; i < end; ++i)
          largest = std::max(largest, std::abs(static_cast<float>(d[i])));
        for (std::size_t i = first; i < end; ++i) {
          const float scale = largest / 127, own = static_cast<float>(d[i]);
          const float sent = scale * static_cast<float>(std::lrint(own / scale));
          sum[i] += static_cast<double>(sent);
          d[i] = static_cast<double>(own - sent);
        }
      }
    }
    return sum;
  };
  constexpr double kStep = 8.1 / 127;  // gradients are -8 .. 7
  for (const int64_t workers : {2, 4}) {
    for (const int32_t iterations : {kIterations, 60}) {
      const Vector expected = recurrence(workers, iterations, true, summed);
      const Vector exact = recurrence(workers, iterations, false, [](std::vector<Vector>& delta) {
        Vector sum = delta[0];
        for (std::size_t w = 1; w < delta.size(); ++w) {
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += delta[w][i];
        }
        return sum;
      });
      for (const Backend& backend : backends()) {
        const std::vector<float> x = trained("allreduce:compression=int8", workers, backend, iterations);
        std::size_t equal = 0, rounded = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double own = x[i];
          equal += std::abs(own - expected[i]) < 1e-3 ? 1 : 0;
          rounded += std::abs(own - exact[i]) > 1e-3 ? 1 : 0;
          ASSERT_NEAR(own, exact[i], static_cast<double>(workers) * kStep / 2 + 1e-3)
              << "what is left out does not add up";
        }
        EXPECT_GE(equal, x.size() * 98 / 100) << backend.name;
        EXPECT_GE(rounded, x.size() / 2) << "nothing was compressed";
      }
    }
  }
}

/// Columns of an n x r matrix, row by row.
void gram_schmidt(Vector& p, std::size_t r) {
  const std::size_t n = p.size() / r;
  for (std::size_t c = 0; c < r; ++c) {
    for (std::size_t before = 0; before < c; ++before) {
      double along = 0;
      for (std::size_t i = 0; i < n; ++i) along += p[i * r + before] * p[i * r + c];
      for (std::size_t i = 0; i < n; ++i) p[i * r + c] -= along * p[i * r + before];
    }
    double norm = 0;
    for (std::size_t i = 0; i < n; ++i) norm += p[i * r + c] * p[i * r + c];
    for (std::size_t i = 0; i < n; ++i) p[i * r + c] /= std::sqrt(norm);
  }
}

/// Vogels et al. 2019, algorithm 1, of one matrix of every worker's delta; q is kept.
struct Matrix {
  std::size_t first, rows, columns, rank;
  Vector q;

  void sum_into(Vector& sum, std::vector<Vector>& delta) {
    Vector p(rows * rank);
    for (const Vector& d : delta) {
      for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < columns; ++j) {
          for (std::size_t k = 0; k < rank; ++k)
            p[i * rank + k] += d[first + i * columns + j] * q[j * rank + k];
        }
      }
    }
    gram_schmidt(p, rank);
    q.assign(q.size(), 0);
    for (const Vector& d : delta) {
      for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < columns; ++j) {
          for (std::size_t k = 0; k < rank; ++k)
            q[j * rank + k] += d[first + i * columns + j] * p[i * rank + k];
        }
      }
    }
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        double& s = sum[first + i * columns + j];
        s = 0;
        for (std::size_t k = 0; k < rank; ++k) s += p[i * rank + k] * q[j * rank + k];
      }
    }
  }
};

/// The tiny model's flat vector: fc2's bias and its 33 x 4 weights, fc1's bias and its 8 x 33 weights.
TEST(Compression, PowerSgdIsThePapers) {
  for (const std::size_t rank : {1, 2, 3}) {
    for (const int64_t workers : {2, 4}) {
      // fc2's matrix shrinks to less than half with one column alone.
      std::vector<Matrix> matrices;
      if (rank == 1) matrices.push_back({4, 33, 4, 1, {}});
      matrices.push_back({169, 8, 33, rank, {}});
      std::size_t drawn = rank == 1 ? 4 + 33 + 33 + 8 : 4 + 132 + 33 + 8 * rank;  // behind the first sum
      for (Matrix& m : matrices) {
        for (std::size_t i = 0; i < m.columns * m.rank; ++i) m.q.push_back(to_normal(draw_bits(1, drawn++)));
      }
      const auto summed = [&](std::vector<Vector>& delta) {
        Vector sum(delta[0].size());
        for (const Vector& d : delta) {
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += d[i];
        }
        for (Matrix& m : matrices) m.sum_into(sum, delta);
        std::vector<Vector> before = delta;
        for (Vector& d : delta) d.assign(d.size(), 0);
        for (const Matrix& m : matrices) {
          for (std::size_t i = m.first; i < m.first + m.rows * m.columns; ++i) {
            for (std::size_t w = 0; w < delta.size(); ++w)
              delta[w][i] = before[w][i] - sum[i] / static_cast<double>(workers);
          }
        }
        return sum;
      };
      const Vector expected = recurrence(workers, kIterations, true, summed);
      const std::string text = fmt::format("allreduce:compression=powersgd,rank={}", rank);
      for (std::size_t backend = 0; backend < backends().size(); ++backend) {
        Vector kept = expected;
        const std::vector<float> x = trained(text, workers, backends()[backend]);
        for (std::size_t i = 0; i < x.size(); ++i)
          ASSERT_NEAR(x[i], kept[i], 1e-3 + 1e-4 * std::abs(kept[i]))
              << text << " " << backends()[backend].name << " " << i;
      }
    }
  }
}

/// A rank that leaves no matrix smaller sends what it would without compression.
TEST(Compression, OfFullRankIsNone) {
  const std::vector<float> whole = trained("allreduce", 2, backends()[1]),
                           full = trained("allreduce:compression=powersgd,rank=8", 2, backends()[1]);
  EXPECT_EQ(whole, full);
}

/// Mean loss of the last of 400 iterations on points that a tiny model learns.
double loss(const std::string& text) {
  static const Dataset data = load_dataset(std::string(TANDEM_ROOT) + "/tests/cross/points.csv", false);
  const ResolvedScheme scheme = resolve_scheme(text, {});
  Execution e = execution({text, {2, 1, 2}}, scheme, "cpu", 400);
  e.data = &data;
  e.rate.base = 0.1;
  const ExecutionResult r = execute(e);
  return std::accumulate(r.losses.end() - 50, r.losses.end(), 0.0) / 50;
}

/// Sums of products of all workers' matrices are no server's.
TEST(Compression, OfPushesIsRefusedWhereServersCannotUndoIt) {
  for (const char* more : {"powersgd", "int8,push=node", "topk,server=gpu", "int8,gradients=fp16"}) {
    const std::string text = std::string("parameter-server:compression=") + more;
    EXPECT_THROW(
        {
          const ResolvedScheme scheme = resolve_scheme(text, {});
          make_program(execution({text, {4, 2, 2}}, scheme, "null", 1));
        },
        InputError)
        << more;
  }
}

TEST(Compression, TrainingConverges) {
  const double whole = loss("allreduce");
  for (const char* text : {"allreduce:compression=int8", "allreduce:compression=powersgd,rank=1",
                           "allreduce:compression=topk,density=0.02", "parameter-server:compression=int8",
                           "parameter-server:compression=topk,density=0.02,mode=async"})
    EXPECT_LT(loss(text), 1.2 * whole + 0.01) << text;
  EXPECT_GT(loss("allreduce:compression=topk,density=0.02,error-feedback=off"), whole)
      << "what is never sent is never learned";
}

/// As many bytes as the Program says, and so the simulator: half of what fp32 takes.
TEST(Compression, GradientsOfTwoBytesAreHalfOfThoseOfFour) {
  const auto executed = [](const std::string& text, const Backend& backend) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    Execution e = execution({text, {4, 2, 2}}, scheme, "null", 3);
    e.backend = &backend;
    int64_t made = 0, sum = 0;
    for (const OpTime& op : execute(e, {true, false, false}).ops) made += op.collective_bytes;
    const Program program = make_program(e);
    for (const Op& op : program.roles[0].ops) sum += op.kind == OpKind::collective ? op.bytes.n : 0;
    EXPECT_EQ(made, sum) << text << " " << backend.name;
    return made;
  };
  for (const Backend& backend : backends()) {
    const int64_t whole = executed("allreduce", backend);
    for (const char* text : {"allreduce:gradients=fp16", "allreduce:compression=fp16,bucket=1KiB"})
      EXPECT_EQ(2 * executed(text, backend), whole) << text;
    executed("zero:stage=2,gradients=fp16,bucket=1KiB", backend);
  }
}

/// What travels, by the formulas of the header's comment, and where the machine is slow how much faster that
/// is.
TEST(Compression, BytesAndTimesArePredicted) {
  const auto bytes = [](const char* text) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    const Program p = make_program(execution({text, {4, 1, 4}}, scheme, "null", 1));
    int64_t sum = 0;
    for (const Op& op : p.roles[0].ops) sum += op.kind == OpKind::collective ? op.bytes.n : 0;
    return sum;
  };
  const int64_t n = model().parameter_elements();
  ASSERT_EQ(n, 433);
  EXPECT_EQ(bytes("allreduce:compression=int8"), 4 * (4 + 436)) << "one scale";
  EXPECT_EQ(bytes("allreduce:compression=topk,density=0.1"), 4 * 8 * 44);
  EXPECT_EQ(bytes("allreduce:compression=powersgd,rank=1"), 4 * (4 + 33 + 4 + 33 + 8 + 33));
  const Graph vgg = Graph::load("vgg16");
  const System nodes = System::load("5090-2x", {{"nodes", "4"}, {"network.bandwidth", "1Gbit/s"}});
  const auto rate = [&](const char* text) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    Request p = prediction({text, {8, 4, 2}}, scheme, 20);
    p.job.graph = &vgg;
    p.system = &nodes;
    p.job.batch = 16;
    return simulate(p).rate.samples_per_second;
  };
  const double whole = rate("allreduce");
  EXPECT_GT(rate("allreduce:compression=powersgd"), 5 * whole);
  EXPECT_GT(rate("allreduce:compression=topk,density=0.001"), 5 * whole);
  EXPECT_LT(rate("allreduce:compression=int8"), 1.2 * whole)
      << "gathered from 8 workers, a byte an element is what two all-reduced words are";
}

}  // namespace
}  // namespace tandem::tests
