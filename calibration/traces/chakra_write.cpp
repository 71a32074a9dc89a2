// SPDX-License-Identifier: Apache-2.0
#include "calibration/traces/chakra.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/json_writer.h"

#ifdef TANDEM_HAS_PROTOBUF
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <calibration/traces/chakra.pb.h>
#endif

namespace tandem::calibration {

namespace {

using schemes::CollKind;
using schemes::Lane;
using schemes::Mesh;
using schemes::Op;
using schemes::OpKind;
using schemes::Program;
using schemes::Role;

/// Instances of the group of `instance` along `axes`, in order.
std::vector<uint32_t> group_members(const Mesh& mesh, uint32_t axes, uint32_t instance) {
  std::vector<uint32_t> out = {0};
  uint32_t stride = 1;
  for (std::size_t a = mesh.axes.size(); a-- > 0;) {  // the innermost first
    const auto size = static_cast<uint32_t>(mesh.axes[a].size);
    const bool along = (axes >> a & 1U) != 0;
    std::vector<uint32_t> more;
    for (uint32_t i = 0; i < size; ++i) {
      if (!along && i != instance / stride % size) continue;
      for (const uint32_t one : out) more.push_back(one + i * stride);
    }
    out = std::move(more);
    stride *= size;
  }
  return out;
}

void require_static(const Program& program) {
  const bool workers =
      std::all_of(program.roles.begin(), program.roles.end(), [](const Role& role) { return role.works(); });
  if (!workers || !is_static(program))
    throw InputError(
        "a Chakra trace fixes what each device does and in what order; with parameter servers or gossip "
        "that depends on which message is first");
}

/// The iterations after which all has happened, and the first from which on nothing is special.
std::pair<uint32_t, uint32_t> steady_period(const Program& program) {
  uint32_t first = 0;
  uint64_t period = 1;
  constexpr uint64_t kMost = 4096;
  for (const Role& role : program.roles) {
    role.ops.each_distinct([&](const Op& op, int64_t) {
      period = std::lcm(period, uint64_t{op.every});
      first = std::max({first, op.from, op.until == Op::kEver ? 0 : op.until});
    });
  }
  if (period > kMost)
    throw InputError(fmt::format(
        "the scheme repeats itself only after {} iterations; a trace holds at most {}", period, kMost));
  const auto length = static_cast<uint32_t>(period);
  return {(first + length - 1) / length * length, length};
}

}  // namespace

ChakraWriter::ChakraWriter(const sim::BoundProgram& plan) : plan_(plan) {
  const Program& program = *plan.program;
  require_static(program);
  std::tie(first_, count_) = steady_period(program);
  std::size_t devices = 0;
  for (const Role& role : program.roles) devices += static_cast<std::size_t>(role.mesh.size());
  places_.resize(devices);
  for (const schemes::Channel& channel : program.channels)
    message_bytes_.emplace_back(channel.key_bytes.size());
  std::map<std::vector<int64_t>, uint32_t> known;
  bool reduces = false, hosts = false;
  for (uint32_t r = 0; r < program.roles.size(); ++r) {
    const Role& role = program.roles[r];
    const auto instances = static_cast<uint32_t>(role.mesh.size());
    for (uint32_t i = 0; i < instances; ++i)
      places_[static_cast<std::size_t>(grid_device(program, role, i))] = {r, i};
    std::vector<uint32_t> axes;
    role.ops.each_distinct([&](const Op& op, int64_t) {
      hosts |= op.kind == OpKind::compute
                   ? op.lane != Lane::compute
                   : op.kind == OpKind::copy && !of_input(program.copies[op.what].kind);
      if (op.kind == OpKind::send) message_bytes_[op.what][op.key] = op.bytes.n;
      if (op.kind != OpKind::collective) return;
      axes.push_back(program.collectives[op.what].axes);
      reduces |= program.collectives[op.what].kind == CollKind::reduce;
    });
    std::sort(axes.begin(), axes.end());
    axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
    member_.emplace_back();
    for (const uint32_t mask : axes) {
      constexpr uint32_t kNone = UINT32_MAX;
      std::vector<uint32_t> of(instances, kNone);
      for (uint32_t i = 0; i < instances; ++i) {
        if (of[i] != kNone) continue;  // in the group of one before
        const std::vector<uint32_t> members = group_members(role.mesh, mask, i);
        std::vector<int64_t> group;
        for (const uint32_t one : members) group.push_back(grid_device(program, role, one));
        const auto [at, fresh] = known.emplace(group, static_cast<uint32_t>(groups_.size()));
        if (fresh) groups_.push_back({static_cast<int32_t>(groups_.size() + 1), std::move(group)});
        for (const uint32_t one : members) of[one] = at->second;
      }
      member_.back().emplace_back(mask, std::move(of));
    }
  }
  for (Group& group : groups_) {
    if (group.devices.size() == devices && std::is_sorted(group.devices.begin(), group.devices.end()))
      group.number = 0;
  }
  if (hosts)
    notes_.emplace_back(
        "what hosts do and what is copied are nodes of the processor, at which ASTRA-sim's statistics "
        "(2026-03) stop after it has said what the step takes");
  if (reduces) notes_.emplace_back("the scheme reduces to one rank, which ASTRA-sim (2026-03) refuses");
}

std::string ChakraWriter::groups() const {
  JsonWriter out;
  bool any = false;
  for (const Group& group : groups_) {
    if (group.number > 0) out[std::to_string(group.number)] = group.devices, any = true;
  }
  return any ? out.dump() + "\n" : "";
}

int64_t ChakraWriter::nodes() const { return executions(*plan_.program) * count_; }

const ChakraWriter::Group& ChakraWriter::group_of(uint32_t role, uint32_t instance, uint32_t axes) const {
  const auto& all = member_[role];
  const auto at = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.first == axes; });
  return groups_[at->second[instance]];
}

