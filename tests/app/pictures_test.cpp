// SPDX-License-Identifier: Apache-2.0
// Pictures come out as PNG and SVG, and nothing in a report can make gnuplot do anything else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/child.h"
#include "base/error.h"
#include "pictures/draw.h"
#include "pictures/gnuplot.h"
#include "pictures/system_drawing.h"
#include "tests/app/svg.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

using ::testing::Not;

bool is_png(const std::string& bytes) { return bytes.rfind("\x89PNG", 0) == 0; }

/// Predicts into a report file and draws it; the pictures are `base` of the scratch folder and "-KIND.svg".
void draw(const Scratch& scratch, const std::string& name, std::vector<std::string> question,
          const std::string& kind = "") {
  const std::string report = scratch.file(name + ".json");
  question.insert(question.begin(), "predict");
  for (const char* word : {"--quiet", "--format", "json", "--out"}) question.emplace_back(word);
  question.push_back(report);
  const ChildResult predicted = tool(question);
  ASSERT_EQ(predicted.status, 0) << predicted.err;
  std::vector<std::string> words = {"plot", report, "--out", scratch.file("p")};
  if (!kind.empty()) words.insert(words.end(), {"--kind", kind});
  const ChildResult drawn = tool(words);
  ASSERT_EQ(drawn.status, 0) << drawn.err;
}

TEST(Plot, DrawsSoundPicturesOfEightAndOf256Devices) {
  const Scratch scratch;
  draw(scratch, "async",
       {"--model", "vgg16", "--system", "dgx1-v100", "--devices", "1,2,8", "--scheme",
        "parameter-server:mode=async"});
  draw(scratch, "pod",
       {"--model", "resnet50", "--system", "h100-superpod", "--devices", "8,256", "--scheme", "pytorch-ddp"});
  draw(scratch, "small", {"--model", "lenet5", "--system", "local", "--devices", "1,2"});
  for (const char* name : {"async", "pod", "small"}) {
    for (const char* kind : {"scaling", "breakdown", "timeline", "links"})
      expect_sound(scratch.file(std::string("p/") + name + "-" + kind + ".svg"));
  }
  expect_sound(scratch.file("p/async-staleness.svg"));
  const std::string first = slurp(scratch.file("p/pod-links.svg"));
  ASSERT_EQ(tool({"plot", scratch.file("pod.json"), "--out", scratch.file("p")}).status, 0);
  EXPECT_EQ(slurp(scratch.file("p/pod-links.svg")), first) << "the same report gives the same bytes";
}

TEST(Plot, RefusesAPictureForAFolder) {
  const Scratch scratch;
  ASSERT_EQ(tool({"predict", "--model", "lenet5", "--system", "local", "--devices", "1", "--quiet",
                  "--format", "json", "--out", scratch.file("r.json")})
                .status,
            0);
  for (const char* name : {"speed.svg", "speed.png"}) {
    const ChildResult refused = tool({"plot", scratch.file("r.json"), "--out", scratch.file(name)});
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, ::testing::HasSubstr("looks like a picture"));
    EXPECT_FALSE(std::filesystem::exists(scratch.file(name)));
  }
}

TEST(Plot, TimelineSaysWhoseItIsAndMergesWhatIsTooThin) {
  const Scratch scratch;
  draw(scratch, "r",
       {"--model", "resnet50", "--system", "dgx1-v100", "--devices", "8", "--scheme", "pytorch-ddp"},
       "timeline");
  const std::string svg = slurp(scratch.file("p/r-timeline.svg"));
  EXPECT_THAT(svg, HasSubstr(">workers 0 to 2 of 8</text>"));
  const std::vector<SvgBox> boxes = svg_boxes(svg);
  int rows = 0;
  for (std::size_t i = 1; i < boxes.size(); ++i) {
    const SvgBox &a = boxes[i - 1], &b = boxes[i];
    rows += a.top != b.top ? 1 : 0;
    if (a.top != b.top || a.fill != b.fill || b.left - a.right > 1) continue;
    EXPECT_FALSE(a.width() < 2 && b.width() < 2) << a.left << " " << b.left;
  }
  EXPECT_GE(rows, 5);
}

