// SPDX-License-Identifier: Apache-2.0
// The JSON Schemas of docs/formats hold for every shipped file and for what the program writes. Schemas are
// draft 2020-12, validated by valijson; it knows draft 7, so they may use only keywords that mean the same in
// both.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>
#include <vector>

#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using Document = nlohmann::json;
namespace fs = std::filesystem;

const fs::path kFormats = fs::path(TANDEM_ROOT) / "docs/formats";

Document parse(const std::string& text) {
  return Document::parse(text, nullptr, true, true);  // with comments, as the files have
}

Document load(const fs::path& path) { return parse(slurp(path.string())); }

std::string schema_path(const std::string& name) { return (kFormats / (name + ".schema.json")).string(); }

/// "" where the document is valid, else the first error and its place.
class Checker {
 public:
  explicit Checker(const std::string& name) {
    const Document document = load(schema_path(name));
    valijson::SchemaParser parser;
    parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(document), schema_);
  }
  std::string error(const Document& document) const {
    valijson::Validator validator;
    valijson::ValidationResults results;
    if (validator.validate(schema_, valijson::adapters::NlohmannJsonAdapter(document), &results)) return "";
    valijson::ValidationResults::Error first;
    if (!results.popError(first)) return "invalid";
    std::string place;
    for (const std::string& step : first.context) place += step;
    return place + ": " + first.description;
  }

 private:
  valijson::Schema schema_;
};

std::vector<std::string> schema_names() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(kFormats)) {
    const std::string file = entry.path().filename().string(), end = ".schema.json";
    if (file.ends_with(end)) out.push_back(file.substr(0, file.size() - end.size()));
  }
  return out;
}

/// Calls `see` with every subschema and its place.
template <typename See>
void walk(const Document& schema, const std::string& place, See&& see) {
  see(schema, place);
  for (const char* key : {"items", "additionalProperties", "not"}) {
    if (schema.contains(key) && schema[key].is_object()) walk(schema[key], place + "/" + key, see);
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    if (!schema.contains(key)) continue;
    for (std::size_t i = 0; i < schema[key].size(); ++i)
      walk(schema[key][i], place + "/" + key + "/" + std::to_string(i), see);
  }
  for (const char* key : {"properties", "patternProperties", "$defs"}) {
    if (!schema.contains(key)) continue;
    for (const auto& [name, sub] : schema[key].items()) walk(sub, place + "/" + key + "/" + name, see);
  }
}

TEST(Schemas, UseKeywordsThatTheValidatorKnows) {
  static const std::set<std::string> known = {"$schema",
                                              "$ref",
                                              "$defs",
                                              "title",
                                              "description",
                                              "default",
                                              "type",
                                              "enum",
                                              "const",
                                              "pattern",
                                              "minLength",
                                              "minimum",
                                              "maximum",
                                              "items",
                                              "minItems",
                                              "maxItems",
                                              "exclusiveMinimum",
                                              "required",
                                              "properties",
                                              "patternProperties",
                                              "not",
                                              "anyOf",
                                              "additionalProperties",
                                              "minProperties"};
  ASSERT_GE(schema_names().size(), 9u);
  for (const std::string& name : schema_names()) {
    const Document root = load(schema_path(name));
    EXPECT_EQ(root.value("$schema", ""), "https://json-schema.org/draft/2020-12/schema") << name;
    walk(root, "#", [&](const Document& schema, const std::string& place) {
      for (const auto& [key, value] : schema.items())
        EXPECT_TRUE(known.count(key) == 1) << name << " " << place << ": keyword " << key;
      if (schema.contains("properties") && schema.contains("type")) {
        EXPECT_TRUE(schema.contains("additionalProperties")) << name << " " << place << ": slips pass";
      }
      if (!schema.contains("$ref")) return;
      const std::string to = schema["$ref"];
      EXPECT_TRUE(to.starts_with("#/") && root.contains(Document::json_pointer(to.substr(1))))
          << name << " " << place << ": " << to;
      // The validator leaves out what stands beside a reference.
      for (const auto& [key, value] : schema.items())
        EXPECT_TRUE(key == "$ref" || key == "description" || key == "default") << name << " " << place;
    });
  }
}

