// SPDX-License-Identifier: Apache-2.0
#include "calibration/traces/kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "base/error.h"

namespace tandem::calibration {

namespace {

constexpr double kLatest = 1e11;  // seconds: a clock counts from 1970 or from the start of the machine
constexpr std::size_t kMostKernels = 50'000'000, kMostName = 4096;

/// Characters of a source, one after another.
class SourceIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  struct Buffer {
    const ByteSource* source;
    std::vector<char> bytes = std::vector<char>(1 << 20);
    std::size_t at = 0, size = 0;
    bool fill() {
      at = 0;
      size = (*source)(bytes.data(), bytes.size());
      return size > 0;
    }
  };
  SourceIterator() = default;
  explicit SourceIterator(Buffer* buffer) : buffer_(buffer->fill() ? buffer : nullptr) {}
  reference operator*() const { return buffer_->bytes[buffer_->at]; }
  SourceIterator& operator++() {
    if (++buffer_->at == buffer_->size && !buffer_->fill()) buffer_ = nullptr;
    return *this;
  }
  bool operator==(const SourceIterator& o) const { return buffer_ == o.buffer_; }
  bool operator!=(const SourceIterator& o) const { return buffer_ != o.buffer_; }

 private:
  Buffer* buffer_ = nullptr;  ///< null: the end
};

/// One entry of "traceEvents" with the arguments that matter.
struct TraceEvent {
  std::string ph, category, name;
  std::string thread;  ///< process and thread
  double start = 0, seconds = 0;
  int64_t device = 0, correlation = -1;
  int64_t in_elements = 0, out_elements = 0, group = 0;
  std::string collective, dtype;
  int64_t input_elements = 0;  ///< of the first input
  std::string input_type;
};

int64_t bytes_of_type(std::string_view dtype) {
  static constexpr std::pair<std::string_view, int64_t> kTypes[] = {
      {"bfloat16", 2}, {"float16", 2}, {"half", 2},  {"float8", 1}, {"double", 8},      {"float64", 8},
      {"float", 4},    {"long", 8},    {"int64", 8}, {"short", 2},  {"signed char", 1}, {"unsigned char", 1},
      {"char", 1},     {"byte", 1},    {"uint8", 1}, {"int8", 1},   {"bool", 1},        {"int", 4},
  };
  std::string lower(dtype);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const auto& [word, bytes] : kTypes) {
    if (lower.find(word) != std::string::npos) return bytes;
  }
  return 0;
}

bool is_of_device(const std::string& category) {
  return category == "kernel" || category == "Kernel" || category == "gpu_memcpy" || category == "Memcpy" ||
         category == "gpu_memset" || category == "Memset";
}
bool is_launch(const std::string& category) {
  return category == "cuda_runtime" || category == "cuda_driver" || category == "hip_runtime" ||
         category == "Runtime" || category == "xpu_runtime";
}

struct HostLaunch {
  double start, end;
  uint32_t thread;
};
/// What a host thread did between two times.
struct AskedCollective {
  double start, end;
  uint32_t collective;
};

/// Collects events while the file is read, and joins them when it was.
class TraceCollector {
 public:
  explicit TraceCollector(const std::string& file) { out_.file = file; }

  void device_name(std::string name) { device_names_.push_back(std::move(name)); }
  Trace& trace() { return out_; }

  void add(TraceEvent& e) {
    ++out_.events;
    if (e.ph != "X") return;
    if (std::abs(e.start) > kLatest || e.seconds > kLatest)
      throw InputError(
          fmt::format("{}: a time of {:.6g} s", out_.file, std::max(std::abs(e.start), e.seconds)));
    if (!is_of_device(e.category)) ++out_.host_events;
    first_ = std::min(first_, e.start);
    if (is_of_device(e.category)) {
      add_kernel(e);
    } else if (is_launch(e.category)) {
      if (e.correlation >= 0)
        launches_.insert_or_assign(e.correlation, HostLaunch{e.start, e.start + e.seconds, thread(e.thread)});
    } else if (e.category.rfind("gpu_", 0) != 0) {
      add_host(e);
    }
  }