TEST(Plot, LabelsOfATimelineLieWithinTheirBoxes) {
  const Scratch scratch;
  draw(scratch, "r",
       {"--model", "vgg16", "--system", "dgx1-v100", "--devices", "8", "--scheme",
        "parameter-server:mode=async"},
       "timeline");
  const std::string svg = slurp(scratch.file("p/r-timeline.svg"));
  EXPECT_THAT(svg, HasSubstr("of the servers what these asked for"));
  const std::vector<SvgBox> boxes = svg_boxes(svg);
  int labels = 0;
  for (const SvgBox& label : svg_texts(svg)) {
    if (label.fill != "rgb(255,255,255)") continue;
    ++labels;
    EXPECT_TRUE(std::any_of(boxes.begin(), boxes.end(),
                            [&](const SvgBox& b) {
                              return b.left <= label.left && label.right <= b.right && b.top <= label.top &&
                                     label.bottom <= b.bottom;
                            }))
        << label.text << " is not within its box";
  }
  EXPECT_GE(labels, 4);
}

TEST(Plot, TimelineShowsEveryStageWithItsMicroBatches) {
  const Scratch scratch;
  const auto pipeline = [&](const std::string& name, const std::string& devices, const std::string& scheme) {
    draw(scratch, name,
         {"--model", "gpt3-1.3b", "--system", "h100-superpod", "--devices", devices, "--precision", "bf16",
          "--batch", "1", "--scheme", scheme},
         "timeline");
    expect_sound(scratch.file("p/" + name + "-timeline.svg"));
    return slurp(scratch.file("p/" + name + "-timeline.svg"));
  };
  const std::string four = pipeline("four", "4", "hybrid:pipeline=4,microbatches=8");
  EXPECT_THAT(four, HasSubstr(">the first device of each of 4 stages; numbers are micro-batches</text>"));
  EXPECT_THAT(four, HasSubstr("1 sample per micro-batch, 4 devices"));
  EXPECT_THAT(four, HasSubstr(">stage 3 compute</text>"));
  int sevens = 0;
  for (const SvgBox& text : svg_texts(four)) sevens += text.text == "7" ? 1 : 0;
  EXPECT_EQ(sevens, 8) << "forward and backward of the last micro-batch on each stage";
  const std::string many = pipeline("many", "16", "hybrid:pipeline=16,microbatches=64");
  EXPECT_THAT(many, HasSubstr(">stage 15 compute</text>"));
  EXPECT_THAT(many, HasSubstr("each of 16 stages, what it computes"));
}

TEST(Plot, MapOfLinksCountsAllLinksOf256Devices) {
  const Scratch scratch;
  draw(scratch, "r", {"--model", "resnet50", "--system", "h100-superpod", "--devices", "256"}, "links");
  const Json report = last_report(slurp(scratch.file("r.json")));
  EXPECT_EQ(report.at("links").items().size(), 400u);
  int64_t nvlink = 0, ports = 0;
  for (const Json& g : report.at("link_groups").items()) {
    const std::string name = g.at("name").as_text();
    if (name.find("nvswitch") != std::string::npos) nvlink += g.at("links").as_int(1);
    if (name.find("port") != std::string::npos) ports += g.at("links").as_int(1);
  }
  EXPECT_EQ(nvlink, 32 * 8 * 2);
  EXPECT_EQ(ports, 32 * 8 * 2);
  const std::string svg = slurp(scratch.file("p/r-links.svg"));
  EXPECT_THAT(svg, HasSubstr("nvlink: 512 links"));
  EXPECT_THAT(svg, HasSubstr("network: 512 links"));
}