/// Where files of a format are shipped, and one of them.
struct Shipped {
  const char *schema, *folder, *one;
};
constexpr Shipped kShipped[] = {
    {"model", "models/zoo", "resnet50.json"},
    {"model", "models/families", "gpt.json"},
    {"system", "topologies/systems", "dgx1-v100.json"},
    {"device", "topologies/devices", "v100-sxm2-16gb.json"},
    {"scheme-preset", "schemes/presets", "horovod.json"},
    {"recipe", "schemes/recipes", "pytorch.json"},
    {"offers", "plan/offers", "aws.json"},
    {"check", "calibration/data/executed", "xeon-2-cores-quiet.json"},
};

/// Blocks of code in documents of formats that say which schema they follow: "```json system".
TEST(Schemas, HoldForTheExamplesOfTheirDocuments) {
  static const std::regex block("```json ([a-z-]+)\n([^`]+)```");
  int examples = 0;
  for (const auto& entry : fs::directory_iterator(kFormats)) {
    if (entry.path().extension() != ".md") continue;
    const std::string text = slurp(entry.path().string());
    for (std::sregex_iterator it(text.begin(), text.end(), block), end; it != end; ++it, ++examples)
      EXPECT_EQ(Checker((*it)[1]).error(parse((*it)[2])), "") << entry.path() << ": " << (*it)[1];
  }
  EXPECT_GE(examples, 6);
}

/// It comes from the table of options.
TEST(Schemas, ThatOfQuestionsIsWhatTheProgramWrites) {
  EXPECT_EQ(tool({"help", "--format", "schema"}).out, slurp(schema_path("question")));
}

TEST(Schemas, HoldForEveryShippedFile) {
  for (const Shipped& shipped : kShipped) {
    const Checker checker(shipped.schema);
    int files = 0;
    for (const auto& entry : fs::directory_iterator(fs::path(TANDEM_ROOT) / shipped.folder)) {
      if (entry.path().extension() != ".json") continue;
      ++files;
      EXPECT_EQ(checker.error(load(entry.path())), "") << entry.path();
    }
    EXPECT_GT(files, 1) << shipped.folder;
  }
  const fs::path root(TANDEM_ROOT);
  EXPECT_EQ(Checker("profile").error(load(root / "calibration/profiles/stock.json")), "");
  for (const char* model : {"convnet", "small", "stack", "wide"})
    EXPECT_EQ(Checker("model").error(load(root / "calibration/suite" / (std::string(model) + ".json"))), "");
}

/// The document is valid; without a required key, with an unknown one or with another type it is not.
void expect_strict(const std::string& name, const Document& valid, const std::vector<std::string>& required) {
  const Checker checker(name);
  ASSERT_EQ(checker.error(valid), "") << name;
  for (const std::string& key : required) {
    Document without = valid;
    ASSERT_EQ(without.erase(key), 1u) << name << " " << key;
    EXPECT_NE(checker.error(without), "") << name << " without " << key;
  }
  for (const auto& [key, value] : valid.items()) {
    Document other = valid;
    other[key] = value.is_boolean() ? Document(1) : Document(true);
    EXPECT_NE(checker.error(other), "") << name << ": " << key << " of another type";
  }
  Document more = valid;
  more["sorce"] = "a slip";
  EXPECT_NE(checker.error(more), "") << name << " with an unknown key";
  EXPECT_NE(checker.error(Document::array()), "") << name;
}

TEST(Schemas, RefuseWhatIsNotOfTheFormat) {
  for (const Shipped& shipped : kShipped) {
    const Document schema = load(schema_path(shipped.schema));
    const Document valid = load(fs::path(TANDEM_ROOT) / shipped.folder / shipped.one);
    expect_strict(shipped.schema, valid, schema["required"].get<std::vector<std::string>>());
  }
  Document system = load(fs::path(TANDEM_ROOT) / "topologies/systems/dgx1-v100.json");
  system["links"]["pcie"]["bandwidth"] = "15.75";
  EXPECT_NE(Checker("system").error(system), "") << "a quantity without its unit";
}

/// Runs the program and gives the document that it writes.
Document answer(const std::vector<std::string>& words) {
  std::vector<std::string> all = words;
  for (const char* more : {"--format", "json", "--quiet"}) all.emplace_back(more);
  const ChildResult result = tool(all);
  EXPECT_EQ(result.status, 0) << words[0] << ": " << result.err;
  return result.status == 0 ? parse(result.out) : Document();
}