#ifdef TANDEM_HAS_PROTOBUF

namespace {

chakra::CollectiveCommType chakra_kind(CollKind kind) {
  switch (kind) {
    case CollKind::reduce_scatter:
      return chakra::REDUCE_SCATTER;
    case CollKind::all_gather:
      return chakra::ALL_GATHER;
    case CollKind::broadcast:
      return chakra::BROADCAST;
    case CollKind::reduce:
      return chakra::REDUCE;
    case CollKind::all_to_all:
      return chakra::ALL_TO_ALL;
    case CollKind::all_reduce:
    case CollKind::shift:  // is written as messages
      break;
  }
  return chakra::ALL_REDUCE;
}

chakra::AttributeProto& attribute(chakra::Node& node, const char* name) {
  chakra::AttributeProto& out = *node.add_attr();
  out.set_name(name);
  return out;
}

}  // namespace

/// Writes the file of one device.
class ChakraWriter::Rank {
 public:
  Rank(const ChakraWriter& writer, int64_t device)
      : w_(writer),
        program_(*writer.plan_.program),
        device_(device),
        place_(writer.places_[static_cast<std::size_t>(device)]),
        role_(program_.roles[place_.role]),
        costs_(writer.plan_.roles[place_.role]),
        type_(costs_.class_at(place_.instance)) {
    for (const schemes::Channel& channel : program_.channels) {
      first_key_.push_back(keys_);
      keys_ += static_cast<uint32_t>(channel.key_bytes.size());
    }
    sent_.resize(keys_), received_.resize(keys_);
  }

  std::string text() {
    chakra::GlobalMetadata about;
    about.set_version("1.0.0");
    put(about);
    const auto ops = static_cast<uint32_t>(role_.ops.size());
    for (uint32_t i = 0; i < w_.count_; ++i) {
      ids_.emplace_back(ops);
      for (uint32_t op = 0; op < ops; ++op) {
        if (role_.ops[op].runs(w_.first_ + i)) write(i, op);
      }
      issued_ = {};
    }
    return std::move(out_);
  }

 private:
  /// What is waited for where an op is: the nodes it became, or of one that is left out those that it waits
  /// for.
  using Nodes = std::vector<uint64_t>;

  void put(const google::protobuf::MessageLite& message) {
    google::protobuf::io::StringOutputStream stream(&out_);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.WriteVarint32(static_cast<uint32_t>(message.ByteSizeLong()));
    message.SerializeWithCachedSizes(&coded);
  }

  chakra::Node node(const std::string& name, chakra::NodeType type, bool on_host) {
    chakra::Node out;
    out.set_id(++last_);
    out.set_name(name);
    out.set_type(type);
    attribute(out, "is_cpu_op").set_bool_val(on_host);
    return out;
  }

  void write(uint32_t iteration, uint32_t o) {
    const Op& op = role_.ops[o];
    Nodes& lane = before_[static_cast<std::size_t>(op.lane)];
    Nodes waits = lane;
    for (const schemes::Dep& dep : op.deps) {
      if (dep.lag > iteration) continue;
      for (const uint64_t one : ids_[iteration - dep.lag][dep.op]) {
        if (std::find(waits.begin(), waits.end(), one) == waits.end()) waits.push_back(one);
      }
    }
    Nodes made;
    for (chakra::Node& one : nodes_of(op, o)) {
      // Some readers know no control dependencies.
      for (const uint64_t other : waits) one.add_data_deps(other);
      put(one);
      made.push_back(one.id());
    }
    lane = ids_[iteration][o] = made.empty() ? std::move(waits) : std::move(made);
  }

  /// None for input, which comes while others compute, and for sums of one device.
  std::vector<chakra::Node> nodes_of(const Op& op, uint32_t o) {
    const std::string& name = program_.labels[op.label];
    if (op.kind == OpKind::collective) return collective(op, name);
    if (op.kind == OpKind::send || op.kind == OpKind::recv) return {message(op, name)};
    if (op.kind == OpKind::copy && of_input(program_.copies[op.what].kind)) return {};
    // A device has one engine that computes; what the host does and what is copied is no part of it.
    chakra::Node out = node(name, chakra::COMP_NODE, op.lane != Lane::compute);
    out.set_duration_micros(rounded(op.lane, taken(op, o)));
    return {std::move(out)};
  }