/// The number in front of `what`.
int64_t number_before(const std::string& svg, const std::string& what) {
  const auto at = svg.find(what);
  if (at == std::string::npos) return 0;
  const auto from = svg.rfind(' ', at - 1);
  return std::stoll(svg.substr(from + 1, at - from - 1));
}

/// Where a collective crosses many links, those of the drawn node are all accounted for: network and cards.
TEST(Plot, MapOfLinksColoursTheNetworkOfSplitModels) {
  const Scratch scratch;
  draw(scratch, "r",
       {"--model", "gpt3-13b", "--system", "mi300x-8x", "--set", "nodes=8", "--devices", "64", "--precision",
        "bf16", "--batch", "1", "--scheme", "hybrid:tensor=4,sequence=on,sharding=3,microbatches=8"},
       "links");
  const std::string svg = slurp(scratch.file("p/r-links.svg"));
  EXPECT_THAT(svg, HasSubstr("network: 16 links")) << "8 ports of a node, each way";
  EXPECT_THAT(svg, HasSubstr("pcie: 32 links")) << "8 cards and 8 ports, each way";
}

TEST(Plot, MapOfLinksTellsKindsOfNodesApart) {
  const Scratch scratch;
  const std::vector<std::string> place = {"--model", "resnet50", "--system",  "v100-p100-pcie-16x",
                                          "--place", "0,1,2,3",  "--devices", "8"};
  draw(scratch, "r", place, "links");
  const std::string svg = slurp(scratch.file("p/r-links.svg"));
  expect_sound(scratch.file("p/r-links.svg"));
  EXPECT_THAT(svg, HasSubstr("network: 4 links")) << "a port of each node, each way";
  EXPECT_THAT(svg, HasSubstr("pcie: 28 links")) << "4 cards, 2 switches and a port of each node, each way";
  EXPECT_THAT(svg, HasSubstr("a node of each kind is drawn"));
  // Of many nodes, kind by kind.
  draw(scratch, "many",
       {"--model", "resnet50", "--system", "v100-p100-pcie-16x", "--set", "nodes=16", "--set",
        "node_kinds.p100.nodes=8", "--devices", "128"},
       "links");
  const std::string many = slurp(scratch.file("p/many-links.svg"));
  EXPECT_GE(number_before(many, " links, mean"), 16);
  EXPECT_THAT(many, HasSubstr("pcie: "));
}

TEST(Plot, TimelineNamesRecomputationAndOuterStepsAsWhatTheyAre) {
  const Scratch scratch;
  const auto timeline = [&](const std::string& name, std::vector<std::string> question) {
    draw(scratch, name, std::move(question), "timeline");
    expect_sound(scratch.file("p/" + name + "-timeline.svg"));
    return slurp(scratch.file("p/" + name + "-timeline.svg"));
  };
  const std::string again =
      timeline("again", {"--model", "llama2-7b", "--system", "p4d.24xlarge", "--set", "nodes=4", "--devices",
                         "32", "--scheme", "pytorch-fsdp", "--batch", "1", "--precision", "bf16",
                         "--optimizer", "adamw", "--recompute", "blocks"});
  EXPECT_THAT(again, HasSubstr(">recomputation<"));
  EXPECT_THAT(again, Not(HasSubstr(">server<")));
  EXPECT_THAT(again, HasSubstr(">1,000<")) << "thousands with commas";
  const std::string outer = timeline("outer", {"--model", "resnet50", "--system", "dgx1-v100", "--devices",
                                               "8", "--scheme", "diloco:every=2"});
  EXPECT_THAT(outer, HasSubstr(">averaging, outer step<"));
  EXPECT_THAT(outer, Not(HasSubstr(">server<")));
  const std::string server = timeline("server", {"--model", "resnet50", "--system", "dgx1-v100", "--devices",
                                                 "2", "--scheme", "parameter-server:mode=async"});
  EXPECT_THAT(server, HasSubstr(">server<"));
  EXPECT_THAT(server, Not(HasSubstr("host</text>"))) << "waiting for answers is no work";
}

