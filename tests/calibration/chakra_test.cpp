// SPDX-License-Identifier: Apache-2.0
// Chakra traces: what is written holds the Program op by op, and what is read is scheduled by rules with
// known answers.
#include "calibration/traces/chakra.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#ifdef TANDEM_HAS_PROTOBUF
#include <calibration/traces/chakra.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <map>
#include <set>
#include <tuple>

#include "answers/elasticity.h"
#include "answers/question.h"
#include "base/error.h"
#include "base/json.h"
#include "calibration/traces/trace_summary.h"
#include "sim/simulate.h"

namespace tandem::tests {
namespace {

namespace chakra = calibration::chakra;
using calibration::ChakraWriter;
using calibration::Trace;
using calibration::TracedKernel;
using calibration::TracedKind;
using calibration::TraceSummary;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<chakra::Node> nodes_of(const std::string& text) {
  google::protobuf::io::ArrayInputStream array(text.data(), static_cast<int>(text.size()));
  google::protobuf::io::CodedInputStream stream(&array);
  std::vector<chakra::Node> out;
  chakra::GlobalMetadata about;
  const auto next = [&](auto& message) {
    uint32_t length = 0;
    if (!stream.ReadVarint32(&length)) return false;
    const auto limit = stream.PushLimit(static_cast<int>(length));
    EXPECT_TRUE(message.MergeFromCodedStream(&stream));
    stream.PopLimit(limit);
    return true;
  };
  EXPECT_TRUE(next(about));
  EXPECT_EQ(about.version(), "1.0.0");
  for (chakra::Node node; next(node); node.Clear()) out.push_back(node);
  return out;
}

int64_t attribute(const chakra::Node& node, const std::string& name) {
  for (const chakra::AttributeProto& a : node.attr()) {
    if (a.name() == name) return a.value_case() == a.kInt32Val ? a.int32_val() : a.int64_val();
  }
  return -1;
}
std::string group_of(const chakra::Node& node) {
  for (const chakra::AttributeProto& a : node.attr()) {
    if (a.name() == "pg_name") return a.string_val();
  }
  return "";
}

/// A question's plan on `devices`, and what it keeps alive.
struct Planned {
  Question question;
  sim::BoundProgram plan;
  Planned(const std::vector<std::pair<std::string, std::string>>& options, int64_t devices)
      : question(Question::of(options)),
        plan(sim::make_plan(request_on(question, question.system, devices))) {}
};

Planned data_parallel() {
  return {{{"model", "vgg11-cifar10"}, {"system", "dgx1-v100"}, {"scheme", "pytorch-ddp"}, {"devices", "4"}},
          4};
}
Planned split() {
  return {{{"model", "gpt2"},
           {"system", "dgx-a100"},
           {"scheme", "megatron:tensor=2,pipeline=2,microbatches=4"},
           {"batch", "1"},
           {"devices", "8"}},
          8};
}

TEST(Chakra, HoldsEveryOpOfAStep) {
  const Planned p = data_parallel();
  const ChakraWriter writer(p.plan);
  ASSERT_EQ(writer.devices(), 4);
  const Program& program = *p.plan.program;
  const sim::RoleCosts& costs = p.plan.roles[0];
  int64_t ops = 0, bytes = 0, sums = 0;
  double seconds = 0;
  for (std::size_t i = 0; i < program.roles[0].ops.size(); ++i) {
    const Op& op = program.roles[0].ops[i];
    if (!op.runs(writer.first()) || op.kind == OpKind::copy) continue;
    ++ops;
    if (op.kind == OpKind::collective) bytes += op.bytes.n, ++sums;
    if (sim::launched(op)) seconds += costs.duration[0][i].seconds();
  }
  const std::string text = writer.rank(3);
  const std::vector<chakra::Node> nodes = nodes_of(text);
  EXPECT_EQ(static_cast<int64_t>(nodes.size()), ops);
  EXPECT_EQ(writer.groups(), "");
  int64_t written = 0, collectives = 0, microseconds = 0;
  std::set<uint64_t> before;
  for (const chakra::Node& node : nodes) {
    for (const uint64_t one : node.data_deps()) EXPECT_TRUE(before.count(one)) << node.name();
    EXPECT_TRUE(before.insert(node.id()).second);
    if (node.type() == chakra::COMM_COLL_NODE) {
      written += attribute(node, "comm_size"), ++collectives;
      EXPECT_EQ(attribute(node, "comm_type"), chakra::ALL_REDUCE);
      EXPECT_EQ(group_of(node), "");  // all devices
    } else if (node.type() == chakra::COMP_NODE && !node.attr(0).bool_val()) {
      microseconds += static_cast<int64_t>(node.duration_micros());
    }
  }
  EXPECT_EQ(written, bytes);
  EXPECT_EQ(collectives, sums);
  EXPECT_GE(static_cast<double>(microseconds), seconds * 1e6 - 1);  // the host may hold it up

  // Read again it is the same work.
  const Trace trace = read_chakra(calibration::bytes_of(text), "step.3.et");
  EXPECT_EQ(trace.rank, 3);
  ASSERT_EQ(trace.notes.size(), 1U);
  EXPECT_THAT(trace.notes[0], HasSubstr("for a simulator"));
  const TraceSummary summary = summary_of(trace);
  EXPECT_NEAR(summary.compute, static_cast<double>(microseconds) * 1e-6, 1e-9);
  double count = 0;
  for (const TraceSummary::Collective& c : summary.collectives) {
    EXPECT_EQ(c.kind, "all-reduce");
    count += c.count;
  }
  EXPECT_EQ(count, static_cast<double>(sums));
}

TEST(Chakra, RoundsWhatALaneTakesTogetherAndNotEachOp) {
  const Planned p = data_parallel();
  const ChakraWriter writer(p.plan);
  const auto& ops = p.plan.program->roles[0].ops;
  const sim::RoleCosts& costs = p.plan.roles[0];
  ASSERT_FALSE(costs.issued.empty());
  int64_t exact = 0, issued = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!ops[i].runs(writer.first()) || !sim::launched(ops[i])) continue;
    exact += std::max(costs.duration[0][i].ps, costs.issued[0][i].ps - issued);
    issued = std::max(issued, costs.issued[0][i].ps);
  }
  int64_t microseconds = 0;
  for (const chakra::Node& node : nodes_of(writer.rank(0))) {
    if (node.type() == chakra::COMP_NODE && !node.attr(0).bool_val())
      microseconds += static_cast<int64_t>(node.duration_micros());
  }
  EXPECT_NEAR(static_cast<double>(microseconds), static_cast<double>(exact) * 1e-6, 0.51);
}

