// SPDX-License-Identifier: Apache-2.0
#include "exec/data/token_files.h"
#include "exec/execute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

template <typename T>
std::string write_ids(const std::string& name, const std::vector<T>& ids, const std::string& header = "") {
  const std::string path = (std::filesystem::path(testing::TempDir()) / name).string();
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary);
  file << header;
  file.write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(ids.size() * sizeof(T)));
  return path;
}

template <typename T>
std::vector<T> counted(T first, std::size_t count) {
  std::vector<T> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

std::vector<int32_t> tokens_of(const TokenFiles& files, int64_t sample) {
  std::vector<int32_t> out;
  for (int64_t t = 0; t <= files.sequence().length; ++t) out.push_back(files.window(sample).at(t));
  return out;
}

std::string refusal(const std::string& name, const TokenSequence& sequence = {4, 100}) {
  try {
    const TokenFiles files = TokenFiles::open(name, sequence);
    for (int64_t s = 0; s < files.samples(); ++s) tokens_of(files, s);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(TokenFiles, AreReadAsTheyWereWritten) {
  const std::string two = write_ids("two.bin", counted<uint16_t>(10, 13));
  const TokenFiles files = TokenFiles::open(two, {4, 100});
  EXPECT_EQ(files.tokens(), 13);
  EXPECT_EQ(files.samples(), 3);
  EXPECT_EQ(tokens_of(files, 0), (std::vector<int32_t>{10, 11, 12, 13, 14}));
  EXPECT_EQ(tokens_of(files, 2), (std::vector<int32_t>{18, 19, 20, 21, 22}));
  const std::string four = write_ids("four.bin", counted<uint32_t>(70000, 6), std::string(12, 'x'));
  const TokenFiles wide = TokenFiles::open("tokens:" + four + ",type=uint32,skip=12", {5, 100000});
  EXPECT_EQ(wide.samples(), 1);
  EXPECT_EQ(tokens_of(wide, 0), (std::vector<int32_t>{70000, 70001, 70002, 70003, 70004, 70005}));
}

/// What is left at the end of a file is left out; the next sample begins with the next file.
TEST(TokenFiles, SeveralFilesFollowEachOther) {
  const std::string a = write_ids("set/a_1.bin", counted<uint16_t>(0, 12)),
                    b = write_ids("set/b_2.bin", counted<uint16_t>(50, 5));
  write_ids("set/notes.txt", counted<uint16_t>(0, 3));
  const std::string folder = std::filesystem::path(a).parent_path().string();
  for (const std::string& name :
       {"tokens:" + a + "," + b, "tokens:" + folder, "tokens:" + folder + "/[ab]_*.bin"}) {
    const TokenFiles files = TokenFiles::open(name, {4, 100});
    EXPECT_EQ(files.tokens(), 17) << name;
    ASSERT_EQ(files.samples(), 3) << name;
    EXPECT_EQ(tokens_of(files, 1), (std::vector<int32_t>{4, 5, 6, 7, 8}));
    EXPECT_EQ(tokens_of(files, 2), (std::vector<int32_t>{50, 51, 52, 53, 54}));
  }
}

TEST(TokenFiles, SayWhereTheyAreWrong) {
  const std::string path = write_ids("wrong.bin", std::vector<uint16_t>{1, 2, 3, 4, 5, 6, 300, 7, 8});
  EXPECT_THAT(refusal(path),
              HasSubstr("wrong.bin: token 6 (byte 12) is 300: the model's vocabulary has 100"));
  EXPECT_THAT(refusal(path, {9, 1000}),
              HasSubstr("wrong.bin: 9 tokens: a sample of this model takes 9, and one more"));
  EXPECT_THAT(refusal("tokens:" + path + ",type=uint32"),
              HasSubstr("wrong.bin: 18 bytes are no whole number of ids"));
  EXPECT_THAT(refusal("tokens:" + path + ",skip=20"), HasSubstr("wrong.bin: 0 tokens"));
  EXPECT_THAT(refusal("tokens:" + path + ",type=int8"), HasSubstr("Valid: uint16, uint32"));
  EXPECT_THAT(refusal("tokens:" + path + ",typ=uint16"), HasSubstr("type"));
  for (const char* none : {"tokens:type=uint16", "tokens:", "tokens:,"})
    EXPECT_THAT(refusal(none), HasSubstr("names no file"));
  EXPECT_THAT(refusal("/no/such.bin"), HasSubstr("/no/such.bin: No such file"));
  EXPECT_THAT(refusal("tokens:/no/such_*.bin"), HasSubstr("no file has such a name"));
  const std::string empty = (std::filesystem::path(testing::TempDir()) / "nothing").string();
  std::filesystem::create_directories(empty);
  EXPECT_THAT(refusal("tokens:" + empty), HasSubstr("nothing: the folder has no file"));
}

/// Every sample once in each epoch, in another order each time and with each seed.
TEST(TokenFiles, EachEpochIsAPermutation) {
  const std::string path = write_ids("order.bin", std::vector<uint16_t>(401));
  for (const int64_t length : {400, 200, 100, 57, 13, 4, 1}) {
    const TokenFiles files = TokenFiles::open(path, {length, 10});
    const int64_t n = files.samples();
    ASSERT_EQ(n, 400 / length);
    std::vector<std::vector<int64_t>> orders;
    for (const uint64_t seed : {1, 2}) {
      for (int64_t epoch = 0; epoch < 2; ++epoch) {
        std::vector<int64_t>& order = orders.emplace_back();
        for (int64_t i = 0; i < n; ++i) order.push_back(files.drawn(epoch * n + i, seed));
        EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), static_cast<std::size_t>(n));
        EXPECT_EQ(*std::max_element(order.begin(), order.end()), n - 1);
      }
    }
    if (n > 20) {
      EXPECT_EQ(std::set<std::vector<int64_t>>(orders.begin(), orders.end()).size(), 4U);
    }
  }
}

std::string refused_model(const char* model) {
  try {
    token_sequence(Graph::load(model));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(TokenFiles, AreForModelsThatTellTheNextToken) {
  const TokenSequence gpt = token_sequence(Graph::load("gpt2"));
  EXPECT_EQ(gpt.length, 1024);
  EXPECT_EQ(gpt.vocabulary, 50257);
  EXPECT_EQ(token_sequence(Graph::load("llama3.2-1b")).vocabulary, 128256);
  EXPECT_GT(token_sequence(Graph::load("lstm-ptb")).length, 1);
  EXPECT_THAT(refused_model("bert-base-mlm"), HasSubstr("more than one input"));
  EXPECT_THAT(refused_model("digits-cnn"), HasSubstr("its input is 1x8x8"));
  EXPECT_NE(refused_model("transformer-base"), "");
}

/// An encoder sees what it is asked for.
TEST(TokenFiles, AreNotForModelsThatSeeTheNextToken) {
  const auto graph = [](const std::string& causal) {
    return Graph::from_json(
        Json::parse(R"({"name": "seer", "summary": "", "inputs": {"tokens": [8]}, "layers": [
      {"type": "embedding", "vocabulary": 9, "width": 12}, {"type": "linear", "features": 36},
      {"type": "attention", "heads": 2, "fused": 1, "causal": )" +
                        causal + R"(},
      {"type": "linear", "features": 9}, {"type": "cross-entropy"}]})",
                    "test.json"));
  };
  EXPECT_EQ(token_sequence(graph("true")), (TokenSequence{8, 9}));
  try {
    token_sequence(graph("false"));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a position sees later ones"));
  }
}

