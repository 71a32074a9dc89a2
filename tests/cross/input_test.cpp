// SPDX-License-Identifier: Apache-2.0
// Stored pictures on both engines: the same ops, and the same training whoever decodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "exec/execute.h"
#include "models/optimizer.h"
#include "sim/simulate.h"
#include "sim/simulation.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

namespace fs = std::filesystem;

class Pictures : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder() = (fs::temp_directory_path() / "tandem-pictures-XXXXXX").string();  // of this process alone
    ASSERT_NE(mkdtemp(folder().data()), nullptr);
    MadeImages what;
    what.samples = 40;
    what.width = 48;
    what.height = 36;
    what.format = ImageFormat::png;
    make_images(what, folder() + "/files");
    make_images(what, folder() + "/all.rec");
  }
  static void TearDownTestSuite() { fs::remove_all(folder()); }
  static std::string& folder() {
    static std::string name;
    return name;
  }

  Execution execution(const StoredImages& images, const ResolvedScheme& scheme, int64_t devices) const {
    Execution e;
    e.job.graph = &graph_;
    e.job.scheme = &scheme;
    e.job.batch = 6;
    e.job.optimizer = &optimizer("momentum");
    e.backend = &backends_registry().at("cpu");
    e.cluster = {devices, 1, devices};
    e.iterations = 5;
    e.warmup = 1;
    e.stored = &images;
    e.job.loading.data = images.describe();
    return e;
  }

  const Graph graph_ = Graph::load("lenet5");
};

TEST_F(Pictures, GiveTheSameLossesWhoeverReadsAndDecodesThem) {
  const StoredImages files = StoredImages::open(folder() + "/files");
  for (const char* text : {"allreduce", "allreduce:accumulate=3", "pipeline:microbatches=2"}) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    std::vector<double> first;
    for (const int64_t workers : {1, 3}) {
      for (const int64_t prefetch : {0, 1, 4}) {
        Execution e = execution(files, scheme, 2);
        e.job.loading.workers = workers;
        e.job.loading.prefetch = prefetch;
        const std::vector<double> losses = execute(e).losses;
        if (first.empty()) first = losses;
        EXPECT_EQ(losses, first) << text << ", " << workers << " workers, prefetch " << prefetch;
      }
    }
    EXPECT_EQ(first.size(), 5);
    EXPECT_GT(first.front(), 0);
  }
}

TEST_F(Pictures, AreLearned) {
  const StoredImages records = StoredImages::open(folder() + "/all.rec");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  Execution e = execution(records, scheme, 1);
  e.job.batch = 20;
  e.iterations = 60;
  e.rate.base = 0.02;
  const std::vector<double> losses = execute(e).losses;
  EXPECT_LT(losses.back(), 0.5 * losses.front());
}

TEST_F(Pictures, AreLoadedByTheProgramThatIsPredicted) {
  const StoredImages files = StoredImages::open(folder() + "/files");
  const System system = System::load("p3.8xlarge");
  for (const char* text : {"allreduce", "allreduce:accumulate=3", "parameter-server:mode=async",
                           "zero:stage=3", "local-sgd:every=2", "pipeline:microbatches=2"}) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    Execution e = execution(files, scheme, 2);
    e.backend = &backends_registry().at("null");
    Request p;
    p.job = e.job;
    p.system = &system;
    p.devices = 2;
    p.iterations = 4;
    p.disturbance = Disturbance{};
    const Program program = make_program(e);
    EXPECT_EQ(fingerprint(*make_plan(p).program), fingerprint(program)) << text;
    const ExecutionResult r = execute(e);
    int stages = 0;
    for (const OpTime& op : r.ops) {
      const Op& of = program.roles[op.role].ops[op.op];
      if (of.lane != Lane::read && of.lane != Lane::decode) continue;
      ++stages;
      EXPECT_FALSE(op.seconds.empty());
    }
    EXPECT_EQ(stages % 2, 0);
    EXPECT_GE(stages, 2) << text;
    const Report predicted = simulate(p);
    EXPECT_GT(predicted.rate.samples_per_second, 0);
  }
}

TEST_F(Pictures, ThatDoNotFitAreRefused) {
  const StoredImages files = StoredImages::open(folder() + "/files");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  const auto refused = [&](Execution e, const char* why) {
    try {
      execute(e);
      ADD_FAILURE() << why;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(why));
    }
  };
  Execution e = execution(files, scheme, 1);
  e.job.loading.on_device = true;
  refused(e, "only in predictions");
  const Graph text = Graph::load("transformer-tiny"), flat = Graph::load("digits-mlp");
  e = execution(files, scheme, 1);
  e.job.graph = &text;
  refused(e, "takes no pictures");
  e.job.graph = &flat;
  refused(e, "takes no pictures");
}

TEST_F(Pictures, ThatAreDamagedEndTheRunAndAreNamed) {
  const std::string place = folder() + "/damaged";
  fs::copy(folder() + "/files", place, fs::copy_options::recursive);
  std::ofstream(place + "/3/03.png", std::ios::trunc) << "no picture";
  const StoredImages files = StoredImages::open(place);
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  try {
    execute(execution(files, scheme, 2));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("3/03.png: neither a JPEG nor a PNG"));
  }
}

}  // namespace
}  // namespace tandem::tests
