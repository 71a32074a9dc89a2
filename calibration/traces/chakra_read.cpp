// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <queue>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "calibration/traces/chakra.h"

#ifdef TANDEM_HAS_PROTOBUF
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <calibration/traces/chakra.pb.h>
#endif

namespace tandem::calibration {

#ifdef TANDEM_HAS_PROTOBUF

namespace {

constexpr uint32_t kMostMessage = 64 << 20;  ///< bytes

[[noreturn]] void refuse_chakra(const std::string& file, const std::string& why) {
  throw InputError(file + ": " + why);
}

/// Bytes of a source, for protobuf.
class SourceStream : public google::protobuf::io::CopyingInputStream {
 public:
  explicit SourceStream(const ByteSource& source) : source_(source) {}
  int Read(void* to, int size) override {
    return static_cast<int>(source_(static_cast<char*>(to), static_cast<std::size_t>(size)));
  }

 private:
  const ByteSource& source_;
};

std::optional<int64_t> integer(const chakra::AttributeProto& a) {
  switch (a.value_case()) {
    case chakra::AttributeProto::kInt32Val:
      return a.int32_val();
    case chakra::AttributeProto::kInt64Val:
      return a.int64_val();
    case chakra::AttributeProto::kUint32Val:
      return a.uint32_val();
    case chakra::AttributeProto::kUint64Val:
      return static_cast<int64_t>(std::min<uint64_t>(a.uint64_val(), INT64_MAX));
    case chakra::AttributeProto::kSint32Val:
      return a.sint32_val();
    case chakra::AttributeProto::kSint64Val:
      return a.sint64_val();
    case chakra::AttributeProto::kFixed32Val:
      return a.fixed32_val();
    case chakra::AttributeProto::kFixed64Val:
      return static_cast<int64_t>(std::min<uint64_t>(a.fixed64_val(), INT64_MAX));
    case chakra::AttributeProto::kBoolVal:
      return a.bool_val() ? 1 : 0;
    default:
      return {};
  }
}

std::string chakra_kind(int64_t type) {
  static constexpr const char* kNames[] = {"all-reduce",     "reduce",    "all-gather", "gather",
                                           "scatter",        "broadcast", "all-to-all", "reduce-scatter",
                                           "reduce-scatter", "barrier"};
  return type >= 0 && type < 10 ? kNames[type] : "";
}

/// A node, without what its kernel or collective says.
struct TracedNode {
  uint64_t id = 0;
  double start = 0, length = 0;  ///< seconds
  int64_t lane = 0;              ///< what runs one node at a time; -1: takes no time
  bool host = true;
  std::vector<uint64_t> waits_for;  ///< numbers, then indices
  std::vector<uint64_t> called_by;  ///< numbers
};

constexpr int64_t kFree = -1, kCommunication = -2, kStreams = int64_t{1} << 40;

class ChakraReader {
 public:
  ChakraReader(const ByteSource& source, std::string file) : source_(source), file_(std::move(file)) {
    trace_.file = file_;
    trace_.rank = rank_of(file_);
  }

  Trace read() {
    read_all();
    if (trace_.kernels.empty())
      refuse_chakra(file_, "no node of this Chakra trace runs on a device: only the host was traced");
    if (!timed_) schedule();
    finish();
    return std::move(trace_);
  }

 private:
  /// The number before ".et".
  static int64_t rank_of(const std::string& file) {
    const std::size_t end = file.rfind(".et");
    if (end == std::string::npos) return 0;
    std::size_t begin = end;
    while (begin > 0 && file[begin - 1] >= '0' && file[begin - 1] <= '9') --begin;
    int32_t out = 0;
    const auto [at, error] = std::from_chars(file.data() + begin, file.data() + end, out);
    return error == std::errc() && begin > 0 && file[begin - 1] == '.' ? out : 0;
  }