  Trace take() {
    if (out_.kernels.empty()) {
      throw InputError(out_.file + (out_.events == 0
                                        ? ": no events in \"traceEvents\""
                                        : ": nothing ran on a device: the profiler recorded the host "
                                          "alone (ProfilerActivity.CUDA records devices)"));
    }
    for (auto& [thread, asked] : asked_)
      std::sort(asked.begin(), asked.end(),
                [](const AskedCollective& a, const AskedCollective& b) { return a.start < b.start; });
    for (std::size_t i = 0; i < out_.kernels.size(); ++i) join(out_.kernels[i], correlation_[i]);
    std::stable_sort(out_.kernels.begin(), out_.kernels.end(),
                     [](const TracedKernel& a, const TracedKernel& b) { return a.start < b.start; });
    take_steps();
    const auto device = static_cast<std::size_t>(out_.kernels[0].device);
    if (!device_names_.empty()) out_.device = device_names_[std::min(device, device_names_.size() - 1)];
    return std::move(out_);
  }

 private:
  void add_kernel(const TraceEvent& e) {
    if (out_.kernels.size() == kMostKernels)
      throw InputError(fmt::format("{}: more than {} kernels", out_.file, kMostKernels));
    TracedKernel k;
    k.start = e.start;
    k.end = e.start + e.seconds;
    k.device = static_cast<int32_t>(std::clamp<int64_t>(e.device, 0, 1 << 20));
    const auto [at, fresh] = names_.try_emplace(e.name, static_cast<uint32_t>(out_.names.size()));
    if (fresh) {
      out_.names.push_back(e.name);
      kinds_.push_back(kind_of_kernel(e.name));
    }
    k.name = at->second;
    const bool kernel = e.category == "kernel" || e.category == "Kernel";
    k.kind = kernel ? kinds_[k.name] : TracedKind::copy;
    if (kernel && !e.collective.empty()) k.collective = collective(e);
    out_.kernels.push_back(k);
    correlation_.push_back(e.correlation);
  }

  void add_host(const TraceEvent& e) {
    for (const std::string_view mark : {"ProfilerStep#", "Optimizer.step#"}) {
      if (e.name.rfind(mark, 0) == 0)
        (mark[0] == 'P' ? steps_ : optimiser_).push_back({e.start, e.start + e.seconds});
    }
    const bool known = e.name == "record_param_comms" && !e.collective.empty();
    if (!known && e.name.rfind("nccl:", 0) != 0) return;
    const int32_t index = collective(e);
    if (index >= 0)
      asked_[thread(e.thread)].push_back({e.start, e.start + e.seconds, static_cast<uint32_t>(index)});
  }

  int32_t collective(const TraceEvent& e) {
    TracedCollective c;
    c.kind = collective_of_name(e.collective.empty() ? e.name : e.collective);
    c.dtype = e.dtype.empty() ? e.input_type : e.dtype;
    c.elements = std::max({e.in_elements, e.out_elements, e.input_elements});
    c.group = e.group;
    int64_t bytes = 0;
    if (!__builtin_mul_overflow(c.elements, bytes_of_type(c.dtype), &bytes)) c.bytes = bytes;
    const std::string key = fmt::format("{} {} {} {}", c.kind, c.elements, c.dtype, c.group);
    const auto [at, fresh] = known_.try_emplace(key, static_cast<int32_t>(out_.collectives.size()));
    if (fresh) out_.collectives.push_back(std::move(c));
    return at->second;
  }

  uint32_t thread(const std::string& name) {
    return threads_.try_emplace(name, static_cast<uint32_t>(threads_.size())).first->second;
  }

  /// Seconds from the first event; the launch by its correlation; the collective by the launch's place.
  void join(TracedKernel& k, int64_t correlation) {
    k.start -= first_;
    k.end -= first_;
    const auto launch = correlation < 0 ? launches_.end() : launches_.find(correlation);
    if (launch != launches_.end()) {
      k.launch_start = launch->second.start - first_;
      k.launch_end = launch->second.end - first_;
    }
    if (k.kind != TracedKind::communication || k.collective >= 0) return;
    if (launch != launches_.end()) {
      const auto asked = asked_.find(launch->second.thread);
      if (asked != asked_.end()) {
        auto after = std::upper_bound(asked->second.begin(), asked->second.end(), launch->second.start,
                                      [](double t, const AskedCollective& a) { return t < a.start; });
        // The innermost that holds it: of those around each other the last that began.
        for (int back = 0; after != asked->second.begin() && back < 4; ++back) {
          --after;
          const TracedCollective& c = out_.collectives[after->collective];
          if (after->end < launch->second.start || (c.elements == 0 && k.collective >= 0)) continue;
          k.collective = static_cast<int32_t>(after->collective);
          if (c.elements > 0) break;
        }
      }
    }
    if (k.collective >= 0) return;
    TraceEvent bare;
    bare.name = out_.names[k.name];
    if (!collective_of_name(bare.name).empty()) k.collective = collective(bare);
  }

