// SPDX-License-Identifier: Apache-2.0
// tandem run, compare and plot as a user sees them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "base/json.h"
#include "schemes/report/report.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ChildResult run(std::vector<std::string> more, const std::string& model = "digits-mlp") {
  std::vector<std::string> words = {"run",     "--model", model,          "--devices", "1",
                                    "--batch", "8",       "--iterations", "6"};
  for (std::size_t i = 0; i + 1 < more.size(); ++i) {  // what is said twice counts once
    if (more[i] == "--devices") words.erase(words.begin() + 3, words.begin() + 5);
  }
  words.insert(words.end(), more.begin(), more.end());
  return tool(words);
}

TEST(Run, ReportsInEveryFormat) {
  const ChildResult text = run({"--data", "digits"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("samples/s"));
  EXPECT_THAT(text.out, HasSubstr("% of held-out samples right"));
  EXPECT_THAT(text.err, ::testing::Not(HasSubstr("iteration"))) << "no progress where stderr is no terminal";
  const ChildResult csv = run({"--data", "digits", "--format", "csv"});
  EXPECT_THAT(csv.out, HasSubstr("first_loss,last_loss,accuracy"));
  EXPECT_THAT(run({"--format", "md"}).out, HasSubstr("| devices |"));
  const ChildResult json = run({"--data", "digits", "--format", "json", "--devices", "1,2"});
  ASSERT_EQ(json.status, 0) << json.err;
  const Json document = Json::parse(json.out, "run");
  EXPECT_EQ(document.at("schema").as_text(), "tandem-reports-2");
  ASSERT_EQ(document.at("reports").items().size(), 2U);
  for (const Json& r : document.at("reports").items()) {
    EXPECT_EQ(r.at("engine").as_text(), "exec");
    EXPECT_TRUE(r.at("fits").as_bool());
    EXPECT_EQ(r.at("samples_per_iteration").as_int(),
              r.at("devices").as_int() * r.at("inputs").at("batch_per_device").as_int());
    EXPECT_GT(r.at("samples_per_second").as_real(), 0);
    EXPECT_GT(r.at("training").at("first_loss").as_real(), 0);
    const double right = r.at("training").at("accuracy").as_real();
    EXPECT_TRUE(right >= 0 && right <= 1) << right;
  }
}

/// The question that was predicted, here; the command line wins, and what a run has no use for is named.
TEST(Run, AsksTheQuestionOfAReport) {
  const ChildResult predicted =
      tool({"predict", "--model", "digits-mlp:hidden=48", "--system", "dgx1-v100", "--scheme",
            "zero:stage=2,bucket=1KiB", "--devices", "2", "--batch", "4", "--optimizer", "adam", "--format",
            "json", "--quiet", "--no-timeline"});
  ASSERT_EQ(predicted.status, 0) << predicted.err;
  const ChildResult ran = tool(
      {"run", "--question", "-", "--batch", "6", "--iterations", "4", "--format", "json"}, predicted.out);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("of the question, system"));
  const Json document = Json::parse(ran.out, "run");
  const Json &report = document.at("reports").items().front(), &inputs = report.at("inputs");
  EXPECT_EQ(report.at("devices").as_int(), 2);
  EXPECT_EQ(inputs.at("batch_per_device").as_int(), 6);
  EXPECT_EQ(inputs.at("optimizer").as_text(), "adam");
  EXPECT_THAT(inputs.at("model").as_text(), HasSubstr("digits-mlp"));
  EXPECT_THAT(ran.out, HasSubstr("1KiB"));
  const ChildResult wrong = tool({"run", "--question", "-"},
                                 "{\"schema\": \"tandem-question-1\",\n\"model\": \"digits-mlp\",\n"
                                 "\"scheme\": \"alreduce\"}");
  EXPECT_EQ(wrong.status, 3);
  EXPECT_THAT(wrong.err, HasSubstr(":3:"));
  EXPECT_THAT(wrong.err, HasSubstr("allreduce"));
}