/// Of unlike workers one that the others wait for is drawn, and not only those that wait.
TEST(Plot, TimelineShowsWhomTheOthersWaitFor) {
  const Scratch scratch;
  draw(scratch, "r",
       {"--model", "resnet50", "--system", "v100-p100-pcie-16x", "--place", "0,1,2,3", "--devices", "8"},
       "timeline");
  const std::string svg = slurp(scratch.file("p/r-timeline.svg"));
  EXPECT_THAT(svg, ::testing::ContainsRegex(">workers 0, 1, [4-7] of 8<"));
}

TEST(Plot, LegendsSayWhatWasAskedDifferently) {
  const Scratch scratch;
  const std::vector<std::vector<std::string>> asked = {
      {"--scheme", "parameter-server:mode=async"},
      {"--scheme", "parameter-server:mode=ssp"},
      {"--scheme", "parameter-server:mode=softsync,n=2"},
      {"--scheme", "parameter-server:mode=async", "--optimizer", "sgd"},
      {"--scheme", "parameter-server:mode=async", "--set", "device=a100-sxm-40gb"}};
  std::vector<std::string> plot = {"plot", "--kind", "breakdown", "--out", scratch.file("p")};
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const std::string file = scratch.file("r" + std::to_string(i) + ".json");
    std::vector<std::string> question = {"predict",   "--model",   "lenet5", "--system",
                                         "dgx1-v100", "--devices", "2",      "--format",
                                         "json",      "--quiet",   "--out",  file};
    question.insert(question.end(), asked[i].begin(), asked[i].end());
    const ChildResult r = tool(question);
    ASSERT_EQ(r.status, 0) << r.err;
    plot.insert(plot.begin() + 1, file);
  }
  ASSERT_EQ(tool(plot).status, 0);
  const std::string svg = slurp(scratch.file("p/r4-breakdown.svg"));
  expect_sound(scratch.file("p/r4-breakdown.svg"));
  for (const char* word : {"mode=ssp", "mode=softsync", "sgd", "a100-sxm-40gb"})
    EXPECT_THAT(svg, HasSubstr(word));
}

TEST(Plot, BreakdownIsGroupedAndNamesOnlyWhatIsThere) {
  const Scratch scratch;
  draw(scratch, "a",
       {"--model", "lenet5", "--system", "dgx1-v100", "--devices", "1,2", "--input", "synthetic"},
       "breakdown");
  draw(scratch, "b",
       {"--model", "lenet5", "--system", "v100-pcie-8x", "--devices", "1,2", "--input", "synthetic"},
       "breakdown");
  draw(scratch, "c",
       {"--model", "lenet5", "--system", "dgx-a100", "--devices", "1,2", "--input", "synthetic"},
       "breakdown");
  ASSERT_EQ(tool({"plot", scratch.file("a.json"), scratch.file("b.json"), scratch.file("c.json"), "--out",
                  scratch.file("all")})
                .status,
            0);
  const std::string bars = slurp(scratch.file("all/a-breakdown.svg"));
  expect_sound(scratch.file("all/a-breakdown.svg"));
  std::map<std::string, int> count;
  for (const SvgBox& t : svg_texts(bars)) ++count[t.text];
  for (const char* system : {"dgx1-v100", "v100-pcie-8x", "dgx-a100"}) EXPECT_EQ(count[system], 1) << system;
  EXPECT_THAT(bars, HasSubstr(">compute<"));
  EXPECT_THAT(bars, Not(HasSubstr("pipeline bubble")));
  EXPECT_THAT(bars, Not(HasSubstr(">server<")));
  EXPECT_THAT(slurp(scratch.file("all/a-scaling.svg")), Not(HasSubstr("90 % interval"))) << "of three series";
  draw(scratch, "a", {"--model", "lenet5", "--system", "dgx1-v100", "--devices", "1,2"}, "scaling");
  EXPECT_THAT(slurp(scratch.file("p/a-scaling.svg")), HasSubstr("90 % interval"));
}

