// SPDX-License-Identifier: Apache-2.0
// Every kind of bad input: one line on stderr that names the fault, the right exit code, nothing on stdout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

constexpr int kUsage = 2, kInput = 3;

void expect_refusal(const ChildResult& result, int code, const std::string& says) {
  EXPECT_EQ(result.status, code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr(says));
  EXPECT_EQ(result.err.rfind("tandem: ", 0), 0u) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_LT(result.err.size(), 1000u);
}

struct BadWords {
  const char* name;
  std::vector<std::string> words;
  int code;
  const char* says;
};
class BadCommandLine : public ::testing::TestWithParam<BadWords> {};

TEST_P(BadCommandLine, IsRefused) {
  expect_refusal(tool(GetParam().words), GetParam().code, GetParam().says);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadCommandLine,
    ::testing::Values(
        BadWords{"verb", {"predikt"}, kUsage, "Did you mean predict?"},
        BadWords{"measure_in_bf16_on_processors",
                 {"measure", "--quick", "--precision", "fp32,bf16"},
                 kUsage,
                 "--precision: backend cpu does not compute in bf16; it does in fp32"},
        BadWords{"run_in_fp8_on_processors",
                 {"run", "--model", "lenet5", "--precision", "fp8"},
                 kUsage,
                 "--precision: backend cpu does not compute in fp8; it does in fp32"},
        BadWords{"run_without_updates",
                 {"run", "--model", "lenet5", "--optimizer", "none"},
                 kUsage,
                 "--optimizer: a run updates parameters"},
        BadWords{"measure_in_no_precision",
                 {"measure", "--precision", "fp32,"},
                 kUsage,
                 "--precision: no precision \"\""},
        BadWords{"check_in_two_precisions",
                 {"check", "--backend", "null", "--precision", "fp32,bf16"},
                 kUsage,
                 "--precision: no precision \"fp32,bf16\""},
        BadWords{"sweep_without_a_system",
                 {"sweep", "--model", "lenet5", "--out", "x.sqlite"},
                 kUsage,
                 "--system"},
        BadWords{"plan_without_a_target",
                 {"plan", "--model", "lenet5", "--systems", "dgx1-v100"},
                 kUsage,
                 "needs a target"},
        BadWords{"plan_of_unlike_target",
                 {"plan", "--model", "lenet5", "--systems", "dgx1-v100", "--target", "steps=5"},
                 kUsage,
                 "\"steps=5\" is none of"},
        BadWords{
            "plan_with_nodes_set",
            {"plan", "--model", "lenet5", "--systems", "dgx1-v100", "--samples", "1e6", "--set", "nodes=4"},
            kUsage,
            "--nodes"},
        BadWords{
            "plan_with_a_past_deadline",
            {"plan", "--model", "lenet5", "--systems", "dgx1-v100", "--samples", "1e6", "--deadline", "-3d"},
            kUsage,
            "--deadline"},
        BadWords{"plan_with_an_unknown_scheme",
                 {"plan", "--model", "lenet5", "--systems", "dgx1-v100", "--samples", "1e6", "--schemes",
                  "allreduc"},
                 kInput,
                 "--schemes: no scheme \"allreduc\". Did you mean allreduce"},
        BadWords{
            "plan_in_fp8_without_arithmetic",
            {"plan", "--model", "lenet5", "--systems", "dgx1-v100", "--samples", "1e6", "--precision", "fp8"},
            kInput,
            "has no fp8 arithmetic; it has fp32, fp16"},
        BadWords{"advise_in_fp8_without_arithmetic",
                 {"advise", "--model", "lenet5", "--system", "dgx1-v100", "--precision", "fp8"},
                 kInput,
                 "has no fp8 arithmetic; it has fp32, fp16"},
        BadWords{
            "plan_of_epochs_of_unknown_length",
            {"plan", "--model", "gpt2", "--systems", "dgx1-v100", "--epochs", "1", "--global-batch", "8"},
            kInput,
            "give --epoch-samples"},
        BadWords{"plan_with_a_nameless_picture",
                 {"plan", "--model", "lenet5", "--systems", "dgx1-v100", "--samples", "1e6", "--plot", ""},
                 kInput,
                 "pictures need a name"},
        BadWords{"plan_for_euros",
                 {"plan", "--model", "lenet5", "--systems", "dgx1-v100", "--samples", "1e6", "--budget",
                  "8000EUR"},
                 kUsage,
                 "no sum in US dollars"},
        BadWords{
            "plan_for_less_than_nothing",
            {"plan", "--model", "lenet5", "--systems", "dgx1-v100", "--samples", "1e6", "--budget", "-1USD"},
            kUsage,
            "--budget"},
        BadWords{"plan_with_power_in_joules",
                 {"plan", "--model", "lenet5", "--systems", "dgx1-v100", "--samples", "1e6", "--power", "5J"},
                 kUsage,
                 "is not a power"},
        BadWords{
            "plan_with_nodes_backwards",
            {"plan", "--model", "lenet5", "--systems", "dgx1-v100", "--samples", "1e6", "--nodes", "8..4"},
            kUsage,
            "4..8"},
        BadWords{
            "advise_of_two_batches",
            {"advise", "--model", "lenet5", "--system", "dgx1-v100", "--batch", "8", "--global-batch", "8"},
            kUsage,
            "use one of them"},
        BadWords{"advise_with_an_unknown_scheme",
                 {"advise", "--model", "lenet5", "--system", "dgx1-v100", "--schemes", "allredcue"},
                 kInput,
                 "Did you mean allreduce"},
        BadWords{"advise_in_no_precision",
                 {"advise", "--model", "lenet5", "--system", "dgx1-v100", "--precision", "fp32,fp31"},
                 kUsage,
                 "no precision \"fp31\""},
        BadWords{"advise_on_devices_that_lack",
                 {"advise", "--model", "lenet5", "--system", "dgx1-v100", "--devices", "9"},
                 kInput,
                 "dgx1-v100"},
        BadWords{"advise_of_what_fits_nowhere",
                 {"advise", "--model", "gpt3-175b", "--system", "dgx1-v100", "--batch", "1", "--offload",
                  "off", "--schemes", "allreduce"},
                 kInput,
                 "needs least takes"},
        BadWords{"option", small_predict({"--bach", "3"}), kUsage, "Did you mean --batch?"},
        BadWords{"option_twice", small_predict({"--batch", "3", "--batch", "4"}), kUsage, "twice"},
        BadWords{"option_without_value", {"predict", "--model"}, kUsage, "model"},
        BadWords{"no_model", {"predict", "--system", "dgx1-v100"}, kUsage, "--model is missing"},
        BadWords{"no_system", {"predict", "--model", "lenet5"}, kUsage, "--system is missing"},
        BadWords{"word_too_many", small_predict({"word"}), kUsage, "one word too many"},
        BadWords{"word_missing", {"show", "model"}, kUsage, "a word is missing"},
        BadWords{"help_of_nothing", {"help", "predikt"}, kUsage, "Did you mean predict?"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Values, BadCommandLine,
    ::testing::Values(
        BadWords{"model",
                 {"predict", "--model", "vgg17", "--system", "dgx1-v100"},
                 kInput,
                 "Did you mean vgg16 or vgg19?"},
        BadWords{"model_file",
                 {"predict", "--model", "no/such.json", "--system", "dgx1-v100"},
                 kInput,
                 "no/such.json"},
        BadWords{"model_folder", {"predict", "--model", "./", "--system", "dgx1-v100"}, kInput, "folder"},
        BadWords{"model_key",
                 {"predict", "--model", "lenet5:clases=3", "--system", "dgx1-v100"},
                 kInput,
                 "classes"},
        BadWords{"system", {"predict", "--model", "lenet5", "--system", "dgx1-v101"}, kInput, "dgx1-v100"},
        BadWords{"scheme", small_predict({"--scheme", "allredcue"}), kInput, "Did you mean allreduce"},
        BadWords{"scheme_option", small_predict({"--scheme", "allreduce:buckets=1MiB"}), kInput, "bucket"},
        BadWords{"scheme_unit", small_predict({"--scheme", "allreduce:bucket=25"}), kInput, "unit"},
        BadWords{"scheme_shape", small_predict({"--scheme", "allreduce:bucket"}), kInput, "key=value"},
        BadWords{"precision", small_predict({"--precision", "fp31"}), kUsage, "fp32"},
        BadWords{"optimizer", small_predict({"--optimizer", "adamm"}), kUsage, "adam"},
        BadWords{"format", small_predict({"--format", "jsn"}), kUsage, "Did you mean json?"},
        BadWords{"input", small_predict({"--input", "fake"}), kUsage, "real, synthetic"},
        BadWords{"batch_zero", small_predict({"--batch", "0"}), kUsage, "outside 1"},
        BadWords{"batch_negative", small_predict({"--batch", "-3"}), kUsage, "outside 1"},
        BadWords{"batch_absurd", small_predict({"--batch", "99999999999999999999"}), kUsage, "outside 1"},
        BadWords{"batch_word", small_predict({"--batch", "many"}), kUsage, "not a whole number"},
        BadWords{"batch_split_word", small_predict({"--batch-split", "sped"}), kUsage,
                 "neither even nor speed"},
        BadWords{"batch_split_none", small_predict({"--batch-split", "8,0"}), kUsage, "outside 1"},
        BadWords{"batch_split_gap", small_predict({"--batch-split", "8,,8"}), kUsage, "not a whole number"},
        BadWords{"batch_split_odd",
                 {"run", "--model", "lenet5", "--batch-split", "8,7"},
                 kUsage,
                 "15 samples for 2 devices; their mean must be a whole number"},
        BadWords{"batch_split_other_mean",
                 {"run", "--model", "lenet5", "--batch", "32", "--batch-split", "48,17"},
                 kUsage,
                 "their mean must be the batch, 32"},
        BadWords{"batch_split_length",
                 {"run", "--model", "lenet5", "--devices", "3", "--batch-split", "8,8"},
                 kUsage,
                 "2 batches for 3 devices, which need one each"},
        BadWords{
            "batch_split_of_stages",
            {"run", "--model", "transformer-tiny", "--scheme", "tensor-parallel", "--batch-split", "3,1"},
            kInput,
            "replicas have equal batches"},
        BadWords{"batch_split_of_averages",
                 {"run", "--model", "lenet5", "--scheme", "local-sgd", "--batch-split", "speed"},
                 kInput,
                 "trained on equal batches"},
        BadWords{"devices_zero",
                 {"predict", "--model", "lenet5", "--system", "dgx1-v100", "--devices", "0"},
                 kUsage,
                 "outside 1"},
        BadWords{"devices_list",
                 {"predict", "--model", "lenet5", "--system", "dgx1-v100", "--devices", "1,,2"},
                 kUsage,
                 "not a whole number"},
        BadWords{"devices_lacking",
                 {"predict", "--model", "lenet5", "--system", "dgx1-v100", "--devices", "9"},
                 kInput,
                 "8"},
        BadWords{"seed", small_predict({"--seed", "-1"}), kUsage, "outside 0"},
        BadWords{"iterations", small_predict({"--iterations", "1e9"}), kUsage, "not a whole number"},
        BadWords{"anchor", small_predict({"--anchor", "fast"}), kUsage, "not a number"},
        BadWords{"anchor_nan", small_predict({"--anchor", "nan"}), kUsage, "not a number"},
        BadWords{"anchor_negative", small_predict({"--anchor", "-5"}), kUsage, "outside"},
        BadWords{"anchor_devices", small_predict({"--anchor", "5@0"}), kUsage, "outside 1"},
        BadWords{"jitter", small_predict({"--jitter", "inf"}), kUsage, "outside 0"},
        BadWords{"stragglers_key", small_predict({"--stragglers", "share=0.1"}), kUsage, "lacks slow="},
        BadWords{"stragglers_name", small_predict({"--stragglers", "share=0.1,slow=2,slw=3"}), kUsage,
                 "slow"},
        BadWords{"stragglers_share", small_predict({"--stragglers", "share=2,slow=2"}), kUsage, "outside 0"},
        BadWords{"pauses_unit", small_predict({"--pauses", "every=60,for=1s"}), kUsage,
                 "the unit is missing"},
        BadWords{"pauses_never", small_predict({"--pauses", "every=0s,for=1s"}), kUsage, "above 0"},
        BadWords{"throttle_shape", {"run", "--model", "lenet5", "--throttle", "2"}, kUsage, "worker=factor"},
        BadWords{"throttle_worker",
                 {"run", "--model", "lenet5", "--devices", "2", "--throttle", "2=2"},
                 kUsage,
                 "outside 0 .. 1"},
        BadWords{"throttle_factor",
                 {"run", "--model", "lenet5", "--devices", "2", "--throttle", "1=0.5"},
                 kUsage,
                 "outside 1"},
        BadWords{"mtbf_unit", small_predict({"--mtbf", "50000"}), kUsage, "the unit is missing"},
        BadWords{"mtbf_zero", small_predict({"--mtbf", "0h"}), kUsage, "above 0"},
        BadWords{"mtbf_missing", small_predict({"--spares", "1"}), kUsage, "--mtbf 50000h"},
        BadWords{"repair_missing", small_predict({"--mtbf", "9h", "--elastic"}), kUsage, "--repair-time"},
        BadWords{"checkpoint_every", small_predict({"--mtbf", "9h", "--checkpoint-every", "0"}), kUsage,
                 "outside 1"},
        BadWords{"mtbf_elasticities", small_predict({"--mtbf", "9h", "--elasticities"}), kUsage, "apart"},
        BadWords{"no_storage", small_predict({"--mtbf", "9h", "--set", "host.local_storage=0B/s"}), kInput,
                 "--checkpoint-cost"},
        BadWords{"set_shape", small_predict({"--set", "nodes"}), kUsage, "path=value"},
        BadWords{"set_key", small_predict({"--set", "links.pci.bandwidth=1GB/s"}), kInput, "pcie"},
        BadWords{"set_unit", small_predict({"--set", "links.pcie.bandwidth=32"}), kInput, "unit"},
        BadWords{"set_nodes", small_predict({"--set", "nodes=-1"}), kInput, "nodes"},
        BadWords{"set_nodes_absurd", small_predict({"--set", "nodes=99999999999999999999"}), kInput, "nodes"},
        BadWords{
            "too_large",
            {"predict", "--model", "gpt3-175b", "--system", "dgx1-v100", "--devices", "1", "--batch", "1"},
            kInput,
            "fit"},
        BadWords{
            "largest_batch",
            {"predict", "--model", "resnet50", "--system", "dgx1-v100", "--devices", "1", "--batch", "4096"},
            kInput,
            "the largest batch that fits is"},
        BadWords{
            "control_characters", {"predict", "--model", "a\x1b[31m\nb", "--system", "x"}, kInput, "\\x1b"},
        BadWords{"list_kind", {"list", "modles"}, kUsage, "models"},
        BadWords{"show_kind", {"show", "modle", "x"}, kUsage, "model"},
        BadWords{"show_device", {"show", "device", "v101"}, kInput, "no device"},
        BadWords{"show_layer", {"show", "layer", "convv"}, kInput, "conv"},
        BadWords{"show_collective", {"show", "collective", "rng"}, kInput, "ring"},
        BadWords{"show_schedule", {"show", "schedule", "1f2b"}, kInput, "1f1b"},
        BadWords{"show_profile", {"show", "profile", "h201"}, kInput, "Did you mean h200? Measured: h200"},
        BadWords{"show_profile_of_a_system",
                 {"show", "profile", "hgx-h200"},
                 kInput,
                 "\"hgx-h200\" is a described system. Measured: h200"},
        BadWords{"show_profile_of_a_device", {"show", "profile", "h200-sxm"}, kInput, "a described device"},
        BadWords{"show_profile_of_curves", {"show", "profile", "stock"}, kInput, "without measured kernels"},
        BadWords{"show_profile_of_another_file",
                 {"show", "profile", std::string(TANDEM_ROOT) + "/calibration/profiles/links.json"},
                 kInput,
                 "is no profile of a measured machine"},
        BadWords{"show_profile_precision",
                 {"show", "profile", "h200", "--precision", "fp8"},
                 kInput,
                 "not in fp8: tandem measure --precision fp8"},
        BadWords{"show_profile_no_precision",
                 {"show", "profile", "h200", "--precision", "bf61"},
                 kUsage,
                 "no precision \"bf61\"; valid: fp32, tf32"},
        BadWords{
            "show_profile_format", {"show", "profile", "h200", "--format", "dot"}, kUsage, "text or json"},
        BadWords{"schedule_shape",
                 {"show", "schedule", "interleaved", "--microbatches", "9"},
                 kInput,
                 "in 2 rounds, which do not divide them"},
        BadWords{"schedule_size",
                 {"show", "schedule", "gpipe", "--stages", "1024", "--microbatches", "4096"},
                 kUsage,
                 "at most 1000000"},
        BadWords{
            "show_format", {"show", "device", "v100-sxm2-16gb", "--format", "yaml"}, kUsage, "text, json"},
        BadWords{"collective_kind",
                 {"collective", "--system", "dgx1-v100", "--kind", "all-reduse"},
                 kUsage,
                 "all-reduce"},
        BadWords{"collective_size", {"collective", "--system", "dgx1-v100", "--from", "8"}, kUsage, "unit"},
        BadWords{"collective_order",
                 {"collective", "--system", "dgx1-v100", "--from", "8KiB", "--to", "1KiB"},
                 kUsage,
                 "smaller"},
        BadWords{"collective_algorithm",
                 {"collective", "--system", "dgx1-v100", "--algorithm", "rinq"},
                 kUsage,
                 "ring"},
        BadWords{"export_kind", {"export", "chrom-trace", "x"}, kUsage, "chrome-trace"},
        BadWords{"report_missing", {"compare", "no-a.json", "no-b.json"}, kInput, "no-a.json"},
        BadWords{"compare_of_neither", {"compare", "x", "y"}, kInput, "systems are compared for a model"},
        BadWords{
            "compare_of_systems", {"compare", "DGX1-V100", "dgx-a100"}, kUsage, "is a system, not a report"},
        BadWords{"text_as_picture", small_predict({"--out", "/tmp/x.png"}), kUsage, "would hold text"},
        BadWords{"page_as_picture",
                 {"show", "system", "dgx1-v100", "--out", "/tmp/x.pdf"},
                 kUsage,
                 "would hold text"},
        BadWords{"out_folder_of_long_work", {"validate", "--out", "/no/such/folder/x"}, kInput, "no folder"},
        BadWords{"out_folder", small_predict({"--out", "/no/such/folder/x"}), kInput, "cannot write"}),
    [](const auto& info) { return info.param.name; });

struct BadFile {
  const char* name;
  std::string content;
  const char* says;
};
class BadJson : public ::testing::TestWithParam<BadFile> {};

/// The same text as model, as system and as report: each reader refuses it and names the file.
TEST_P(BadJson, IsRefusedByEveryReader) {
  const Scratch scratch;
  const std::string path = scratch.write("bad.json", GetParam().content);
  const std::vector<std::vector<std::string>> commands = {
      {"predict", "--model", path, "--system", "dgx1-v100"},
      {"show", "model", path},
      {"show", "system", path},
      {"show", "device", path},
      {"compare", path, path},
      {"plot", path, "--out", scratch.file("pictures")},
      {"export", "chrome-trace", path}};
  for (const auto& words : commands) {
    SCOPED_TRACE(words[0] + " " + words[1]);
    const ChildResult result = tool(words);
    expect_refusal(result, kInput, GetParam().says);
    EXPECT_THAT(result.err, HasSubstr("bad.json"));
  }
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

INSTANTIATE_TEST_SUITE_P(
    All, BadJson,
    ::testing::Values(BadFile{"empty", "", "bad.json"}, BadFile{"truncated", "{\"name\": \"x\", ", ":1:"},
                      BadFile{"half_string", "{\"name\": \"x", ":1:"},
                      BadFile{"binary", std::string("\x00\xff\xfe\x7f", 4), "bad.json"},
                      BadFile{"deep", repeated("[", 100000), "bad.json"},
                      BadFile{"deep_objects", repeated("{\"a\":", 5000), "bad.json"},
                      BadFile{"duplicate", "{\"name\": \"x\",\n \"name\": \"y\"}", ":2:"},
                      BadFile{"nan", "{\"name\": NaN}", ":1:"},
                      BadFile{"huge_number", "{\"name\": 1e999}", "bad.json"},
                      BadFile{"wrong_kind", "[1, 2, 3]", "bad.json"},
                      BadFile{"unknown_key", "{\"nmae\": \"x\"}", "bad.json"},
                      BadFile{"null", "null", "bad.json"},
                      BadFile{"not_utf8", "{\"name\": \"\xc3\x28\"}", "bad.json"}),
    [](const auto& info) { return info.param.name; });

TEST(BadFiles, LargeFilesAreRefusedQuickly) {
  const Scratch scratch;
  const std::string path = scratch.write("bad.json", "{\"name\": \"" + std::string(17 << 20, 'x') + "\"}");
  expect_refusal(tool({"show", "system", path}), kInput, "larger than");
}

TEST(BadFiles, ManyValuesAreRefused) {
  const Scratch scratch;
  const std::string path = scratch.write("bad.json", "{\"layers\": [" + repeated("1,", 2000000) + "1]}");
  expect_refusal(tool({"show", "model", path}), kInput, "bad.json");
}

TEST(BadFiles, AbsurdReportNumbersAreRefused) {
  const Scratch scratch;
  for (const char* field : {"\"devices\": -1", "\"samples_per_second\": -5",
                            "\"devices\": 99999999999999999999", "\"engine\": 7"}) {
    SCOPED_TRACE(field);
    std::string text = R"({"schema": "tandem-reports-2", "reports": [{"engine": "sim", "devices": 1, )"
                       R"("samples_per_second": 1.0}]})";
    const std::string key = std::string(field).substr(0, std::string(field).find(':'));
    const auto at = text.find(key);
    text.replace(at, text.find_first_of(",}", at) - at, field);
    const std::string path = scratch.write("bad.json", text);
    expect_refusal(tool({"compare", path, path}), kInput, "bad.json");
  }
}

TEST(BadFiles, ReportsOfVersionOneAreNamedAsSuch) {
  const Scratch scratch;
  for (const char* schema : {"tandem-report-1", "tandem-reports-1"}) {
    const std::string path = scratch.write("old.json", std::string(R"({"schema": ")") + schema + "\"}");
    expect_refusal(tool({"plot", path}), kInput, "version 0.1");
    expect_refusal(tool({"export", "chrome-trace", path}), kInput, "tandem-reports-2");
  }
}

TEST(BadFiles, LogWithoutRowsIsRefused) {
  const Scratch scratch;
  const std::string path = scratch.write("log.txt", "# nothing\n1 2 3\n");
  expect_refusal(tool({"collective", "--system", "dgx1-v100", "--against", path}), kInput, "no row");
}

/// Figures that a computation would take beyond what numbers hold.
TEST(BadFiles, OverflowingFiguresAreRefusedOrNull) {
  const Scratch scratch;
  const std::string good = scratch.file("good.json"), late = scratch.file("late.json"),
                    fast = scratch.file("fast.json"), slow = scratch.file("slow.json");
  ASSERT_EQ(tool({"predict", "--model", "lenet5", "--system", "dgx1-v100", "--devices", "2", "--format",
                  "json", "--out", good})
                .status,
            0);
  const auto changed = [&](const std::string& to, const std::string& key, const std::string& value) {
    ASSERT_EQ(
        shell("sed -E 's/\"" + key + "\": [0-9.e+-]+/\"" + key + "\": " + value + "/' " + good + " > " + to)
            .status,
        0);
  };
  changed(late, "end", "1e300");
  expect_refusal(tool({"export", "chrome-trace", late}), kInput, "late.json:");
  changed(fast, "samples_per_second", "1e300");
  changed(slow, "samples_per_second", "1e-300");
  const ChildResult compared = tool({"compare", slow, fast, "--format", "json"});
  EXPECT_EQ(compared.status, 0) << compared.err;
  EXPECT_THAT(compared.out, HasSubstr("\"samples_per_second_ratio\": null"));
  const std::string table = scratch.file("bandwidth.txt");
  ASSERT_EQ(
      shell("sed 's/7755.5/1e308/' " TANDEM_ROOT "/tests/fuzz/corpus/link_tests/bandwidth.txt > " + table)
          .status,
      0);
  expect_refusal(tool({"import", table}), kInput, "bandwidth.txt:");
}

}  // namespace
}  // namespace tandem::tests