TEST(Run, DividesBatchesAsAsked) {
  const ChildResult named = tool({"run", "--model", "digits-mlp", "--data", "digits", "--iterations", "4",
                                  "--batch-split", "12,4", "--format", "json"});
  ASSERT_EQ(named.status, 0) << named.err;
  const Json report = last_report(named.out);
  EXPECT_EQ(report.at("devices").as_int(), 2);
  EXPECT_EQ(report.at("samples_per_iteration").as_int(), 16);
  EXPECT_EQ(report.at("inputs").at("batch_per_device").as_int(), 8);
  EXPECT_EQ(report.at("inputs").at("batch_split").as_text(), "12,4");
  const ChildResult measured =
      tool({"run", "--model", "digits-mlp", "--data", "digits", "--iterations", "4", "--devices", "2",
            "--batch", "8", "--throttle", "1=50", "--batch-split", "speed"});
  ASSERT_EQ(measured.status, 0) << measured.err;
  EXPECT_THAT(measured.out, HasSubstr("batches: "));
  const ChildResult normalised =
      tool({"run", "--model", "digits-cnn", "--iterations", "3", "--batch-split", "6,2"});
  EXPECT_EQ(normalised.status, 0) << normalised.err;
  EXPECT_THAT(normalised.out, HasSubstr("--batch-norm sync takes them over all"));
}

/// Not after the first workers ran, and not by the kernel, which ends what takes too much without a word.
TEST(Run, SaysBeforehandWhatMemoryIsMissing) {
  const ChildResult r = shell(
      "ulimit -v 6000000; \"$0\" run --model vgg16 --batch 16 --devices 1,64 --iterations 3 --format json");
  EXPECT_EQ(r.status, 3) << r.err;
  EXPECT_EQ(r.out, "");
  EXPECT_THAT(r.err, HasSubstr("64 workers of vgg16 with batch 16 need "));
  EXPECT_THAT(r.err, HasSubstr("GiB together, of which this machine has "));
  EXPECT_THAT(r.err, HasSubstr("would fit"));
}

/// Between nodes everything goes over TCP, with a rate limit or without, and the report says how much.
TEST(Run, SaysWhatNodesSendEachOther) {
  std::vector<std::string> words = {"run",          "--model", "digits-mlp", "--devices", "2",
                                    "--iterations", "4",       "--warmup",   "1"};
  EXPECT_THAT(tool(words).out, ::testing::Not(HasSubstr("between nodes")));
  words.insert(words.end(), {"--nodes", "2"});
  EXPECT_THAT(tool(words).out, HasSubstr("a step were sent over TCP"));
}

TEST(Run, SaysThatTrainingDiverged) {
  const std::vector<std::string> fast = {"--learning-rate", "1e6"};
  const ChildResult text = run(fast);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("training diverged: the loss is not a number (learning rate 1e+06)"));
  std::vector<std::string> words = fast;
  words.insert(words.end(), {"--format", "json"});
  const std::string document = run(words).out;
  const Json report = last_report(document);
  EXPECT_EQ(report.at("training").at("last_loss").kind(), Json::Kind::null);
  EXPECT_GT(report.at("training").at("first_loss").as_real(), 0);
  EXPECT_TRUE(std::isnan(reports_from_json(Json::parse(document, "run"))[0].training.last_loss));
  words.back() = "csv";
  EXPECT_EQ(run(words).out.find("nan"), std::string::npos);
}

