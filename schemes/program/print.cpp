// SPDX-License-Identifier: Apache-2.0
// Program as text. Grammar (one item a line, "#" starts a comment line):
//   tandem-program-1
//   samples <n>
//   delay <n>                                                where gradients are applied later
//   compression <kind> density=<x> rank=<n> feedback=<0|1>   where gradients travel in another form
//   comm-cores <n>                                           where cores do nothing but communicate
//   micro-batches <n>                                        where a step takes more than one iteration
//   sharding parameters=<n> gradients=<n> state=<n> [experts=<n>] [keeps=1]
//   [stays=1]   where not all are 1
//   replicas <n>                                             where not all instances of role 0
//   grid <axis>:<size>,...                                   where several roles divide the devices
//   bucket <i> first=<n> elements=<n> [role=<n>]
//   collective <i> <kind> axes=<mask> algorithm=<name> root=<n>
//   channel <i> <from role> -> <to role> <address> keys=<bytes>,<bytes>... [layers=<layer>+...,- ...]
//     [parts=<n>]
//   store <i> role=<n> batch=<n> quorum=<n> slack=<n> drop_late=<0|1> shares=<n>
//   [averaging=<rule>:<rate>:<weight>]
//     [rate=<rule>] [models=own]
//   role <site> mesh=<axis>:<size>,... on=<channel or -> [at=<coordinate or *>,...]
//     [slice=<first>+<layers>,... or all/<ways>[s] [dealt=<n>[w]] [capacity=<x>] [context=<n>]] "<name>"
//     <i> <kind> <lane> <fields> [of=<payload>:<key>] [bytes=<n>] [every=<n>] [from=<n>] [until=<n>]
//     [micro=<n>] [after=<op>[@<lag>],...] "<label>"
// with the fields
//   compute     task=<i> pass=<pass>[-alone] layers=<first>+<count> kernels=<n> flops=<n> moved=<bytes>
//               [averaging=<rule>:<rate>:<weight>]
//   copy        copy=<i> path=<kind> samples=<n>
//   collective  collective=<i>        send, recv  channel=<i> key=<n>        apply, gate  store=<i>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

#include "schemes/program/program.h"

namespace tandem::schemes {

namespace {

using Out = std::back_insert_iterator<std::string>;

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}

void print_mesh(Out out, const Mesh& mesh) {
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    fmt::format_to(out, "{}{}:{}", a == 0 ? "" : ",", mesh.axes[a].name, mesh.axes[a].size);
  }
}

void print_place(Out out, const Role& role) {
  for (std::size_t a = 0; a < role.at.size(); ++a) {
    fmt::format_to(out, "{}{}", a == 0 ? " at=" : ",", role.at[a] < 0 ? "*" : std::to_string(role.at[a]));
  }
  if (role.slice == ModelSlice{}) return;
  fmt::format_to(out, " slice=");
  if (role.slice.ranges.empty()) fmt::format_to(out, "all");
  for (std::size_t i = 0; i < role.slice.ranges.size(); ++i) {
    const LayerRange& r = role.slice.ranges[i];
    fmt::format_to(out, "{}{}+{}", i == 0 ? "" : ",", r.first, r.layers);
  }
  const ModelSlice& s = role.slice;
  fmt::format_to(out, "/{}{}", s.ways, s.sequence ? (s.keeps_inputs ? "k" : "s") : s.samples ? "b" : "");
  if (s.experts > 1 || s.whole_experts)
    fmt::format_to(out, " dealt={}{}", s.experts, s.whole_experts ? "w" : "");
  if (s.capacity > 0) fmt::format_to(out, " capacity={}", s.capacity);
  if (s.context > 1) fmt::format_to(out, " context={}", s.context);
}

void print_averaging(Out out, const Averaging& a) {
  if (a.rule != Averaging::Rule::none)
    fmt::format_to(out, " averaging={}:{}:{}", name(a.rule), a.rate, a.weight);
}