/// Without dropout, whose masks differ between workers.
const std::string kModel =
    std::string(TANDEM_ROOT) + "/tests/cross/text.json:layers=2,hidden=32,vocabulary=16";

struct Made {
  std::string path = (std::filesystem::path(testing::TempDir()) / "learnable.bin").string();
  double entropy = 0;
  Made() {
    std::filesystem::remove(path);
    entropy = make_tokens({.tokens = 40000, .vocabulary = 16}, path);
  }
};
const Made& made() {
  static const Made one;
  return one;
}

ExecutionResult learn(const char* scheme, const Cluster& cluster, int64_t batch, int32_t iterations,
                      const char* how, const std::vector<int64_t>& batches = {}) {
  const Graph graph = Graph::load(kModel);
  const ResolvedScheme resolved = resolve_scheme(scheme, {});
  const TokenFiles tokens = TokenFiles::open(made().path, token_sequence(graph));
  Execution e;
  e.job.graph = &graph;
  e.job.scheme = &resolved;
  e.job.batch = batch;
  e.job.batches = batches;
  e.job.optimizer = &optimizer(how);
  e.backend = &backends_registry().at("cpu");
  e.cluster = cluster;
  e.iterations = iterations;
  e.warmup = 1;
  e.rate.base = how == std::string_view("adam") ? 0.01 : 0.1;
  e.tokens = &tokens;
  return execute(e, {false, false, true});
}

/// The chain that the file is drawn from has 1.2 nats for each four ways and 0.2 for the rest, far below what
/// the tokens' frequencies alone tell.
TEST(TokenFiles, ModelsLearnWhatFollowsWhat) {
  EXPECT_GT(made().entropy, 2.4);
  const ExecutionResult r = learn("allreduce", {1, 1, 1}, 16, 150, "adam");
  EXPECT_GT(r.losses.front(), made().entropy);
  EXPECT_LT(r.losses.back(), made().entropy - 0.4);
  EXPECT_GT(r.losses.back(), 1.2) << "less than the chain's own entropy cannot be learned";
}

/// Samples are dealt out: however many workers share a step, on stages or nodes, it has the same samples.
TEST(TokenFiles, EveryWayToTrainSeesTheSameSamples) {
  const ExecutionResult one = learn("allreduce", {1, 1, 1}, 12, 4, "sgd");
  const auto expect_alike = [&](const ExecutionResult& r, const char* what) {
    ASSERT_EQ(r.losses.size(), one.losses.size()) << what;
    for (std::size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(r.losses[i], one.losses[i], 1e-4) << what;
  };
  expect_alike(learn("allreduce", {2, 1, 2}, 6, 4, "sgd"), "two workers");
  expect_alike(learn("zero:stage=2", {3, 1, 3}, 4, 4, "sgd"), "three workers");
  expect_alike(learn("allreduce", {2, 2, 1}, 6, 4, "sgd"), "two nodes");
  expect_alike(learn("tensor-parallel", {2, 1, 2}, 12, 4, "sgd"), "partners");
  expect_alike(learn("hybrid:context=2", {2, 1, 2}, 12, 4, "sgd"), "parts of each sequence");
  expect_alike(learn("pipeline:microbatches=3", {2, 1, 2}, 4, 4, "sgd"), "stages");
  const ExecutionResult uneven = learn("allreduce", {2, 1, 2}, 6, 4, "sgd", {9, 3});
  ASSERT_EQ(uneven.parameters.size(), one.parameters.size());
  for (std::size_t i = 0; i < one.parameters.size(); ++i)
    ASSERT_NEAR(uneven.parameters[i], one.parameters[i], 1e-5) << i;
}

}  // namespace
}  // namespace tandem::tests