  void read_all() {
    SourceStream bytes(source_);
    google::protobuf::io::CopyingInputStreamAdaptor stream(&bytes);
    chakra::GlobalMetadata about;
    if (!next(stream, about)) refuse_chakra(file_, "nothing in it");
    for (chakra::Node node; next(stream, node); node.Clear()) {
      ++trace_.events;
      add(node);
    }
  }

  /// The next message; false at the end of the file.
  bool next(google::protobuf::io::ZeroCopyInputStream& stream, google::protobuf::MessageLite& message) {
    google::protobuf::io::CodedInputStream coded(&stream);  // one each: it counts bytes up to 2^31
    uint32_t length = 0;
    const void* none = nullptr;
    int left = 0;
    if (!coded.GetDirectBufferPointer(&none, &left)) return false;
    const std::string where = fmt::format("message {} of this Chakra trace", trace_.events);
    if (!coded.ReadVarint32(&length) || length > kMostMessage)
      refuse_chakra(file_, where + " has no possible length: the file is damaged");
    const auto limit = coded.PushLimit(static_cast<int>(length));
    if (!message.MergeFromCodedStream(&coded) || coded.BytesUntilLimit() != 0)
      refuse_chakra(file_, started_ ? where + " is damaged, or the file is cut short"
                                    : "not a Chakra trace: it does not begin with one's metadata");
    started_ = true;
    coded.PopLimit(limit);
    return true;
  }

  void add(const chakra::Node& node) {
    TracedNode out;
    out.id = node.id();
    if (!index_.emplace(out.id, nodes_.size()).second)
      refuse_chakra(file_, fmt::format("two nodes have the number {}", out.id));
    int64_t stream = 0, thread = 0, type = -1, bytes = 0;
    std::string group;
    out.host = false;
    for (const chakra::AttributeProto& a : node.attr()) {
      if (a.name() == "pg_name") group = a.string_val();
      const std::optional<int64_t> value = integer(a);
      if (!value) continue;
      if (a.name() == "is_cpu_op") out.host = *value != 0;
      if (a.name() == "stream") stream = *value;
      if (a.name() == "tid") thread = *value;
      if (a.name() == "comm_type") type = *value;
      if (a.name() == "comm_size") bytes = *value;
    }
    // Of PyTorch's converter a control dependency is on the caller, and the order is in the data
    // dependencies.
    out.waits_for.assign(node.data_deps().begin(), node.data_deps().end());
    out.called_by.assign(node.ctrl_deps().begin(), node.ctrl_deps().end());
    ordered_ |= node.data_deps_size() > 0;
    constexpr uint64_t kLongest = uint64_t{1} << 43;  // 100 days
    if (node.duration_micros() > kLongest || node.start_time_micros() > uint64_t{1} << 62)
      refuse_chakra(file_, fmt::format("node {} has no possible time", out.id));
    out.length = static_cast<double>(node.duration_micros()) * 1e-6;
    out.start = static_cast<double>(node.start_time_micros()) * 1e-6;
    const bool runs = node.type() >= chakra::MEM_LOAD_NODE;
    timed_ |= runs && !out.host && node.start_time_micros() > 0;
    const bool communicates = node.type() >= chakra::COMM_SEND_NODE;
    if (node.type() == chakra::METADATA_NODE) read_groups(node.inputs().values());
    out.lane = !runs                         ? kFree
               : out.host                    ? thread
               : communicates && stream == 0 ? kCommunication
                                             : kStreams + stream;
    if (out.host) {
      ++trace_.host_events;
    } else if (runs) {
      add_kernel(node, communicates, type, bytes, group);
    }
    nodes_.push_back(std::move(out));
  }