TEST(Chakra, StagesMeetInMessagesAndGroups) {
  const Planned p = split();
  const ChakraWriter writer(p.plan);
  ASSERT_EQ(writer.devices(), 8);
  using Message = std::tuple<int64_t, int64_t, int64_t, int64_t>;  // from, to, tag, bytes
  std::multiset<Message> sent, received;
  std::map<std::string, std::multiset<std::pair<int64_t, std::string>>> in_group;  // of each: rank, what
  std::map<int64_t, std::vector<std::string>> order;
  for (int64_t rank = 0; rank < 8; ++rank) {
    for (const chakra::Node& node : nodes_of(writer.rank(rank))) {
      const Message message = {attribute(node, "comm_src"), attribute(node, "comm_dst"),
                               attribute(node, "comm_tag"), attribute(node, "comm_size")};
      if (node.type() == chakra::COMM_SEND_NODE) {
        EXPECT_EQ(std::get<0>(message), rank);
        sent.insert(message);
      }
      if (node.type() == chakra::COMM_RECV_NODE) {
        EXPECT_EQ(std::get<1>(message), rank);
        received.insert(message);
      }
      if (node.type() == chakra::COMM_COLL_NODE) {
        EXPECT_NE(group_of(node), "") << node.name();
        in_group[group_of(node)].insert({rank, node.name()});
      }
    }
  }
  EXPECT_FALSE(sent.empty());
  EXPECT_EQ(sent, received);
  EXPECT_EQ(std::set<Message>(sent.begin(), sent.end()).size(), sent.size());  // no two are confused
  EXPECT_EQ(in_group.size(), 4U + 4U);  // pairs that share layers, and replicas of each part
  const Json groups = Json::parse(writer.groups(), "groups");
  for (const auto& [group, all] : in_group) {
    std::map<int64_t, std::multiset<std::string>> by_rank;
    for (const auto& [rank, name] : all) by_rank[rank].insert(name);
    ASSERT_EQ(by_rank.size(), 2U) << group;
    EXPECT_EQ(groups.at(group).items()[0].as_int(0, 7), by_rank.begin()->first);
    EXPECT_EQ(groups.at(group).items()[1].as_int(0, 7), by_rank.rbegin()->first);
    EXPECT_EQ(by_rank.begin()->second, by_rank.rbegin()->second) << group;
  }
}