/// Long numbers and the axis' name beside them lie in the picture, and so do titles below narrow bars.
TEST(Plot, AxesHaveRoomForTheirNumbersAndNames) {
  const Scratch scratch;
  draw(scratch, "r",
       {"--model", "lenet5", "--system", "dgx-h100", "--devices", "1,8", "--batch", "1024", "--input",
        "synthetic"});
  expect_sound(scratch.file("p/r-scaling.svg"));
  const std::string svg = slurp(scratch.file("p/r-scaling.svg"));
  EXPECT_THAT(svg, HasSubstr(">5,000,000<"));
  const auto name = svg.rfind("translate(", svg.find("samples per second"));
  ASSERT_NE(name, std::string::npos);
  EXPECT_GT(std::stod(svg.substr(name + 10)), 15) << "the middle of the letters, from the left edge";
}

TEST(Plot, ComparisonHasARowForEachModelThatBothHold) {
  const Scratch scratch;
  const std::string file = scratch.file("c.json");
  ASSERT_EQ(tool({"compare", "v100-pcie-8x", "dgx1-v100", "--model", "vgg16,gpt2-xl,bert-large", "--devices",
                  "2,8", "--quiet", "--format", "json", "--out", file})
                .status,
            0);
  const ChildResult drawn = tool({"plot", file, "--out", scratch.file("p")});
  ASSERT_EQ(drawn.status, 0) << drawn.err;
  const std::string path = scratch.file("p/c-comparison.svg");
  expect_sound(path);
  std::map<std::string, int> count;
  for (const SvgBox& t : svg_texts(slurp(path))) ++count[t.text];
  for (const char* row : {"vgg16 on 2", "vgg16 on 8", "bert-large on 2", "bert-large on 8"})
    EXPECT_EQ(count[row], 1) << row;
  EXPECT_EQ(count["gpt2-xl on 8"], 0) << "no V100 holds its 32 samples";
  EXPECT_THAT(slurp(path), HasSubstr("2 that one of them does not hold are left out"));
  EXPECT_THAT(slurp(path), HasSubstr(">dgx1-v100 against v100-pcie-8x<"));
  std::string broken = slurp(file);
  broken.replace(broken.find("samples_per_second_ratio"), 7, "SAMPLES");
  write_file(file, broken);
  const ChildResult refused = tool({"plot", file, "--out", scratch.file("p")});
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.err, HasSubstr("samples_per_second_ratio"));
}

TEST(Plot, SizesOfCollectivesAreBinary) {
  const Scratch scratch;
  ASSERT_EQ(tool({"collective", "--system", "dgx-h100", "--plot", scratch.file("c"), "--quiet"}).status, 0);
  expect_sound(scratch.file("c.svg"));
  EXPECT_THAT(slurp(scratch.file("c.svg")), HasSubstr("1 KiB"));
  EXPECT_THAT(slurp(scratch.file("c.svg")), HasSubstr("1 GiB"));
}

TEST(Plot, DrawsEveryKindAsPngAndSvg) {
  const Scratch scratch;
  const std::string report = scratch.file("r.json");
  ASSERT_EQ(
      tool(small_predict({"--scheme", "parameter-server:mode=async", "--format", "json", "--out", report}))
          .status,
      0);
  const ChildResult result = tool({"plot", report, "--out", scratch.file("pictures")});
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* kind : {"scaling", "breakdown", "staleness", "timeline"}) {
    const std::string base = scratch.file(std::string("pictures/r-") + kind);
    EXPECT_TRUE(is_png(slurp(base + ".png"))) << kind;
    EXPECT_THAT(slurp(base + ".svg"), HasSubstr("<svg"));
    EXPECT_THAT(result.out, HasSubstr(base + ".png"));
  }
}