  void add_kernel(const chakra::Node& node, bool communicates, int64_t type, int64_t bytes,
                  const std::string& group) {
    TracedKernel kernel;
    const auto [at, fresh] = names_.emplace(node.name(), static_cast<uint32_t>(trace_.names.size()));
    if (fresh) trace_.names.push_back(node.name());
    kernel.name = at->second;
    kernel.kind = communicates                       ? TracedKind::communication
                  : node.type() == chakra::COMP_NODE ? kind_of_kernel(node.name())
                                                     : TracedKind::copy;
    if (communicates) {
      TracedCollective collective;
      collective.kind = node.type() == chakra::COMM_COLL_NODE ? chakra_kind(type) : "send-receive";
      collective.bytes = std::clamp<int64_t>(bytes, 0, int64_t{1} << 40);
      kernel.collective = static_cast<int32_t>(trace_.collectives.size());
      trace_.collectives.push_back(std::move(collective));
      called_.push_back(group);
    }
    of_.push_back(nodes_.size());
    trace_.kernels.push_back(kernel);
  }

  /// PyTorch's list of process groups: JSON between "[{" and "}]", in quotes of Python. What is not that, is
  /// not read.
  void read_groups(const std::string& values) {
    const std::size_t begin = values.find("[{"), end = values.rfind("}]");
    if (begin == std::string::npos || end == std::string::npos || end < begin) return;
    try {
      const Json list = Json::parse(values.substr(begin, end + 2 - begin), "process groups");
      for (const Json& one : list.items()) {
        const auto ranks = static_cast<int64_t>(one.at("ranks").items().size());
        groups_[one.at("pg_name").as_text()] = ranks;
        trace_.world_size = std::max(trace_.world_size, ranks);
      }
    } catch (const InputError&) {  // some other metadata
    }
  }

  /// `left`: [node] that many others of those it waits for have not ended, which leads into the circle.
  [[noreturn]] void refuse_circle(const std::vector<uint32_t>& left) const {
    auto at = static_cast<std::size_t>(
        std::find_if(left.begin(), left.end(), [](uint32_t n) { return n > 0; }) - left.begin());
    for (std::size_t steps = 0; steps < left.size(); ++steps) {  // then it is in the circle itself
      const std::vector<uint64_t>& before = nodes_[at].waits_for;
      at = *std::find_if(before.begin(), before.end(), [&](uint64_t one) { return left[one] > 0; });
    }
    refuse_chakra(file_, fmt::format("node {} waits, through others, for itself", nodes_[at].id));
  }

  /// Gives nodes their starts.
  void schedule() {
    std::size_t lacking = 0;
    std::vector<uint32_t> left(nodes_.size());
    std::vector<std::vector<uint32_t>> after(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      std::vector<uint64_t>& all = nodes_[i].waits_for;
      if (!ordered_) all = nodes_[i].called_by;
      lacking += std::erase_if(all, [&](uint64_t one) { return index_.find(one) == index_.end(); });
      for (uint64_t& one : all) {
        one = index_.at(one);
        after[one].push_back(static_cast<uint32_t>(i));
        ++left[i];
      }
    }
    if (lacking > 0)
      trace_.notes.push_back(
          fmt::format("nothing waits for nodes that are not in the file: {} dependencies on them", lacking));
    using Ready = std::pair<double, std::pair<uint64_t, uint32_t>>;  // when, number, index
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (left[i] == 0) ready.push({0, {nodes_[i].id, static_cast<uint32_t>(i)}});
    }
    std::unordered_map<int64_t, double> free;
    std::vector<double> begins(nodes_.size());
    std::size_t done = 0;
    for (; !ready.empty(); ++done) {
      const auto [when, which] = ready.top();
      ready.pop();
      TracedNode& node = nodes_[which.second];
      double end = when;
      if (node.lane != kFree) {
        double& until = free[node.lane];
        if (until > when) {  // others may come before it
          ready.push({until, which});
          --done;
          continue;
        }
        end = until = when + node.length;
      }
      node.start = when;
      for (const uint32_t next : after[which.second]) {
        begins[next] = std::max(begins[next], end);
        if (--left[next] == 0) ready.push({begins[next], {nodes_[next].id, next}});
      }
    }
    if (done < nodes_.size()) refuse_circle(left);
  }