TEST(Schemas, HoldForWhatTheProgramWrites) {
  struct Case {
    const char* schema;
    std::vector<std::string> words;
  };
  const std::vector<Case> cases = {
      {"report", small_predict()},
      {"report", small_predict({"--reproducible", "--anchor", "1000"})},
      {"report",
       {"predict", "--model", "llama2-7b", "--system", "dgx-h100", "--scheme", "pytorch-fsdp", "--batch", "1",
        "--precision", "bf16", "--devices", "1,8"}},  // one device does not hold it
      {"report",
       {"predict", "--model", "lenet5", "--system", "ethernet-cluster", "--set", "nodes=4", "--scheme",
        "parameter-server:mode=async", "--devices", "4", "--iterations", "10"}},
      {"report",
       {"predict", "--model", "vgg16", "--system", "dgx-h100", "--set", "nodes=32", "--devices", "256"}},
      {"report", small_predict({"--set", "faults.gpu1=0.5", "--with", "2 lenet5"})},
      {"report", small_predict({"--mtbf", "1000h", "--set", "nodes=2", "--repair-time", "1h"})},
      {"report",
       {"run", "--model", "digits-cnn", "--data", "digits", "--devices", "1,2", "--iterations", "8"}},
      {"report",
       {"run", "--model", "digits-cnn", "--scheme", "parameter-server:mode=async", "--devices", "2",
        "--iterations", "8", "--reproducible"}},
      {"report", {"run", "--model", "lenet5", "--backend", "null", "--devices", "2", "--iterations", "8"}},
      {"advice", {"advise", "--model", "lenet5", "--system", "dgx1-v100", "--devices", "2"}},
      {"advice",
       {"advise", "--model", "lenet5", "--system", "dgx1-v100", "--devices", "1", "--schemes",
        "parameter-server:mode=async,hybrid:tensor=7"}},
      {"plan",
       {"plan", "--model", "resnet50", "--epochs", "90", "--systems", "dgx1-v100,dgx-a100", "--global-batch",
        "256", "--today", "2026-11-29", "--deadline", "30d", "--grid", "France"}},
      {"plan",
       {"plan", "--model", "lenet5", "--samples", "1e6", "--systems", "v100-pcie-8x:1,3090-pcie:2",
        "--global-batch", "64", "--today", "2026-11-29", "--buy", "--no-failures"}},
      {"collective", {"collective", "--system", "dgx-a100", "--sizes", "1KiB..1MiB"}},
      {"collective",
       {"collective", "--system", "ethernet-cluster", "--set", "nodes=2", "--log",
        std::string(TANDEM_ROOT) + "/tests/fuzz/corpus/nccl_tests/table.txt"}},
      {"collective",
       {"collective", "--system", "dgx-a100", "--calibrate", "--log",
        std::string(TANDEM_ROOT) + "/tests/fuzz/corpus/nccl_tests/runs.txt"}},
      {"race",
       {"race", "--devices", "2", "--schemes", "allreduce,local-sgd:every=4", "--profile", "stock", "--seeds",
        "2", "--rate-runs", "1", "--target-loss", "2.2", "--most-samples", "4000"}},
      {"system-listing", {"show", "system", "dgx1-v100"}},
      {"system-listing", {"show", "system", "tpu-v3-pod"}},
      {"kernels", {"show", "profile", "h200"}},
      {"kernels", {"show", "profile", std::string(TANDEM_ROOT) + "/tests/sim/machine_profile.json"}},
  };
  for (const Case& c : cases) {
    const Document document = answer(c.words);
    EXPECT_EQ(Checker(c.schema).error(document), "") << testing::PrintToString(c.words);
  }
  const ChildResult refused = tool({"predict", "--model", "llama2-7b", "--batch", "1", "--system",
                                    "v100-pcie-8x", "--devices", "1", "--format", "json", "--quiet"});
  const Document document = parse(refused.out);
  EXPECT_EQ(Checker("report").error(document), "");
  EXPECT_FALSE(document["reports"][0]["remedies"].empty()) << refused.err;
  Document reports = answer(small_predict());
  expect_strict("report", reports, {"schema", "reports"});
  Document& report = reports["reports"][0];
  const Document copy = report;
  for (const auto& [key, kept] : copy.items()) {
    report[key] = "none of these";
    const bool text = kept.is_string() && key != "engine";
    EXPECT_EQ(Checker("report").error(reports).empty(), text) << key;
    report[key] = kept;
  }
  report["fits"] = false;
  EXPECT_NE(Checker("report").error(reports), "") << "results of a model that does not fit";
}

}  // namespace
}  // namespace tandem::tests