TEST(Plot, CountsTheIdealFromTheFewestDevicesThatHoldTheModel) {
  const Scratch scratch;
  const std::string report = R"({"engine": "sim", "devices": 1, "fits": false, "samples_per_second": null},
      {"engine": "sim", "devices": 2, "samples_per_second": 10.0, "speedup": 1.0, "scaling_efficiency": 1.0,
       "speedup_base_devices": 2},
      {"engine": "sim", "devices": 4, "samples_per_second": 16.0, "speedup": 1.6, "scaling_efficiency": 0.8,
       "speedup_base_devices": 2})";
  const std::string path =
      scratch.write("r.json", R"({"schema": "tandem-reports-2", "reports": [)" + report + "]}");
  const ChildResult result = tool({"plot", path, "--kind", "scaling", "--out", scratch.file("p")});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(slurp(scratch.file("p/r-scaling.svg")), HasSubstr("in proportion to 2 devices"));
  const std::string unfit = scratch.write(
      "u.json",
      R"({"schema": "tandem-reports-2", "reports": [{"engine": "sim", "devices": 1, "fits": false}]})");
  const ChildResult nothing = tool({"plot", unfit, "--out", scratch.file("p")});
  EXPECT_EQ(nothing.status, 3);
  EXPECT_THAT(nothing.err, HasSubstr("none of the reports is of a model that fits"));
}

TEST(Plot, SaysWhenThereIsNothingToDraw) {
  const Scratch scratch;
  const std::string report = scratch.file("r.json");
  ASSERT_EQ(tool(small_predict({"--format", "json", "--out", report})).status, 0);
  const ChildResult result = tool({"plot", report, "--kind", "staleness", "--out", scratch.file("p")});
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.err, HasSubstr("nothing to draw"));
}

TEST(Plot, HostileNamesAreOnlyText) {
  const Scratch scratch;
  const std::string trap = scratch.file("trap");
  const std::string name =
      "'; system('touch " + trap + "') # `touch " + trap + "` \\\" $x @y {/z}\\n\\tEND_OF_DATA\\nquit";
  const auto report = [&](int devices) {
    return R"({"engine": "sim", "devices": )" + std::to_string(devices) +
           R"(, "samples_per_second": 5.0, "iteration_seconds": {"median": 0.1}, "time_share": {"compute": 1.0},
           "inputs": {"model": ")" +
           name + R"(", "batch_per_device": 1}, "speedup": 1.0,
           "timeline": [{"role": "worker", "instance": 0, "lane": "compute", "label": ")" +
           name + R"(", "iteration": 0, "start": 0.0, "end": 1.0}]})";
  };
  const std::string path = scratch.write(
      "r.json", R"({"schema": "tandem-reports-2", "reports": [)" + report(1) + "," + report(2) + "]}");
  const ChildResult result = tool({"plot", path, "--out", scratch.file("p")});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_FALSE(std::filesystem::exists(trap));
  EXPECT_TRUE(is_png(slurp(scratch.file("p/r-timeline.png"))));
}