TEST(Run, WrongRequestsAreRefusedWithTheRightCode) {
  const Scratch scratch;
  const std::string cut = scratch.write("cut.csv", "1,2,0\n3");
  const struct {
    std::vector<std::string> words;
    int status;
    const char* expected;
  } cases[] = {
      {{"--learnin-rate", "1"}, 2, "Did you mean --learning-rate"},
      {{"--lr-warmup", "5"}, 2, "--lr-scale"},
      {{"--rate-limit", "1Gbit/s"}, 2, "--nodes"},
      {{"--added-latency", "1us"}, 2, "--rate-limit"},
      {{"--pace=1Gbit/s"}, 2, "--rate-limit"},  // as it was called in 0.1.0
      {{"--pace-latency", "1us"}, 2, "--added-latency"},
      {{"--resume"}, 2, "--checkpoint"},
      {{"--checkpoint-every", "5"}, 2, "--checkpoint"},
      {{"--checkpoint", scratch.file("c"), "--checkpoint-every", "0"}, 2, "checkpoint-every"},
      {{"--devices", "1,2", "--checkpoint", scratch.file("c")}, 2, "one number of --devices"},
      {{"--backend", "cdua"}, 2, "Did you mean cuda"},
      {{"--route", "pear"}, 2, "Did you mean peer"},
      {{"--route", "staged"}, 3, "have the same memory"},
      {{"--bind", "cores"}, 2, "Did you mean core"},
      {{"--backend", "null", "--bind", "numa"}, 2, "no processors"},
      {{"--scheme", "allreduce:comm-cores=500", "--devices", "2"}, 3, "processors with those"},
      {{"--scheme", "allreduce:comm-cores=1", "--devices", "2", "--bind", "none"}, 3, "--bind core or numa"},
      {{"--scheme", "allreduce:cycle=5", "--devices", "2"}, 3, "unit is missing"},
      {{"--optimizer", "momentm"}, 2, "Did you mean momentum"},
      {{"--scheme", "alreduce"}, 3, "allreduce"},
      {{"--lr-by-staleness"}, 3, "parameter server"},
      {{"--devices", "3", "--nodes", "2"}, 2, "do not divide"},
      {{"--data", "digit"}, 3, "digits"},
      {{"--data", cut}, 3, "cut.csv:2"},
      {{"--checkpoint", scratch.file("no/c")}, 3, "no folder"},
      {{"--checkpoint", "/dev/full"}, 3, "No space left"},
      {{"--out", "/dev/full"}, 3, "No space left"},
      {{"--learning-rate", "nan"}, 2, "--learning-rate"},
      {{"--warmup", "6"}, 2, "--warmup"},
  };
  for (const auto& c : cases) {
    const ChildResult r = run(c.words);
    EXPECT_EQ(r.status, c.status) << testing::PrintToString(c.words) << r.err;
    EXPECT_THAT(r.err, HasSubstr(c.expected)) << testing::PrintToString(c.words);
    EXPECT_EQ(r.out, "");
  }
  EXPECT_EQ(run({"--data", "digits"}, "lenet5").status, 3) << "images of another size";
}

/// One worker, run first for the speed-up, has no server: that is no reason to refuse the others.
constexpr char kSmallText[] = "transformer-tiny:layers=2,hidden=16,heads=2,vocabulary=16,sequence=8";

TEST(Run, LearnsFromFilesOfTokens) {
  const Scratch scratch;
  const std::string one = scratch.file("one.bin"), two = scratch.file("two.bin");
  const ChildResult made = tool({"make-data", one, "--tokens", "3000", "--vocabulary", "16"});
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("3000 tokens; a loss of 2."));
  EXPECT_EQ(tool({"make-data", one, "--tokens", "3000"}).status, 3) << "it is there already";
  EXPECT_EQ(tool({"make-data", two, "--tokens", "100", "--vocabulary", "16", "--seed", "2"}).status, 0);
  const ChildResult both = run({"--data", "tokens:" + one + "," + two, "--devices", "1,2"}, kSmallText);
  EXPECT_EQ(both.status, 0) << both.err;
  EXPECT_THAT(both.out, HasSubstr("loss 2."));
  const ChildResult beyond =
      run({"--data", one}, "transformer-tiny:layers=1,hidden=16,heads=2,vocabulary=8,sequence=8");
  EXPECT_EQ(beyond.status, 3);
  EXPECT_THAT(beyond.err, HasSubstr("one.bin: token "));
  EXPECT_THAT(beyond.err, HasSubstr("the model's vocabulary has 8"));
  EXPECT_EQ(run({"--data", "tokens:" + one + ",type=uint64"}, kSmallText).status, 3);
  EXPECT_EQ(run({"--data", one}).status, 3) << "digits-mlp takes no tokens";
  EXPECT_EQ(tool({"make-data", scratch.file("three.bin"), "--classes", "3"}).status, 2);
}

TEST(Run, ReadsSeveralFilesOfSamplesAsOne) {
  const Scratch scratch;
  std::string lines[2];
  for (int i = 0; i < 20; ++i) {
    for (int k = 0; k < 64; ++k) lines[i / 10] += fmt::format("{},", (i * k) % 17);
    lines[i / 10] += fmt::format("{}\n", i % 10);
  }
  const std::string first = scratch.write("first.csv", lines[0]),
                    second = scratch.write("second.csv", lines[1]),
                    all = scratch.write("all.csv", lines[0] + lines[1]),
                    other = scratch.write("other.csv", "1,2,3\n");
  const auto losses = [&](const std::string& data) {
    const std::string out = run({"--data", data}).out;
    return out.substr(std::min(out.size(), out.find("loss")));
  };
  EXPECT_THAT(losses(all), HasSubstr("held-out"));
  EXPECT_EQ(losses(first + "," + second), losses(all));
  const ChildResult wrong = run({"--data", first + "," + other});
  EXPECT_EQ(wrong.status, 3);
  EXPECT_THAT(wrong.err, HasSubstr("other.csv:1"));
}