void print_tables(Out out, const Program& p) {
  fmt::format_to(out, "tandem-program-1\nsamples {}\n", p.samples_per_iteration);
  if (p.delay != 0) fmt::format_to(out, "delay {}\n", p.delay);
  if (const Compression& c = p.compression; c.kind != Compression::Kind::none)
    fmt::format_to(out, "compression {} density={} rank={} feedback={}\n", name(c.kind), c.density, c.rank,
                   c.feedback ? 1 : 0);
  if (p.comm_cores != 0) fmt::format_to(out, "comm-cores {}\n", p.comm_cores);
  if (p.micro_batches != 1) fmt::format_to(out, "micro-batches {}\n", p.micro_batches);
  if (const Sharding& s = p.sharding; s.parameters != 1 || s.gradients != 1 || s.state != 1)
    fmt::format_to(out, "sharding parameters={} gradients={} state={}{}{}{}\n", s.parameters, s.gradients,
                   s.state, s.experts > 0 ? fmt::format(" experts={}", s.experts) : "",
                   s.keeps ? " keeps=1" : "", s.stays ? " stays=1" : "");
  if (p.replicas != 0) fmt::format_to(out, "replicas {}\n", p.replicas);
  if (!p.grid.axes.empty()) {
    fmt::format_to(out, "grid ");
    print_mesh(out, p.grid);
    fmt::format_to(out, "\n");
  }
  for (std::size_t i = 0; i < p.buckets.size(); ++i) {
    fmt::format_to(out, "bucket {} first={} elements={}", i, p.buckets[i].first, p.buckets[i].elements);
    if (p.buckets[i].role != 0) fmt::format_to(out, " role={}", p.buckets[i].role);
    fmt::format_to(out, "\n");
  }
  for (std::size_t i = 0; i < p.collectives.size(); ++i) {
    const Collective& c = p.collectives[i];
    fmt::format_to(out, "collective {} {} axes={} algorithm={} root={}\n", i, name(c.kind), c.axes,
                   c.algorithm, c.root);
  }
  for (std::size_t i = 0; i < p.channels.size(); ++i) {
    const Channel& c = p.channels[i];
    fmt::format_to(out, "channel {} {} -> {} {} keys=", i, c.from_role, c.to_role, name(c.address));
    for (std::size_t k = 0; k < c.key_bytes.size(); ++k)
      fmt::format_to(out, "{}{}", k == 0 ? "" : ",", c.key_bytes[k].n);
    for (std::size_t k = 0; k < c.key_layers.size(); ++k)
      fmt::format_to(out, "{}{}", k == 0 ? " layers=" : ",",
                     c.key_layers[k].empty() ? "-" : fmt::format("{}", fmt::join(c.key_layers[k], "+")));
    if (!c.owners.empty()) fmt::format_to(out, " owners={}", fmt::join(c.owners, ","));
    if (c.parts > 1) fmt::format_to(out, " parts={}", c.parts);
    fmt::format_to(out, "\n");
  }
  for (std::size_t i = 0; i < p.stores.size(); ++i) {
    const Store& s = p.stores[i];
    fmt::format_to(out, "store {} role={} batch={} quorum={} slack={} drop_late={} shares={}", i, s.role,
                   s.batch, s.quorum, s.slack, s.drop_late ? 1 : 0, s.shares);
    print_averaging(out, s.averaging);
    if (s.rate != Store::Rate::fixed) fmt::format_to(out, " rate={}", name(s.rate));
    if (s.reader >= 0) fmt::format_to(out, " reader={}", s.reader);
    fmt::format_to(out, "{}\n", s.own_models ? " models=own" : s.locked ? "" : " locked=0");
  }
}

void print_task(Out out, const Program& p, uint32_t index) {
  const Task& t = p.tasks[index];
  int64_t launches = 0;
  Flops flops;
  Bytes moved;
  for (const Kernel& k : t.kernels) {
    launches = checked_add(launches, k.repeat, "kernel launches");
    flops += k.flops * k.repeat;
    moved += (k.read + k.written) * k.repeat;
  }
  fmt::format_to(out, " task={} pass={}{} layers={}+{} kernels={} flops={} moved={}", index, name(t.pass),
                 t.parts   ? "-alone"
                 : t.again ? "-again"
                           : "",
                 t.layer, t.layers, launches, flops.n, moved.n);
  print_averaging(out, t.averaging);
}

void print_op(Out out, const Program& p, std::size_t index, const Op& op) {
  fmt::format_to(out, "  {} {} {}", index, name(op.kind), name(op.lane));
  switch (op.kind) {
    case OpKind::compute:
      print_task(out, p, op.what);
      break;
    case OpKind::copy:
      fmt::format_to(out, " copy={} path={} samples={}", op.what, name(p.copies[op.what].kind),
                     p.copies[op.what].samples);
      break;
    case OpKind::collective:
      fmt::format_to(out, " collective={}", op.what);
      break;
    case OpKind::send:
    case OpKind::recv:
      fmt::format_to(out, " channel={} key={}", op.what, op.key);
      break;
    case OpKind::apply:
    case OpKind::gate:
      fmt::format_to(out, " store={}", op.what);
      break;
  }
  if (op.payload != Payload::none) fmt::format_to(out, " of={}:{}", name(op.payload), op.key);
  if (op.bytes.n != 0) fmt::format_to(out, " bytes={}", op.bytes.n);
  if (op.every != 1) fmt::format_to(out, " every={}", op.every);
  if (op.from != 0) fmt::format_to(out, " from={}", op.from);
  if (op.until != Op::kEver) fmt::format_to(out, " until={}", op.until);
  if (op.micro != 0) fmt::format_to(out, " micro={}", op.micro);
  for (std::size_t d = 0; d < op.deps.size(); ++d) {
    fmt::format_to(out, "{}{}", d == 0 ? " after=" : ",", op.deps[d].op);
    if (op.deps[d].lag != 0) fmt::format_to(out, "@{}", op.deps[d].lag);
  }
  fmt::format_to(out, " {}\n", in_quotes(p.labels[op.label]));
}

}  // namespace

std::string print(const Program& p) {
  std::string text;
  const Out out = std::back_inserter(text);
  print_tables(out, p);
  for (const Role& role : p.roles) {
    fmt::format_to(out, "role {} mesh=", name(role.site));
    print_mesh(out, role.mesh);
    fmt::format_to(out, " on={}", role.on_channel < 0 ? "-" : std::to_string(role.on_channel));
    print_place(out, role);
    fmt::format_to(out, " {}\n", in_quotes(role.name));
    for (std::size_t i = 0; i < role.ops.size(); ++i) print_op(out, p, i, role.ops[i]);
  }
  return text;
}

}  // namespace tandem::schemes