/// Boxes lie within the picture and apart, and every cable ends at what it joins.
void expect_sound_drawing(const Drawing& d) {
  std::map<std::string, Drawing::Vertex> at;
  for (const Drawing::Vertex& v : d.vertices) at[v.name] = v;
  for (std::size_t i = 0; i < d.vertices.size(); ++i) {
    const Drawing::Vertex& a = d.vertices[i];
    EXPECT_GE(a.at.x - a.half_width, -5) << a.name;
    EXPECT_LE(a.at.x + a.half_width, kDrawingWidth + 5) << a.name;
    EXPECT_TRUE(a.at.y >= 0 && a.at.y <= kDrawingHeight) << a.name;
    for (std::size_t j = 0; j < i; ++j) {
      const Drawing::Vertex& b = d.vertices[j];
      EXPECT_FALSE(std::abs(a.at.x - b.at.x) < a.half_width + b.half_width &&
                   std::abs(a.at.y - b.at.y) < 2 * kBoxHalfHeight)
          << a.name << " on " << b.name;
    }
  }
  for (const Drawing::Cable& c : d.cables) {
    ASSERT_TRUE(c.course.size() >= 4 && c.course.size() % 3 == 1) << c.from << " " << c.to;
    const auto meets = [&](const Point& p, const Drawing::Vertex& v) {
      return std::abs(p.x - v.at.x) <= v.half_width && std::abs(p.y - v.at.y) <= kBoxHalfHeight;
    };
    EXPECT_TRUE(meets(c.course.front(), at.at(c.from))) << c.from << " of " << c.from << " " << c.to;
    EXPECT_TRUE(meets(c.course.back(), at.at(c.to))) << c.to << " of " << c.from << " " << c.to;
    for (const Point& p : along(c.course, 0)) {
      EXPECT_TRUE(p.y >= 0 && p.y <= kDrawingHeight + 10) << c.from << " " << c.to;
    }
  }
}

TEST(Show, EverySystemHasADrawing) {
  for (const SystemEntry& entry : list_systems()) {
    SCOPED_TRACE(entry.name);
    for (const char* nodes : {"1", "2"})
      expect_sound_drawing(drawing_of(System::load(entry.name, {{"nodes", nodes}})));
  }
}

TEST(Show, EqualPartsOfARackAreDrawnOnce) {
  const Drawing d = drawing_of(System::load("gb200-nvl72"));
  const auto count = [&](std::string_view kind) {
    return std::count_if(d.vertices.begin(), d.vertices.end(), [&](const auto& v) { return v.kind == kind; });
  };
  EXPECT_EQ(count("gpu"), 8);
  EXPECT_EQ(count("cpu"), 4);
  EXPECT_EQ(d.stands_for.size(), 32u * 6) << "two GPUs, two NICs, a CPU and its memory each";
  EXPECT_EQ(d.stands_for.at("gpu7"), "gpu71");
  EXPECT_EQ(d.stands_for.at("cpu3"), "cpu35");
  const Scratch scratch;
  ASSERT_EQ(tool({"show", "system", "gb200-nvl72", "--out", scratch.file("s.svg")}).status, 0);
  expect_sound(scratch.file("s.svg"));
  EXPECT_THAT(slurp(scratch.file("s.svg")), HasSubstr("... 32 more ..."));
}

TEST(Show, DrawsSystemsAndModels) {
  const Scratch scratch;
  ASSERT_EQ(tool({"show", "system", "dgx1-v100", "--out", scratch.file("s.png")}).status, 0);
  EXPECT_TRUE(is_png(slurp(scratch.file("s.png"))));
  ASSERT_EQ(tool({"show", "model", "lenet5", "--out", scratch.file("m.svg")}).status, 0);
  EXPECT_THAT(slurp(scratch.file("m.svg")), HasSubstr("<svg"));
}

TEST(Show, DrawsSchedulesSmallAndLarge) {
  const Scratch scratch;
  const std::string small = scratch.file("small.svg"), large = scratch.file("large.svg"),
                    raster = scratch.file("small.png");
  ASSERT_EQ(tool({"show", "schedule", "zero-bubble", "--out", small}).status, 0);
  ASSERT_EQ(tool({"show", "schedule", "zero-bubble", "--out", raster}).status, 0);
  ASSERT_EQ(
      tool({"show", "schedule", "interleaved", "--stages", "16", "--microbatches", "256", "--out", large})
          .status,
      0);
  expect_sound(small);
  expect_sound(large);
  EXPECT_TRUE(is_png(slurp(raster)));
  EXPECT_THAT(slurp(small), HasSubstr("Schedule zero-bubble: 4 stages, 8 micro-batches"));
  EXPECT_THAT(slurp(small), HasSubstr("numbers are micro-batches"));
  EXPECT_THAT(slurp(large), Not(HasSubstr("numbers are micro-batches"))) << "there is no room for them";
}