  /// The profiler's own marks, else from one optimiser's step to the next.
  void take_steps() {
    const auto by_start = [](const TracedStep& a, const TracedStep& b) { return a.start < b.start; };
    std::sort(steps_.begin(), steps_.end(), by_start);
    std::sort(optimiser_.begin(), optimiser_.end(), by_start);
    if (!steps_.empty()) {
      out_.marks = "ProfilerStep";
      for (const TracedStep& s : steps_) {
        if (out_.steps.empty() || s.start >= out_.steps.back().end) out_.steps.push_back(s);
      }
    } else if (optimiser_.size() > 1) {
      out_.marks = "Optimizer.step";
      for (std::size_t i = 1; i < optimiser_.size(); ++i) {
        if (optimiser_[i - 1].end < optimiser_[i].end)
          out_.steps.push_back({optimiser_[i - 1].end, optimiser_[i].end});
      }
    }
    for (TracedStep& s : out_.steps) s.start -= first_, s.end -= first_;
  }

  Trace out_;
  double first_ = INFINITY;
  std::vector<std::string> device_names_;
  std::vector<int64_t> correlation_;  ///< of each kernel
  std::vector<TracedKind> kinds_;     ///< of each name
  std::unordered_map<std::string, uint32_t> names_, threads_;
  std::unordered_map<std::string, int32_t> known_;
  std::unordered_map<int64_t, HostLaunch> launches_;
  std::unordered_map<uint32_t, std::vector<AskedCollective>> asked_;
  std::vector<TracedStep> steps_, optimiser_;
};