  /// Of a launched op no less than the host takes to issue it after the one before.
  Time taken(const Op& op, uint32_t o) {
    const int32_t transfer = has_transfer(op) ? costs_.transfer[type_][o] : -1;
    if (transfer >= 0) return w_.plan_.transfers[static_cast<std::size_t>(transfer)].alone(w_.plan_.capacity);
    Time out = costs_.duration[type_][o];
    if (!costs_.issued.empty() && sim::launched(op) && costs_.issued[type_].size() > o) {
      const Time issued = costs_.issued[type_][o];
      out = std::max(out, issued - issued_);
      issued_ = std::max(issued_, issued);
    }
    return out;
  }

  /// Whole microseconds, of which those of a lane together are right.
  uint64_t rounded(Lane lane, Time time) {
    constexpr int64_t kMicrosecond = 1'000'000;  // picoseconds
    int64_t& owed = owed_[static_cast<std::size_t>(lane)];
    owed += time.ps;
    const int64_t whole = std::max<int64_t>(0, (owed + kMicrosecond / 2) / kMicrosecond);
    owed -= whole * kMicrosecond;
    return static_cast<uint64_t>(whole);
  }

  std::vector<chakra::Node> collective(const Op& op, const std::string& name) {
    const schemes::Collective& c = program_.collectives[op.what];
    const Group& group = w_.group_of(place_.role, place_.instance, c.axes);
    const auto members = static_cast<int64_t>(group.devices.size());
    if (members == 1) return {};
    if (c.kind == CollKind::shift) {
      const auto self = std::find(group.devices.begin(), group.devices.end(), device_);
      const auto at = static_cast<std::size_t>(self - group.devices.begin());
      const uint32_t tag = keys_ + op.what + different_tags() * shifts_++;
      return {to_or_from(true, name, group.devices[(at + 1) % group.devices.size()], op.bytes.n, tag),
              to_or_from(false, name, group.devices[(at + group.devices.size() - 1) % group.devices.size()],
                         op.bytes.n, tag)};
    }
    chakra::Node out = node(name, chakra::COMM_COLL_NODE, false);
    attribute(out, "comm_type").set_int64_val(chakra_kind(c.kind));
    attribute(out, "comm_size")
        .set_int64_val(c.kind == CollKind::all_gather ? op.bytes.n / members : op.bytes.n);
    if (group.number > 0) attribute(out, "pg_name").set_string_val(std::to_string(group.number));
    return {std::move(out)};
  }

  chakra::Node message(const Op& op, const std::string& name) {
    const schemes::Channel& channel = program_.channels[op.what];
    const bool sends = op.kind == OpKind::send;
    const Role& other = program_.roles[sends ? channel.to_role : channel.from_role];
    const uint32_t key = first_key_[op.what] + op.key;
    const uint32_t number = (sends ? sent_ : received_)[key]++;
    return to_or_from(sends, name, grid_device(program_, other, place_.instance),
                      w_.message_bytes_[op.what][op.key], key + different_tags() * number);
  }

  /// Of the first messages of all.
  uint32_t different_tags() const { return keys_ + static_cast<uint32_t>(program_.collectives.size()); }

  chakra::Node to_or_from(bool sends, const std::string& name, int64_t other, int64_t bytes, uint32_t tag) {
    chakra::Node out = node(name, sends ? chakra::COMM_SEND_NODE : chakra::COMM_RECV_NODE, false);
    attribute(out, "comm_size").set_int64_val(bytes);
    attribute(out, "comm_src").set_int32_val(static_cast<int32_t>(sends ? device_ : other));
    attribute(out, "comm_dst").set_int32_val(static_cast<int32_t>(sends ? other : device_));
    attribute(out, "comm_tag").set_int32_val(static_cast<int32_t>(tag & 0x7fffffffU));
    return out;
  }

  const ChakraWriter& w_;
  const Program& program_;
  const int64_t device_;
  const Place place_;
  const Role& role_;
  const sim::RoleCosts& costs_;
  const uint32_t type_;
  std::string out_;
  uint64_t last_ = 0;
  std::vector<std::vector<Nodes>> ids_;  ///< [iteration][op]
  std::array<Nodes, schemes::kLanes> before_;
  std::array<int64_t, schemes::kLanes> owed_{};  ///< picoseconds that are not written yet
  Time issued_;
  std::vector<uint32_t> first_key_, sent_, received_;
  uint32_t keys_ = 0, shifts_ = 0;
};

std::string ChakraWriter::rank(int64_t device) const { return Rank(*this, device).text(); }

#else

std::string ChakraWriter::rank(int64_t) const {
  throw DeviceError(
      "this program was built without protobuf, which Chakra traces need: apt-get install libprotobuf-dev "
      "protobuf-compiler, and build again");
}

#endif

}  // namespace tandem::calibration
