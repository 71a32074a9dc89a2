// SPDX-License-Identifier: Apache-2.0
// Reads the text that print.cpp writes; the grammar stands there.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "schemes/program/program.h"

namespace tandem::schemes {

namespace {

/// Table indices above this are refused: the tables of a hostile text must not eat the memory.
constexpr int64_t kMostEntries = 1 << 20;

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text) {
    place_.file = std::make_shared<const std::string>(file);
  }

  Program run() {
    if (!next_line() || rest_ != "tandem-program-1") fail("expected \"tandem-program-1\"");
    while (next_line()) item();
    return std::move(p_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { throw InputError(place_, why); }

  /// Moves `rest_` to the next line that is neither empty nor a comment.
  bool next_line() {
    while (!text_.empty()) {
      ++place_.line;
      const auto end = std::min(text_.find('\n'), text_.size());
      rest_ = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
      if (!rest_.empty() && rest_[0] != '#') return true;
    }
    return false;
  }

  std::string_view word() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
    const auto end = std::min(rest_.find(' '), rest_.size());
    const std::string_view out = rest_.substr(0, end);
    if (out.empty()) fail("the line ends too early");
    rest_.remove_prefix(end);
    return out;
  }

  int64_t number(std::string_view text, int64_t low = 0, int64_t high = INT64_MAX) const {
    int64_t out = 0;
    const auto r = std::from_chars(text.data(), text.data() + text.size(), out);
    if (r.ec != std::errc{} || r.ptr != text.data() + text.size() || out < low || out > high) {
      fail(fmt::format("\"{}\" is not a whole number in {} .. {}", printable(text), low, high));
    }
    return out;
  }
  uint32_t index(std::string_view text) const { return static_cast<uint32_t>(number(text, 0, kMostEntries)); }

  /// The value of "key=value".
  std::string_view field(std::string_view key) {
    const std::string_view w = word();
    if (!w.starts_with(key) || w.size() <= key.size() || w[key.size()] != '=') {
      fail(fmt::format("expected {}=..., found \"{}\"", key, printable(w)));
    }
    return w.substr(key.size() + 1);
  }

  template <typename E>
  E enumerator(std::string_view text, int count) const {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) {
      if (name(static_cast<E>(i)) == text) return static_cast<E>(i);
      names.emplace_back(name(static_cast<E>(i)));
    }
    fail(fmt::format("no \"{}\".{} Valid: {}", printable(text), did_you_mean(text, names),
                     fmt::join(names, ", ")));
  }