  /// Times of kernels, who launched them, and the groups that their collectives name.
  void finish() {
    double first = INFINITY;
    for (const std::size_t node : of_) first = std::min(first, nodes_[node].start);
    for (std::size_t k = 0; k < trace_.kernels.size(); ++k) {
      TracedKernel& kernel = trace_.kernels[k];
      const TracedNode& node = nodes_[of_[k]];
      kernel.start = node.start - first;
      kernel.end = kernel.start + node.length;
      for (const uint64_t before : node.waits_for) {
        const TracedNode* launch = of_index(before);
        if (launch == nullptr || !launch->host) continue;
        kernel.launch_start = launch->start - first;
        kernel.launch_end = kernel.launch_start + launch->length;
      }
      if (kernel.collective < 0) continue;
      TracedCollective& c = trace_.collectives[static_cast<std::size_t>(kernel.collective)];
      const auto group = groups_.find(called_[static_cast<std::size_t>(kernel.collective)]);
      if (group != groups_.end()) c.group = group->second;
      if (c.kind == "all-gather")
        c.bytes *= std::clamp<int64_t>(c.group > 0 ? c.group : trace_.world_size, 1, 1 << 22);
    }
    const auto is_untimed = [](const TracedKernel& k) { return k.collective < 0 || k.end <= k.start; };
    if (!trace_.collectives.empty() && std::all_of(trace_.kernels.begin(), trace_.kernels.end(), is_untimed))
      trace_.notes.emplace_back(
          "communication takes no time in it: it was written for a simulator to fill in");
    std::stable_sort(trace_.kernels.begin(), trace_.kernels.end(),
                     [](const TracedKernel& a, const TracedKernel& b) { return a.start < b.start; });
    trace_.world_size = std::max(trace_.world_size, trace_.rank + 1);
  }

  /// Of a node's waits_for, which schedule() turned into indices.
  const TracedNode* of_index(uint64_t one) const {
    if (!timed_) return &nodes_[one];
    const auto at = index_.find(one);
    return at == index_.end() ? nullptr : &nodes_[at->second];
  }

  const ByteSource& source_;
  std::string file_;
  Trace trace_;
  std::vector<TracedNode> nodes_;
  std::unordered_map<uint64_t, std::size_t> index_;  ///< by number
  std::unordered_map<std::string, uint32_t> names_;
  std::vector<std::size_t> of_;            ///< [kernel]: of nodes_
  std::vector<std::string> called_;        ///< [collective]: its group
  std::map<std::string, int64_t> groups_;  ///< ranks
  bool started_ = false;                   ///< the metadata were read
  bool timed_ = false, ordered_ = false;   ///< what runs on the device has starts; some wait for others' data
};

}  // namespace

bool looks_like_chakra(std::string_view prefix) {
  // The metadata's length, its first field (a version, or an attribute), and that field's length.
  if (prefix.size() < 4) return false;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(prefix[i]); };
  if (byte(0) < 2 || byte(0) > 127) return false;
  if (byte(1) == 0x0a && byte(2) > 0 && byte(2) <= 16 && byte(2) + 2 <= byte(0)) {
    const std::string_view version = prefix.substr(3, byte(2));
    return version.find_first_not_of("0123456789.abcdefghijklmnopqrstuvwxyz-+") == std::string_view::npos;
  }
  return byte(1) == 0x12 && byte(2) + 2 <= byte(0) && byte(3) == 0x0a;
}

Trace read_chakra(const ByteSource& source, const std::string& file) {
  return ChakraReader(source, file).read();
}

#else

bool looks_like_chakra(std::string_view) { return false; }

Trace read_chakra(const ByteSource&, const std::string&) {
  throw DeviceError(
      "this program was built without protobuf, which Chakra traces need: apt-get install libprotobuf-dev "
      "protobuf-compiler, then build again");
}

#endif

}  // namespace tandem::calibration