/// Where in the document a value stands: keys of the objects around it, "" for those of arrays.
class TraceReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TraceReader(TraceCollector& into, const std::string& file) : into_(into), file_(file) {}
  bool saw_events() const { return saw_events_; }
  bool saw_nodes() const { return saw_nodes_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t v) override { return number(static_cast<double>(v), v); }
  bool number_unsigned(number_unsigned_t v) override {
    return number(static_cast<double>(v), static_cast<int64_t>(std::min<number_unsigned_t>(v, INT64_MAX)));
  }
  bool number_float(number_float_t v, const string_t&) override {
    const bool whole = std::isfinite(v) && std::abs(v) < 9e18;
    return number(v, whole ? static_cast<int64_t>(v) : 0);
  }
  bool string(string_t& v) override {
    if (in_event()) {
      if (keys_.size() == 3) event_text(v);
      if (keys_.size() == 4 && keys_[2] == "args") argument_text(v);
      if (first_input() && dims_ == 0 && event_.input_type.empty() && keys_[3] == "Input type")
        event_.input_type = v;
    } else if (keys_.size() == 3 && keys_[0] == "deviceProperties" && keys_[2] == "name") {
      into_.device_name(v.substr(0, kMostName));
    } else if (keys_.size() == 2 && keys_[0] == "distributedInfo") {
      if (keys_[1] == "backend") into_.trace().backend = v.substr(0, 64);
      if (keys_[1] == "nccl_version") into_.trace().nccl = v.substr(0, 64);
    }
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return open(); }
  bool end_object() override {
    if (in_event() && keys_.size() == 3) into_.add(event_);
    return close();
  }
  bool start_array(std::size_t) override {
    if (in_event() && keys_.size() >= 4 && keys_[3] == "Input Dims") dims_ = 1, any_dims_ = false;
    return open();
  }
  bool end_array() override {
    if (first_input() && keys_[3] == "Input Dims" && any_dims_) event_.input_elements += dims_;
    any_dims_ = false;
    dims_ = 0;
    return close();
  }
  bool key(string_t& k) override {
    if (keys_.empty()) throw InputError(file_ + ": no JSON object");
    keys_.back() = k.substr(0, 64);
    if (keys_.size() == 1 && k == "traceEvents") saw_events_ = true;
    if (keys_.size() == 1 && k == "nodes") saw_nodes_ = true;
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception&) override {
    throw InputError(fmt::format("{}: no JSON at byte {}{}", file_, byte,
                                 into_.trace().events > 0 ? ": was the profiler still writing it?" : ""));
  }

 private:
  bool in_event() const { return keys_.size() >= 3 && keys_[0] == "traceEvents"; }
  /// Within the first value of a list among the arguments; counts values by commas of the outermost list.
  bool first_input() const { return in_event() && keys_.size() >= 5 && keys_[2] == "args" && index_ == 0; }

  bool open() {
    if (keys_.size() >= 64) throw InputError(file_ + ": values stand in more than 64 others");
    if (keys_.size() == 2 && keys_[0] == "traceEvents") event_ = {};
    if (keys_.size() == 4) index_ = 0;
    keys_.emplace_back();
    return true;
  }
  bool close() {
    keys_.pop_back();
    if (keys_.size() == 5) ++index_;
    return true;
  }

  bool number(double real, int64_t whole) {
    if (!in_event()) {
      if (keys_.size() == 2 && keys_[0] == "distributedInfo") {
        if (keys_[1] == "rank") into_.trace().rank = std::max<int64_t>(0, whole);
        if (keys_[1] == "world_size") into_.trace().world_size = std::max<int64_t>(1, whole);
      }
      return true;
    }
    if (keys_.size() == 3) {
      if (keys_[2] == "ts") event_.start = finite(real) * 1e-6;
      if (keys_[2] == "dur") event_.seconds = std::max(0.0, finite(real)) * 1e-6;
      if (keys_[2] == "pid" || keys_[2] == "tid") event_.thread += fmt::format("{} ", whole);
    } else if (keys_.size() == 4 && keys_[2] == "args") {
      argument(whole);
    } else if (first_input() && keys_[3] == "Input Dims" && dims_ > 0) {
      any_dims_ = true;
      if (whole < 0 || __builtin_mul_overflow(dims_, whole, &dims_)) dims_ = 0;
    }
    return true;
  }
  static double finite(double value) { return std::isfinite(value) ? value : 0; }

  void argument(int64_t value) {
    const std::string& key = keys_[3];
    if (key == "device") event_.device = value;
    if (key == "correlation") event_.correlation = value;
    if (key == "In msg nelems") event_.in_elements = value;
    if (key == "Out msg nelems") event_.out_elements = value;
    if (key == "Group size") event_.group = value;
  }
  void event_text(const std::string& value) {
    const std::string& key = keys_[2];
    if (key == "ph") event_.ph = value;
    if (key == "cat") event_.category = value;
    if (key == "name") event_.name = value.substr(0, kMostName);
    if (key == "pid" || key == "tid") event_.thread += value.substr(0, 64) + " ";
  }
  void argument_text(const std::string& value) {
    if (keys_[3] == "Collective name") event_.collective = value.substr(0, 64);
    if (keys_[3] == "dtype") event_.dtype = value.substr(0, 64);
  }

  TraceCollector& into_;
  const std::string& file_;
  std::vector<std::string> keys_;
  TraceEvent event_;
  int64_t index_ = 0;  ///< of the value in a list among the arguments
  int64_t dims_ = 0;   ///< product of the sizes read of one tensor
  bool any_dims_ = false;
  bool saw_events_ = false, saw_nodes_ = false;
};

}  // namespace

bool looks_like_kineto(std::string_view prefix) {
  const std::string_view head = prefix.substr(0, 1 << 16);
  return head.find("\"traceEvents\"") != std::string_view::npos ||
         (head.find("\"schemaVersion\"") != std::string_view::npos &&
          head.find("\"deviceProperties\"") != std::string_view::npos) ||
         (head.find("\"nodes\"") != std::string_view::npos &&
          head.find("\"start_ts\"") != std::string_view::npos);
}

Trace read_kineto(const ByteSource& source, const std::string& file) {
  TraceCollector into(file);
  TraceReader reader(into, file);
  SourceIterator::Buffer buffer{&source};
  const SourceIterator begin(&buffer);
  if (begin == SourceIterator()) throw InputError(file + ": nothing in it");
  nlohmann::json::sax_parse(begin, SourceIterator(), &reader);
  if (!reader.saw_events()) {
    throw InputError(file + (reader.saw_nodes()
                                 ? ": an execution trace, which has no times: record with torch.profiler"
                                 : ": no \"traceEvents\" in it: no trace of a profiler"));
  }
  return into.take();
}

ByteSource bytes_of(std::string_view text) {
  auto at = std::make_shared<std::size_t>(0);
  return [text, at](char* to, std::size_t size) {
    const std::size_t n = std::min(size, text.size() - *at);
    std::copy_n(text.data() + *at, n, to);
    *at += n;
    return n;
  };
}

}  // namespace tandem::calibration