  std::string quoted() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
    if (rest_.size() < 2 || rest_.front() != '"' || rest_.back() != '"')
      fail("expected a name in double quotes");
    std::string out;
    for (std::size_t i = 1; i + 1 < rest_.size(); ++i) {
      if (rest_[i] == '\\' && i + 2 < rest_.size()) ++i;
      out += rest_[i];
    }
    return out;
  }

  static std::vector<std::string_view> list(std::string_view text) {
    std::vector<std::string_view> out;
    while (!text.empty()) {
      const auto end = std::min(text.find(','), text.size());
      out.push_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
  }

  void item() {
    if (rest_[0] >= '0' && rest_[0] <= '9') return op();
    const std::string_view what = word();
    if (what == "samples")
      p_.samples_per_iteration = number(word());
    else if (what == "delay")
      p_.delay = static_cast<int32_t>(number(word(), 1, INT32_MAX));
    else if (what == "compression")
      compression();
    else if (what == "comm-cores")
      p_.comm_cores = static_cast<int32_t>(number(word(), 1, INT32_MAX));
    else if (what == "micro-batches")
      p_.micro_batches = static_cast<int32_t>(number(word(), 1, INT32_MAX));
    else if (what == "sharding")
      sharding();
    else if (what == "replicas")
      p_.replicas = number(word(), 1);
    else if (what == "grid")
      p_.grid = mesh(word());
    else if (what == "bucket")
      bucket();
    else if (what == "collective")
      collective();
    else if (what == "channel")
      channel();
    else if (what == "store")
      store();
    else if (what == "role")
      role();
    else
      fail(
          fmt::format("\"{}\" is none of samples, delay, compression, comm-cores, micro-batches, sharding, "
                      "replicas, grid, bucket, "
                      "collective, channel, store, "
                      "role or an op's number",
                      printable(what)));
  }

  /// Tables come in order, so that an index is also a count.
  void in_order(std::size_t size) {
    if (number(word()) != static_cast<int64_t>(size)) fail(fmt::format("expected number {}", size));
  }

  void bucket() {
    in_order(p_.buckets.size());
    Bucket bucket;
    bucket.first = number(field("first"));
    bucket.elements = number(field("elements"));
    if (has("role=")) bucket.role = index(field("role"));
    p_.buckets.push_back(bucket);
  }

  void collective() {
    in_order(p_.collectives.size());
    Collective c;
    c.kind = enumerator<CollKind>(word(), kCollKinds + 1);
    c.axes = static_cast<uint32_t>(number(field("axes"), 0, UINT32_MAX));
    c.algorithm = field("algorithm");
    c.root = static_cast<uint32_t>(number(field("root"), 0, UINT32_MAX));
    p_.collectives.push_back(std::move(c));
  }

  void sharding() {
    p_.sharding.parameters = number(field("parameters"), 1);
    p_.sharding.gradients = number(field("gradients"), 1);
    p_.sharding.state = number(field("state"), 1);
    if (has("experts=")) p_.sharding.experts = number(field("experts"), 1);
    p_.sharding.keeps = has("keeps=") && number(field("keeps"), 0, 1) == 1;
    p_.sharding.stays = has("stays=") && number(field("stays"), 0, 1) == 1;
  }

  void compression() {
    p_.compression.kind = enumerator<Compression::Kind>(word(), 4);
    p_.compression.density = real(field("density"));
    p_.compression.rank = static_cast<int32_t>(number(field("rank"), 1, INT32_MAX));
    p_.compression.feedback = number(field("feedback"), 0, 1) == 1;
  }

  /// "3+5", or "-" for none.
  std::vector<uint32_t> layers_of(std::string_view text) {
    std::vector<uint32_t> out;
    while (!text.empty() && text != "-") {
      const auto end = std::min(text.find('+'), text.size());
      out.push_back(index(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
  }

  void channel() {
    in_order(p_.channels.size());
    Channel c;
    c.from_role = index(word());
    if (word() != "->") fail("expected \"->\"");
    c.to_role = index(word());
    c.address = enumerator<Address>(word(), kAddresses);
    for (const std::string_view b : list(field("keys"))) c.key_bytes.push_back({number(b)});
    if (has("layers=")) {
      for (const std::string_view of : list(field("layers"))) c.key_layers.push_back(layers_of(of));
    }
    if (has("owners=")) {
      for (const std::string_view owner : list(field("owners"))) c.owners.push_back(index(owner));
    }
    if (has("parts=")) c.parts = static_cast<int32_t>(index(field("parts")));
    p_.channels.push_back(std::move(c));
  }

  void store() {
    in_order(p_.stores.size());
    Store s;
    s.role = index(field("role"));
    s.batch = static_cast<int32_t>(number(field("batch"), 0, INT32_MAX));
    s.quorum = static_cast<int32_t>(number(field("quorum"), 0, INT32_MAX));
    s.slack = static_cast<int32_t>(number(field("slack"), 0, INT32_MAX));
    s.drop_late = number(field("drop_late"), 0, 1) == 1;
    s.shares = static_cast<int32_t>(number(field("shares"), 0, INT32_MAX));
    averaging(s.averaging);
    if (has("rate=")) s.rate = enumerator<Store::Rate>(field("rate"), 3);
    if (has("reader=")) s.reader = static_cast<int32_t>(number(field("reader"), 0, INT32_MAX));
    if (has("models=")) s.own_models = field("models") == "own";
    if (has("locked=")) s.locked = number(field("locked"), 0, 1) == 1;
    p_.stores.push_back(s);
  }

  double real(std::string_view text) const {
    double out = 0;
    const auto r = std::from_chars(text.data(), text.data() + text.size(), out);
    if (r.ec != std::errc{} || r.ptr != text.data() + text.size() || !(out >= -1e6 && out <= 1e6))
      fail(fmt::format("\"{}\" is no number in -1e6 .. 1e6", printable(text)));
    return out;
  }

  void averaging(Averaging& to) {
    if (!has("averaging=")) return;
    const std::string_view text = field("averaging");
    const auto first = text.find(':'), second = text.find(':', std::min(first, text.size() - 1) + 1);
    if (first == std::string_view::npos || second == std::string_view::npos)
      fail("expected averaging=rule:rate:weight");
    to = {enumerator<Averaging::Rule>(text.substr(0, first), std::ssize(Averaging::kNames)),
          real(text.substr(first + 1, second - first - 1)), real(text.substr(second + 1))};
  }

  Mesh mesh(std::string_view text) const {
    Mesh out;
    for (const std::string_view axis : list(text)) {
      const auto colon = axis.find(':');
      if (colon == std::string_view::npos) fail("expected axis:size,...");
      out.axes.push_back({std::string(axis.substr(0, colon)),
                          static_cast<int32_t>(number(axis.substr(colon + 1), 0, INT32_MAX))});
    }
    return out;
  }

  ModelSlice slice(std::string_view text) const {
    ModelSlice out;
    const auto slash = text.find('/');
    if (slash == std::string_view::npos) fail("expected slice=first+layers,.../ways");
    std::string_view ways = text.substr(slash + 1);
    out.sequence = ways.ends_with('s');
    out.samples = ways.ends_with('b');
    out.keeps_inputs = ways.ends_with('k');
    out.sequence = out.sequence || out.keeps_inputs;
    if (out.sequence || out.samples) ways.remove_suffix(1);
    out.ways = static_cast<int32_t>(number(ways, 1, INT32_MAX));
    if (text.substr(0, slash) == "all") return out;
    for (const std::string_view range : list(text.substr(0, slash))) {
      const auto plus = std::min(range.find('+'), range.size());
      out.ranges.push_back(
          {index(range.substr(0, plus)), index(range.substr(std::min(plus + 1, range.size())))});
    }
    return out;
  }

  /// Of experts and of sequences.
  void division(ModelSlice& slice) {
    if (has("dealt=")) {
      std::string_view dealt = field("dealt");
      slice.whole_experts = dealt.ends_with('w');
      if (slice.whole_experts) dealt.remove_suffix(1);
      slice.experts = static_cast<int32_t>(number(dealt, 1, INT32_MAX));
    }
    if (has("capacity=")) {
      const std::string_view text = field("capacity");
      const auto end = std::from_chars(text.data(), text.data() + text.size(), slice.capacity);
      if (end.ec != std::errc() || end.ptr != text.data() + text.size() || !(slice.capacity > 0) ||
          slice.capacity > 1e6)
        fail("expected capacity=<factor>");
    }
    if (has("context=")) slice.context = static_cast<int32_t>(number(field("context"), 1, INT32_MAX));
  }

  void role() {
    Role r;
    r.site = enumerator<Site>(word(), 3);
    r.mesh = mesh(field("mesh"));
    const std::string_view on = field("on");
    if (on != "-") r.on_channel = static_cast<int32_t>(index(on));
    if (has("at=")) {
      for (const std::string_view c : list(field("at")))
        r.at.push_back(c == "*" ? -1 : static_cast<int32_t>(number(c, 0, INT32_MAX)));
    }
    if (has("slice=")) {
      r.slice = slice(field("slice"));
      division(r.slice);
    }
    r.name = quoted();
    p_.roles.push_back(std::move(r));
  }

  /// The line goes on with that.
  bool has(std::string_view key) {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
    return rest_.starts_with(key);
  }

  template <typename T>
  T& entry(std::vector<T>& table, uint32_t at) {
    if (at >= table.size()) table.resize(at + 1);
    return table[at];
  }

  void task(Op& op) {
    op.what = index(field("task"));
    Task& t = entry(p_.tasks, op.what);
    t = {};
    std::string_view pass = field("pass");
    t.parts = pass.ends_with("-alone");
    if (t.parts) pass.remove_suffix(std::string_view("-alone").size());
    t.again = pass.ends_with("-again");
    if (t.again) pass.remove_suffix(std::string_view("-again").size());
    t.pass = enumerator<Pass>(pass, kPasses);
    const std::string_view span = field("layers");
    const auto plus = std::min(span.find('+'), span.size());
    t.layer = index(span.substr(0, plus));
    t.layers = index(span.substr(std::min(plus + 1, span.size())));
    const int64_t launches = number(field("kernels"));
    Kernel all;  // carries what was printed of them; a second one only makes the launches add up
    all.pass = t.pass;
    all.flops.n = number(field("flops"));
    all.read.n = number(field("moved"));
    averaging(t.averaging);
    if (launches > 0) t.kernels.push_back(all);
    if (launches > 1) {
      Kernel others;
      others.pass = t.pass;
      others.repeat = launches - 1;
      t.kernels.push_back(others);
    }
  }

  void copy(Op& op) {
    op.what = index(field("copy"));
    Copy& c = entry(p_.copies, op.what);
    c.kind = enumerator<CopyKind>(field("path"), kCopyKinds);
    c.samples = number(field("samples"));
  }

  void payload(Op& op, std::string_view text) const {
    const auto colon = text.find(':');
    if (colon == std::string_view::npos) fail("expected of=payload:key");
    op.payload = enumerator<Payload>(text.substr(0, colon), kPayloads);
    op.key = index(text.substr(colon + 1));
  }

  void deps(Op& op, std::string_view text) const {
    for (const std::string_view d : list(text)) {
      const auto at = d.find('@');
      const int64_t lag = at == std::string_view::npos ? 0 : number(d.substr(at + 1), 1, UINT16_MAX);
      op.deps.push_back({index(d.substr(0, at)), static_cast<uint16_t>(lag)});
    }
  }

  void op() {
    if (p_.roles.empty()) fail("an op before the first role");
    in_order(p_.roles.back().ops.size());
    Op op;
    op.kind = enumerator<OpKind>(word(), 7);
    op.lane = enumerator<Lane>(word(), kLanes);
    switch (op.kind) {
      case OpKind::compute:
        task(op);
        break;
      case OpKind::copy:
        copy(op);
        break;
      case OpKind::collective:
        op.what = index(field("collective"));
        break;
      case OpKind::send:
      case OpKind::recv:
        op.what = index(field("channel"));
        op.key = index(field("key"));
        break;
      case OpKind::apply:
      case OpKind::gate:
        op.what = index(field("store"));
        break;
    }
    if (has("of=")) payload(op, field("of"));
    if (has("bytes=")) op.bytes.n = number(field("bytes"));
    if (has("every=")) op.every = static_cast<uint16_t>(number(field("every"), 1, UINT16_MAX));
    if (has("from=")) op.from = static_cast<uint32_t>(number(field("from"), 1, Op::kEver - 1));
    if (has("until=")) op.until = static_cast<uint32_t>(number(field("until"), 0, Op::kEver - 1));
    if (has("micro=")) op.micro = static_cast<uint16_t>(number(field("micro"), 1, UINT16_MAX));
    if (has("after=")) deps(op, field("after"));
    op.label = label(quoted());
    p_.roles.back().ops.push_back(std::move(op));
  }

  uint32_t label(const std::string& text) {
    const auto [at, fresh] = labels_.try_emplace(text, static_cast<uint32_t>(p_.labels.size()));
    if (fresh) p_.labels.push_back(text);
    return at->second;
  }

  std::string_view text_, rest_;
  Place place_;
  Program p_;
  std::map<std::string, uint32_t> labels_;
};

}  // namespace

Program parse_program(std::string_view text, const std::string& file) { return Parser(text, file).run(); }

}  // namespace tandem::schemes