TEST(Chakra, AnAllGatherHasTheSizeOfItsShard) {
  const Planned p(
      {{"model", "vgg11-cifar10"}, {"system", "dgx1-v100"}, {"scheme", "zero:stage=3"}, {"devices", "4"}}, 4);
  const ChakraWriter writer(p.plan);
  int64_t whole = 0, part = 0;
  for (const Op& op : p.plan.program->roles[0].ops) {
    if (op.kind != OpKind::collective || !op.runs(writer.first())) continue;
    const CollKind kind = p.plan.program->collectives[op.what].kind;
    if (kind == CollKind::all_gather) part += op.bytes.n / 4;
    if (kind == CollKind::reduce_scatter) whole += op.bytes.n;
  }
  ASSERT_GT(part, 0);
  ASSERT_GT(whole, 0);
  for (const chakra::Node& node : nodes_of(writer.rank(1))) {
    if (node.type() != chakra::COMM_COLL_NODE) continue;
    if (attribute(node, "comm_type") == chakra::ALL_GATHER) part -= attribute(node, "comm_size");
    if (attribute(node, "comm_type") == chakra::REDUCE_SCATTER) whole -= attribute(node, "comm_size");
  }
  EXPECT_EQ(part, 0);
  EXPECT_EQ(whole, 0);
}

TEST(Chakra, RefusesWhatDependsOnTheOrderOfMessages) {
  const Planned p({{"model", "vgg11-cifar10"},
                   {"system", "dgx1-v100"},
                   {"scheme", "parameter-server:mode=async"},
                   {"devices", "4"}},
                  4);
  try {
    ChakraWriter writer(p.plan);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("which message is first"));
  }
}

// ---- what is read

class File {
 public:
  File() {
    chakra::GlobalMetadata about;
    about.set_version("1.0.0");
    put(about);
  }
  chakra::Node& node(uint64_t id, const std::string& name, uint64_t microseconds, bool host,
                     const std::vector<uint64_t>& after = {}, chakra::NodeType type = chakra::COMP_NODE) {
    nodes_.emplace_back();
    chakra::Node& out = nodes_.back();
    out.set_id(id), out.set_name(name), out.set_type(type), out.set_duration_micros(microseconds);
    for (const uint64_t one : after) out.add_data_deps(one);
    chakra::AttributeProto& a = *out.add_attr();
    a.set_name("is_cpu_op"), a.set_bool_val(host);
    return out;
  }
  std::string text() const {
    File copy = *this;
    for (const chakra::Node& node : nodes_) copy.put(node);
    return copy.text_;
  }

 private:
  void put(const google::protobuf::MessageLite& message) {
    std::string body = message.SerializeAsString();
    for (std::size_t n = body.size(); true; n >>= 7) {
      text_ += static_cast<char>(n < 128 ? n : (n & 127U) | 128U);
      if (n < 128) break;
    }
    text_ += body;
  }
  std::string text_;
  std::vector<chakra::Node> nodes_;
};

void set(chakra::Node& node, const char* name, int64_t value) {
  chakra::AttributeProto& a = *node.add_attr();
  a.set_name(name), a.set_int64_val(value);
}