TEST(Run, MakesActivationsAgainWhereAsked) {
  const auto activations = [](const char* recompute) {
    const ChildResult r = run({"--recompute", recompute, "--format", "json"}, kSmallText);
    EXPECT_EQ(r.status, 0) << r.err;
    return reports_from_json(Json::parse(r.out, "report")).at(0).memory.activations.n;
  };
  EXPECT_LT(activations("blocks"), activations("norms+activations+attention"));
  EXPECT_LT(activations("norms+activations+attention"), activations("off"));
  EXPECT_THAT(run({"--recompute", "block"}, kSmallText).err, HasSubstr("Did you mean blocks?"));
}

TEST(Run, DividesTheRateByStaleness) {
  for (const char* mode : {"async", "ssp", "softsync"}) {
    const ChildResult r = run(
        {"--devices", "2", "--scheme", fmt::format("parameter-server:mode={}", mode), "--lr-by-staleness"});
    EXPECT_EQ(r.status, 0) << mode << r.err;
  }
  EXPECT_EQ(run({"--devices", "2", "--lr-by-staleness"}).status, 3);
}

TEST(Run, WithoutACudaPluginSaysSo) {
  const ChildResult r = run({"--backend", "cuda"});
  if (r.status == 0) GTEST_SKIP() << "there is one";
  EXPECT_EQ(r.status, 4);
  EXPECT_THAT(r.err, HasSubstr("backend cuda"));
}

TEST(Run, InterruptedKeepsWhatWasDone) {
  const Scratch scratch;
  const std::string report = scratch.file("r.json"), state = scratch.file("c");
  const ChildResult r = shell(
      "\"$0\" run --model digits-mlp --data digits --devices 2 --batch 8 --iterations 90000000 --format json "
      "--out " +
      report + " --checkpoint " + state +
      " & pid=$!; "
      // Far enough when the one-worker run is over, which only the passing of time tells.
      "sleep 3; kill -INT $pid; wait $pid");
  EXPECT_EQ(r.status, 130) << r.err;
  EXPECT_GT(last_report(slurp(report)).at("samples_per_second").as_real(), 0);
  EXPECT_THAT(slurp(report), testing::ContainsRegex("stopped after [0-9]+ of 90000000 iterations"));
  const ChildResult on = run({"--data", "digits", "--checkpoint", state, "--resume"});
  EXPECT_EQ(on.status, 0) << on.err;
}

/// The iteration that the checkpoint was written after.
int64_t kept_after(const std::string& file) {
  std::istringstream head(slurp(file));
  std::string line;
  std::getline(head, line);
  return Json::parse(line, file).at("iteration").as_int(0);
}

TEST(Run, KeepsItsStateOnTheWayAndTrainsTheSame) {
  const Scratch scratch;
  const std::string whole = scratch.file("whole"), pieces = scratch.file("pieces");
  const std::vector<std::string> same = {"--data", "digits", "--optimizer", "adam", "--format", "json"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), same.begin(), same.end());
    return run(more);
  };
  const ChildResult once = with({"--checkpoint", whole}),
                    often = with({"--checkpoint", pieces, "--checkpoint-every", "4"});
  ASSERT_EQ(once.status, 0) << once.err;
  ASSERT_EQ(often.status, 0) << often.err;
  EXPECT_EQ(kept_after(pieces), 6);
  EXPECT_EQ(slurp(whole), slurp(pieces));
  const Json a = last_report(once.out).at("training"), b = last_report(often.out).at("training");
  for (const char* key : {"first_loss", "last_loss"})
    EXPECT_EQ(a.at(key).as_real(), b.at(key).as_real()) << key;
  EXPECT_THAT(often.out, HasSubstr("written every 4 iterations"));
}

TEST(Run, AKilledRunLosesOneIntervalAtMost) {
  const Scratch scratch;
  const std::string state = scratch.file("c"), whole = scratch.file("whole");
  const ChildResult killed = shell(
      "\"$0\" run --model digits-mlp --data digits --devices 1 --batch 8 --iterations 90000000 "
      "--checkpoint-every 7 --checkpoint " +
      state + " & pid=$!; while [ ! -e " + state + " ]; do sleep 0.05; done; kill -9 $pid; wait $pid");
  ASSERT_EQ(killed.status, 137) << killed.err;
  const int64_t at = kept_after(state);
  EXPECT_GE(at, 7);
  EXPECT_EQ(at % 7, 0);
  // From there on as if nothing had happened.
  const ChildResult rest = run({"--data", "digits", "--checkpoint", state, "--resume"});
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_EQ(kept_after(state), at + 6);
  ASSERT_EQ(tool({"run", "--model", "digits-mlp", "--data", "digits", "--devices", "1", "--batch", "8",
                  "--iterations", std::to_string(at + 6), "--checkpoint", whole})
                .status,
            0);
  EXPECT_EQ(slurp(whole), slurp(state));
}

