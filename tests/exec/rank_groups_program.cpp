// Started by mpirun from the tests: trains with a device library whose groups reach over processes (here one
// that sums through MPI) and prints what came of it as JSON. With "refuse", the second process has none.
#include <fmt/format.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "exec/execute.h"
#include "exec/ranks.h"
#include "tests/exec/deferred.h"

namespace tandem {
namespace {

std::atomic<int> runs;
bool refuses = false;

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
  void run(uint32_t, DeviceSession& session, float* buffer, int64_t elements, Lane lane) override {
    std::vector<float> values(static_cast<std::size_t>(elements));
    session.synchronize(lane);
    session.download(values.data(), buffer, elements);
    std::vector<double> sums(values.begin(), values.end());
    sum_over_ranks(sums);
    std::copy(sums.begin(), sums.end(), values.begin());
    session.upload(buffer, values.data(), elements);
    ++runs;
  }

 private:
  GroupSetup setup_;
};

constexpr char kCpu[] = "cpu";

Backend with_library() {
  Backend b = deferred<kCpu>();
  b.group = [](const GroupSetup& setup) -> std::unique_ptr<DeviceGroup> {
    if (refuses && ranks().rank == 1) return nullptr;
    return std::make_unique<Summing>(setup);
  };
  b.group_id = [](PeerRoute) { return fmt::format("begun by {}", ranks().rank); };
  b.unit = [](uint32_t index) { return fmt::format("unit {}", index); };
  return b;
}

int train() {
  const Graph graph = Graph::load("digits-mlp");
  const ResolvedScheme scheme = resolve_scheme("allreduce:bucket=8KiB", {});
  const Backend backend = with_library();
  Execution e;
  e.graph = &graph;
  e.scheme = &scheme;
  e.backend = &backend;
  e.cluster = {2, 2, 1};
  e.batch = 8;
  e.optimizer = &optimizer("momentum");
  e.iterations = 12;
  const ExecutionResult r = execute(e, {true, false, true});
  std::vector<double> parameters(r.parameters.begin(), r.parameters.begin() + 100);
  const nlohmann::ordered_json out = {
      {"losses", r.losses}, {"parameters", parameters}, {"runs", runs.load()}};
  if (ranks().rank == 0) fmt::print("{}\n", out.dump());
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int count, char** words) {
  try {
    tandem::refuses = count > 1 && std::string(words[1]) == "refuse";
    if (!tandem::ranks().several()) return 127;  // a build without MPI
    return tandem::train();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    tandem::abort_ranks(4);
    return 4;
  }
}