TEST(ShowScheme, PrintsAndDrawsItsPipeline) {
  const Scratch scratch;
  const std::string scheme = "hybrid:tensor=2,pipeline=3,microbatches=4";
  const ChildResult text = tool({"show", "scheme", scheme});
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.out, HasSubstr("3 stages, 4 micro-batches"));
  EXPECT_THAT(text.out, HasSubstr("bubble 33.3 %"));  // (p - 1) / (m + p - 1)
  EXPECT_EQ(tool({"show", "scheme", scheme, "--out", scratch.file("a.svg")}).status, 0);
  EXPECT_EQ(tool({"show", "schedule", "1f1b", "--stages", "3", "--microbatches", "4", "--out",
                  scratch.file("b.svg")})
                .status,
            0);
  EXPECT_EQ(slurp(scratch.file("a.svg")), slurp(scratch.file("b.svg")));
  const ChildResult none = tool({"show", "scheme", "allreduce", "--out", scratch.file("c.svg")});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("no pipeline"));
  const ChildResult devices = tool({"show", "scheme", "hybrid:pipeline=3", "--devices", "7"});
  EXPECT_EQ(devices.status, 3);
  EXPECT_THAT(devices.err, HasSubstr("7"));
}

TEST(Predict, AsksAboutWholeReplicas) {
  const ChildResult result = tool({"predict", "--model", "gpt2", "--system", "dgx-a100", "--scheme",
                                   "hybrid:pipeline=4", "--batch", "1", "--format", "csv", "--quiet"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 3)
      << result.out;  // titles, 4 and 8 devices
}

TEST(Predict, SaysHowManyMicroBatchesASplitModelHas) {
  const ChildResult result = tool({"predict", "--model", "gpt2", "--system", "dgx-a100", "--devices", "4",
                                   "--scheme", "hybrid:pipeline=4,microbatches=6", "--batch", "2"});
  EXPECT_THAT(result.out, HasSubstr("2 sequences of 1,024 tokens per micro-batch, 6 micro-batches a step"));
}

TEST(Show, PrintsASchedule) {
  const ChildResult result = tool({"show", "schedule", "1f1b", "--stages", "3", "--microbatches", "4"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, HasSubstr("bubble 33.3 % of 18 units of time"));
  EXPECT_THAT(result.out, HasSubstr("stage 0  0 1 2         0===3 1===  2===  3===\n"
                                    "stage 1    0 1     0===2 1===3 2===  3===\n"
                                    "stage 2      0 0===1 1===2 2===3 3===\n"));
  const Json document = Json::parse(tool({"show", "schedule", "1f1b", "--format", "json"}).out, "stdout");
  EXPECT_EQ(document.at("passes").items().size(), 4u * 16);
  EXPECT_NEAR(document.at("bubble").as_real(), 3.0 / 11, 1e-12);
}

TEST(Show, WithoutGnuplotSaysHowToGetIt) {
  const Scratch scratch;
  const std::string report = scratch.file("r.json");
  ASSERT_EQ(tool(small_predict({"--format", "json", "--out", report})).status, 0);
  const ChildResult result = shell("PATH=/nonexistent \"$0\" plot " + report);
  EXPECT_EQ(result.status, 4);
  EXPECT_THAT(result.err, HasSubstr("apt-get install gnuplot-nox"));
}

TEST(Child, KillsWhatTakesTooLong) {
  const ChildResult result = run_child({"sleep", "30"}, "", "", std::chrono::seconds(1));
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.status, 128 + 9);
}

TEST(Child, FeedsAndReadsMoreThanAPipeHolds) {
  const std::string text(3'000'000, 'x');
  const ChildResult result = run_child({"cat"}, text, "");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, text);
  EXPECT_EQ(run_child({"true"}, text, "").status, 0);  // a child that does not read is no error
}

}  // namespace
}  // namespace tandem::tests