TEST(Compare, NamesTheLargestDisagreementOfPredictedAndExecuted) {
  const Scratch scratch;
  const std::string predicted = scratch.file("p.json"), executed = scratch.file("e.json");
  ASSERT_EQ(run({"--format", "json", "--devices", "2", "--out", executed}).status, 0);
  ASSERT_EQ(tool({"predict", "--model", "digits-mlp", "--system", "local", "--devices", "2", "--batch", "8",
                  "--scheme", "allreduce", "--format", "json", "--out", predicted})
                .status,
            0);
  const ChildResult text = tool({"compare", predicted, executed});
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("A predicted   B executed"));
  EXPECT_THAT(text.out, HasSubstr("backward linear1"));
  EXPECT_THAT(text.out, HasSubstr("Largest disagreement: "));
  const Json document =
      Json::parse(tool({"compare", predicted, executed, "--format", "json"}).out, "compare");
  const Json& row = document.at("rows").items()[0];
  double worst = 0;
  for (const Json& op : row.at("ops").items()) {
    const double apart = std::abs(op.at("a_seconds").as_real() - op.at("b_seconds").as_real());
    worst = std::max(worst, apart);
  }
  const Json& first = row.at("ops").items()[0];
  EXPECT_EQ(worst, std::abs(first.at("a_seconds").as_real() - first.at("b_seconds").as_real()));
  EXPECT_THAT(text.out, HasSubstr("Largest disagreement: " + first.at("op").as_text()));
  // Two engines share one timeline; their rows say whose they are.
  ASSERT_EQ(tool({"plot", predicted, executed, "--kind", "timeline", "--out", scratch.file("")}).status, 0);
  const std::string picture = slurp(scratch.file("p-timeline.svg"));
  EXPECT_THAT(picture, HasSubstr("predicted · worker 0 compute"));
  EXPECT_THAT(picture, HasSubstr("executed · worker 1 compute"));
}

TEST(Plot, DrawsAScatterOfACrossCheck) {
  const Scratch scratch;
  const std::string check = scratch.write("c.json", R"({"schema": "tandem-check-1", "cases": [
    {"model": "lenet5", "scheme": "allreduce", "devices": 1, "metric": "samples_per_second",
     "predicted": 110.0, "executed": 100.0, "error": 0.1},
    {"model": "mlp", "scheme": "allreduce", "devices": 1, "metric": "samples_per_second",
     "predicted": 5000.0, "executed": 5000.0, "error": 0.0},
    {"model": "mlp", "scheme": "async", "devices": 2, "metric": "staleness_mean",
     "predicted": 1.0, "executed": 0, "error": 1.0},
    {"model": "mlp", "scheme": "async", "devices": 2, "metric": "staleness_distance",
     "predicted": 0, "executed": 0.2, "error": 0.2}], "mean_abs_error": 0.05, "max_abs_error": 0.1})");
  const ChildResult r = tool({"plot", check, "--out", scratch.file("")});
  ASSERT_EQ(r.status, 0) << r.err;
  const std::string picture = slurp(scratch.file("c-scatter-samples_per_second.svg"));
  EXPECT_THAT(picture, HasSubstr("mean error 5.0 %, largest 10.0 %"));
  EXPECT_THAT(picture, HasSubstr("lenet5"));
  EXPECT_THAT(slurp(scratch.file("c-scatter-staleness_mean.svg")), HasSubstr("<svg"));
  EXPECT_THAT(r.out, Not(HasSubstr("staleness_distance"))) << "one value, not two";
  const std::string broken =
      scratch.write("b.json", R"({"schema": "tandem-check-1", "cases": [{"metric": "x", "model": "m"}]})");
  EXPECT_EQ(tool({"plot", broken, "--out", scratch.file("")}).status, 3);
  const std::string none = scratch.write("n.json", R"({"schema": "tandem-check-1", "cases": []})");
  EXPECT_EQ(tool({"plot", none, "--out", scratch.file("")}).status, 3);
}

}  // namespace
}  // namespace tandem::tests
