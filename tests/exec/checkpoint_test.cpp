// SPDX-License-Identifier: Apache-2.0
// Checkpoints: what is written comes back, training goes on as if nothing had happened, wrong files are
// refused.
#include "exec/request/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "exec/execute.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

Checkpoint example(const Graph& graph, const Optimizer& rule) {
  Checkpoint c;
  c.iteration = 41;
  const auto n = static_cast<std::size_t>(graph.parameter_elements());
  for (std::size_t i = 0; i < n; ++i) c.parameters.push_back(static_cast<float>(i) * 0.25F);
  c.state.assign(n * static_cast<std::size_t>(rule.state), 3.5F);
  c.buffers = {1, 2, 3};
  c.averaging.assign(2 * n, 0.5F);
  return c;
}

std::string refusal(const std::string& path, const Graph& graph, const Optimizer& rule) {
  try {
    load_checkpoint(path, graph, rule);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Checkpoint, ComesBackAsItWas) {
  const Scratch scratch;
  const Graph graph = Graph::load("digits-mlp");
  for (const char* name : {"sgd", "momentum", "adam"}) {
    const Optimizer& rule = optimizer(name);
    const Checkpoint c = example(graph, rule);
    const std::string path = scratch.file("c");
    save_checkpoint(path, graph, rule, c);
    const Checkpoint back = load_checkpoint(path, graph, rule);
    EXPECT_EQ(back.iteration, 41);
    EXPECT_EQ(back.parameters, c.parameters);
    EXPECT_EQ(back.state, c.state);
    EXPECT_EQ(back.buffers, c.buffers);
    EXPECT_EQ(back.averaging, c.averaging);
  }
}

TEST(Checkpoint, OfAnotherModelOrOptimizerIsRefused) {
  const Scratch scratch;
  const Graph graph = Graph::load("digits-mlp");
  const std::string path = scratch.file("c");
  save_checkpoint(path, graph, optimizer("adam"), example(graph, optimizer("adam")));
  EXPECT_THAT(refusal(path, Graph::load("digits-cnn"), optimizer("adam")), HasSubstr("holds digits-mlp"));
  EXPECT_THAT(refusal(path, graph, optimizer("sgd")), HasSubstr("made with the optimizer adam"));
  EXPECT_THAT(refusal(path, Graph::load("digits-mlp:hidden=65"), optimizer("adam")), HasSubstr("parameters"));
}

TEST(Checkpoint, CutAnywhereOrLengthenedIsRefused) {
  const Scratch scratch;
  const Graph graph = Graph::load("digits-mlp");
  const Optimizer& rule = optimizer("momentum");
  save_checkpoint(scratch.file("c"), graph, rule, example(graph, rule));
  const std::string bytes = slurp(scratch.file("c"));
  for (const std::size_t keep : {std::size_t{0}, std::size_t{5}, std::size_t{60}, bytes.find('\n'),
                                 bytes.find('\n') + 1, bytes.size() / 2, bytes.size() - 1}) {
    EXPECT_NE(refusal(scratch.write("cut", bytes.substr(0, keep)), graph, rule), "accepted") << keep;
  }
  EXPECT_THAT(refusal(scratch.write("long", bytes + "x"), graph, rule), HasSubstr("more than it says"));
  std::string huge = bytes;
  huge.replace(huge.find("\"parameters\":") + 13, 4, "999999999999999999");
  EXPECT_NE(refusal(scratch.write("huge", huge), graph, rule), "accepted");
  EXPECT_NE(refusal(scratch.write("other", "not\na checkpoint"), graph, rule), "accepted");
  EXPECT_NE(refusal(scratch.file("absent"), graph, rule), "accepted");
}

TEST(Checkpoint, AFullDiskOrAMissingFolderIsSaid) {
  const Scratch scratch;
  const Graph graph = Graph::load("digits-mlp");
  const Optimizer& rule = optimizer("sgd");
  EXPECT_THROW(save_checkpoint("/dev/full", graph, rule, example(graph, rule)), InputError);
  EXPECT_THROW(save_checkpoint(scratch.file("no/c"), graph, rule, example(graph, rule)), InputError);
}

TEST(Checkpoint, TrainingGoesOnAsIfItHadNotStopped) {
  const Graph graph = Graph::load("digits-cnn");  // batch normalisation: its buffers count too
  const Dataset data = load_dataset("digits", false);
  for (const char* scheme_name : {"allreduce", "parameter-server"}) {
    for (const char* rule : {"momentum", "adam"}) {
      const ResolvedScheme scheme = resolve_scheme(scheme_name, Place{});
      Execution e;
      e.job.graph = &graph;
      e.job.scheme = &scheme;
      e.backend = &backends_registry().at("cpu");
      e.cluster = {2, 1, 2};
      e.job.batch = 8;
      e.job.optimizer = &optimizer(rule);
      e.data = &data;
      e.warmup = 0;
      Keep keep;
      keep.parameters = true;
      e.iterations = 8;
      const ExecutionResult whole = execute(e, keep);
      e.iterations = 5;
      ExecutionResult part = execute(e, keep);
      const Checkpoint c{5, part.parameters, part.state, part.buffers};
      e.start = &c;
      e.iterations = 3;
      const ExecutionResult rest = execute(e, keep);
      EXPECT_EQ(rest.parameters, whole.parameters) << scheme_name << " " << rule;
      EXPECT_EQ(rest.state, whole.state) << scheme_name << " " << rule;
      EXPECT_EQ(rest.losses.back(), whole.losses.back()) << scheme_name << " " << rule;
    }
  }
}

}  // namespace
}  // namespace tandem::tests