std::string refusal(const std::string& text) {
  try {
    read_chakra(calibration::bytes_of(text), "t.et");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

/// The host takes 10 us to launch each of two kernels of 100 us, then a sum of 300 us begins while a third
/// kernel of 50 us runs.
File three_kernels() {
  File file;
  file.node(1, "aten::mm", 10, true);
  file.node(2, "sgemm", 100, false, {1});
  file.node(3, "aten::mm", 10, true, {1});
  file.node(4, "sgemm", 100, false, {3});
  chakra::Node& sum = file.node(5, "ncclDevKernel_AllReduce", 300, false, {4}, chakra::COMM_COLL_NODE);
  set(sum, "comm_type", 0), set(sum, "comm_size", 4096);
  chakra::AttributeProto& group = *sum.add_attr();
  group.set_name("pg_name"), group.set_string_val("7");
  file.node(6, "sgemm", 50, false, {4});
  chakra::Node& about = file.node(9, "process groups", 0, true, {}, chakra::METADATA_NODE);
  about.mutable_inputs()->set_values(R"(['[{"pg_name": "7", "ranks": [0, 1, 2]}]'])");
  return file;
}

TEST(Chakra, SchedulesNodesThatHaveNoStarts) {
  const std::string text = three_kernels().text();
  EXPECT_TRUE(calibration::looks_like_chakra(text));
  const Trace trace = read_chakra(calibration::bytes_of(text), "run.2.et");
  EXPECT_EQ(trace.rank, 2);
  EXPECT_EQ(trace.world_size, 3);
  const TraceSummary s = summary_of(trace);
  constexpr double kExact = 1e-12;
  EXPECT_NEAR(s.step_median, 500e-6, kExact);  // from the first kernel at 10 us to the end of the sum at 510
  EXPECT_NEAR(s.compute, 250e-6, kExact);
  EXPECT_NEAR(s.communication, 300e-6, kExact);
  EXPECT_NEAR(s.exposed_communication, 250e-6, kExact);
  EXPECT_NEAR(s.idle, 0, kExact);
  ASSERT_EQ(s.collectives.size(), 1U);
  EXPECT_EQ(s.collectives[0].kind, "all-reduce");
  EXPECT_EQ(s.collectives[0].bytes, 4096);
  EXPECT_EQ(s.collectives[0].group, 3);
  EXPECT_NEAR(trace.kernels[0].launch_end, 0, kExact);  // it counts from the first kernel
}

TEST(Chakra, TakesTheStartsThatAFileHas) {
  File file;
  file.node(1, "sgemm", 100, false).set_start_time_micros(1'000'000);
  file.node(2, "sgemm", 100, false).set_start_time_micros(1'000'400);
  const TraceSummary s = summary_of(read_chakra(calibration::bytes_of(file.text()), "t.et"));
  EXPECT_NEAR(s.step_median, 500e-6, 1e-9);
  EXPECT_NEAR(s.idle, 300e-6, 1e-9);
}

TEST(Chakra, SaysWhatIsWrong) {
  const std::string good = three_kernels().text();
  EXPECT_THAT(refusal(good.substr(0, good.size() - 3)), HasSubstr("damaged, or the file is cut short"));
  EXPECT_THAT(refusal(""), HasSubstr("nothing in it"));
  EXPECT_THAT(refusal("{\"schema\": \"tandem-reports-2\"}"), HasSubstr("not a Chakra trace"));
  File twice = three_kernels();
  twice.node(4, "sgemm", 1, false);
  EXPECT_THAT(refusal(twice.text()), HasSubstr("two nodes have the number 4"));
  File lacking = three_kernels();
  lacking.node(7, "sgemm", 1, false, {99});
  const Trace trace = read_chakra(calibration::bytes_of(lacking.text()), "t.et");
  ASSERT_EQ(trace.notes.size(), 1U);
  EXPECT_THAT(trace.notes[0], HasSubstr("1 dependencies"));
  File circle = three_kernels();
  circle.node(8, "sgemm", 1, false, {10});  // waits for the circle and is not in it
  circle.node(10, "sgemm", 1, false, {11});
  circle.node(11, "sgemm", 1, false, {10});
  const std::string why = refusal(circle.text());
  EXPECT_THAT(why, HasSubstr(" waits, through others, for itself"));
  EXPECT_THAT(why, Not(HasSubstr("node 8 ")));
  File host;
  host.node(1, "aten::mm", 10, true);
  EXPECT_THAT(refusal(host.text()), HasSubstr("only the host was traced"));
  File endless = three_kernels();
  endless.node(12, "sgemm", uint64_t{1} << 60, false);
  EXPECT_THAT(refusal(endless.text()), HasSubstr("node 12 has no possible time"));
}

}  // namespace
}  // namespace tandem::tests
#endif
