// SPDX-License-Identifier: Apache-2.0
// Started by mpirun from the tests: trains with a device library whose groups reach over processes (here one
// that sums, or sends and receives, through MPI) and prints what came of it as JSON. With "refuse", the
// second process has none; "exchange ALGORITHM WORKERS" trains on integer gradients by that schedule.
#include <fmt/format.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "exec/comm/ranks.h"
#include "exec/execute.h"
#include "tests/exec/deferred.h"

namespace tandem::tests {
namespace {

std::atomic<int> runs;
bool refuses = false;

/// In host memory, by the transport's messages.
class Exchanging : public DeviceGroup {
 public:
  explicit Exchanging(const GroupSetup& setup)
      : setup_(setup), each_(setup.units.size() / static_cast<std::size_t>(ranks().size)) {}
  void join(uint32_t rank, DeviceSession&) override {
    if (setup_.id != "begun by 0" || node(rank) != ranks().rank)
      throw DeviceError("the group was told otherwise in this process");
  }
  void run(uint32_t, DeviceSession&, float*, int64_t, Lane, Precision) override {
    throw DeviceError("asked for what it was not made for");
  }
  void exchange(uint32_t rank, DeviceSession& session, std::span<const DeviceMessage> sends,
                std::span<const DeviceMessage> receives, Lane lane) override {
    session.synchronize(lane);
    std::vector<std::vector<float>> arrived;
    std::vector<std::unique_ptr<exec::Transport::Receive>> posted;
    for (const DeviceMessage& m : receives) {
      arrived.emplace_back(static_cast<std::size_t>(m.elements));
      posted.push_back(transport_->make_receive());
      posted.back()->to = arrived.back().data();
      posted.back()->elements = m.elements;
      transport_->post(node(m.peer), node(rank), {kChannel, 0, m.peer, rank, 0}, *posted.back());
    }
    for (const DeviceMessage& m : sends) {
      std::vector<float> values(static_cast<std::size_t>(m.elements));
      session.download(values.data(), m.at, m.elements);
      transport_->send(node(rank), node(m.peer), {kChannel, 0, rank, m.peer, 0}, values.data(), m.elements,
                       false);
    }
    for (std::size_t i = 0; i < receives.size(); ++i) {
      transport_->wait(*posted[i]);
      session.upload(receives[i].at, arrived[i].data(), receives[i].elements);
    }
    ++runs;
  }

 private:
  static constexpr uint32_t kChannel = 1000;  // beyond those of the run
  uint32_t node(uint32_t rank) const { return rank / static_cast<uint32_t>(each_); }
  GroupSetup setup_;
  std::size_t each_;  ///< members in a process
  Abort abort_;
  std::unique_ptr<exec::Transport> transport_ = mpi_transport(abort_);
};

/// One member in each process.
class Summing : public DeviceGroup {
 public:
  explicit Summing(const GroupSetup& setup) : setup_(setup) {}
  void join(uint32_t rank, DeviceSession&) override {
    const auto ids = gather_over_ranks(setup_.id);
    const bool same = std::set<std::string>(ids.begin(), ids.end()).size() == 1;
    if (rank != ranks().rank || !same || setup_.units.at(rank) != fmt::format("unit {}", rank))
      throw DeviceError("the group was told otherwise in this process");
  }
  void run(uint32_t, DeviceSession& session, float* buffer, int64_t elements, Lane lane,
           Precision format) override {
    if (format != Precision::fp32) throw DeviceError("asked for what it was not made for");
    std::vector<float> values(static_cast<std::size_t>(elements));
    session.synchronize(lane);
    session.download(values.data(), buffer, elements);
    std::vector<double> sums(values.begin(), values.end());
    sum_over_ranks(sums);
    std::copy(sums.begin(), sums.end(), values.begin());
    session.upload(buffer, values.data(), elements);
    ++runs;
  }
  void exchange(uint32_t, DeviceSession&, std::span<const DeviceMessage>, std::span<const DeviceMessage>,
                Lane) override {
    throw DeviceError("asked for what it was not made for");
  }

 private:
  GroupSetup setup_;
};

constexpr char kCpu[] = "cpu";

Backend with_library() {
  Backend b = deferred<kCpu>();
  b.group = [](const GroupSetup& setup) -> std::unique_ptr<DeviceGroup> {
    if (refuses && ranks().rank == 1) return nullptr;
    if (setup.algorithm != "auto") return std::make_unique<Exchanging>(setup);
    return std::make_unique<Summing>(setup);
  };
  b.group_id = [](PeerRoute) { return fmt::format("begun by {}", ranks().rank); };
  b.unit = [](uint32_t index) { return fmt::format("unit {}", index); };
  return b;
}

int train(const std::string& algorithm, int64_t workers) {
  const Graph graph = Graph::load("digits-mlp");
  const ResolvedScheme scheme = resolve_scheme("allreduce:bucket=8KiB,algorithm=" + algorithm, {});
  const Backend backend = with_library();
  Execution e;
  e.job.graph = &graph;
  e.job.scheme = &scheme;
  e.backend = &backend;
  e.cluster = {workers, 2, workers / 2};
  e.job.batch = 8;
  e.job.optimizer = &optimizer("momentum");
  e.iterations = 12;
  e.integer_gradients = algorithm != "auto";
  // A library that synchronises cannot be captured: with spans kept every iteration is issued op by op.
  const ExecutionResult r = execute(e, {true, true, true});
  std::vector<double> parameters(r.parameters.begin(), r.parameters.begin() + 100);
  const nlohmann::ordered_json out = {
      {"losses", r.losses}, {"parameters", parameters}, {"runs", runs.load()}};
  if (ranks().rank == 0) fmt::print("{}\n", out.dump());
  return 0;
}

}  // namespace
}  // namespace tandem::tests

int main(int count, char** words) {
  try {
    tandem::tests::refuses = count > 1 && std::string(words[1]) == "refuse";
    if (!tandem::exec::ranks().several()) return 127;  // a build without MPI
    return count > 3 ? tandem::tests::train(words[2], std::stol(words[3])) : tandem::tests::train("auto", 2);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    tandem::exec::abort_ranks(4);
    return 4;
  }
}
