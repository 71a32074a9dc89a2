// SPDX-License-Identifier: Apache-2.0
#include "schemes/step/compression.h"

#include <algorithm>
#include <cmath>

namespace tandem::schemes {

namespace {

/// Selecting the largest: a radix selection of 32-bit numbers by 8 bits reads them four times, and once more
/// to gather what it found (Alabi et al. 2012, "Fast K-Selection Algorithms for Graphics Processing Units").
constexpr int64_t kSelectionReads = 5;

Kernel traffic(int64_t elements, int64_t flops, Bytes read, Bytes written, Pass pass) {
  Kernel k;
  k.kind = KernelKind::elementwise;
  k.pass = pass;
  k.shape = {elements, 1};
  k.flops = {flops};
  k.read = read;
  k.written = written;
  k.apart = true;
  return k;
}

/// C[m,n] = A[m,k] B[k,n] in fp32.
Kernel product_of(int64_t m, int64_t n, int64_t k, Pass pass) {
  return {KernelKind::gemm, pass, {1, m, n, k}, Flops{2} * m * n * k, Bytes{4} * (m * k + k * n),
          Bytes{4} * m * n};
}

void add(std::vector<Kernel>& to, Kernel kernel) {
  const auto same = std::find_if(to.begin(), to.end(), [&](const Kernel& k) {
    return k.kind == kernel.kind && k.shape == kernel.shape && k.read.n == kernel.read.n;
  });
  if (same != to.end())
    ++same->repeat;
  else
    to.push_back(std::move(kernel));
}

int64_t scales(int64_t elements) { return (elements + kScaledTogether - 1) / kScaledTogether; }

std::vector<Factors> factors_of(const Graph& graph, const Bucket& bucket, int32_t rank) {
  std::vector<Factors> out;
  int64_t at = 0;  // in the flat vector
  const auto& layers = graph.layers();
  for (std::size_t l = layers.size(); l-- > 0;) {
    for (std::size_t p = layers[l].parameters.size(); p-- > 0;) {
      const Parameter& t = layers[l].parameters[p];
      const int64_t begin = std::max(at, bucket.first),
                    end = std::min(at + t.elements, bucket.first + bucket.elements);
      const int64_t tensor = at;
      at += t.elements;
      if (begin >= end) continue;
      Factors f{begin - bucket.first, end - begin, 1, 0};
      const int64_t columns = t.rows > 0 ? t.elements / t.rows : 1;
      const bool whole_rows = (begin - tensor) % columns == 0 && (end - begin) % columns == 0;
      const int64_t rows = (end - begin) / columns;
      if (whole_rows && 2 * (rows + columns) * rank < rows * columns) f = {f.first, rows, columns, rank};
      out.push_back(f);
    }
  }
  return out;
}

}  // namespace

CompressedBucket::CompressedBucket(const Compression& how, int64_t count) : rule(how), elements(count) {
  if (rule.kind == Compression::Kind::topk)
    kept = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(rule.density * static_cast<double>(elements))),
                               1, elements);
}

CompressedBucket::CompressedBucket(const Compression& how, const Graph& graph, const Bucket& bucket,
                                   int64_t among)
    : CompressedBucket(how, bucket.elements) {
  workers = among;
  if (rule.kind == Compression::Kind::powersgd) factors = factors_of(graph, bucket, rule.rank);
}

int64_t CompressedBucket::message() const {
  if (rule.kind == Compression::Kind::int8) return scales(elements) + (elements + 3) / 4;
  if (rule.kind == Compression::Kind::topk) return 2 * kept;
  int64_t sum = 0;
  for (const Factors& f : factors) sum += f.left();
  return sum;
}

int64_t CompressedBucket::plain() const {
  int64_t sum = 0;
  for (const Factors& f : factors) sum += f.plain();
  return sum;
}

int64_t CompressedBucket::second() const {
  int64_t sum = 0;
  for (const Factors& f : factors) sum += f.right();
  return sum;
}

std::vector<Kernel> CompressedBucket::compress() const {
  constexpr Pass kPass = Pass::backward_weights;
  const Bytes all = Bytes{4} * elements, sent = Bytes{4} * message();
  const bool int8 = rule.kind == Compression::Kind::int8;
  std::vector<Kernel> out;
  if (int8) {  // a scale's elements stay in registers while it is found
    out.push_back(traffic(elements, 5 * elements, all * (rule.feedback ? 2 : 1),
                          sent + (rule.feedback ? all : Bytes{}), kPass));
    return out;
  }
  if (rule.feedback) out.push_back(traffic(elements, elements, all * 2, all, kPass));
  if (rule.kind == Compression::Kind::topk) {
    const Bytes cleared = Bytes{4} * (rule.feedback ? kept : 0);
    out.push_back(
        traffic(elements, kSelectionReads * elements, all * kSelectionReads, sent + cleared, kPass));
  }
  for (const Factors& f : factors) {
    const Bytes bytes = Bytes{4} * f.left();
    add(out, f.rank > 0 ? product_of(f.rows, f.rank, f.columns, kPass)
                        : traffic(f.left(), f.left(), bytes, bytes, kPass));
  }
  return out;
}

/// Gram-Schmidt takes a column out of all later ones: of r columns (r + 1) / 2 are read and written in the
/// mean.
std::vector<Kernel> CompressedBucket::orthogonal() const {
  constexpr Pass kPass = Pass::backward_weights;
  std::vector<Kernel> out;
  for (const Factors& f : factors) {
    if (f.rank == 0) continue;
    const Bytes moved = Bytes{4} * (f.left() * (f.rank + 1) / 2);
    add(out, traffic(f.left(), 2 * f.left() * f.rank, moved, moved, kPass));
    add(out, product_of(f.columns, f.rank, f.rows, kPass));
  }
  return out;
}

std::vector<Kernel> CompressedBucket::decompress() const {
  constexpr Pass kPass = Pass::update;
  const Bytes all = Bytes{4} * elements, received = Bytes{4} * message();
  std::vector<Kernel> out;
  if (rule.kind == Compression::Kind::int8)
    out.push_back(traffic(elements, 2 * elements * workers, received * workers, all, kPass));
  if (rule.kind == Compression::Kind::topk) {  // zeros, and each number is added to what is at its place
    const Bytes added = Bytes{4} * (kept * workers);
    out.push_back(traffic(elements, kept * workers, received * workers + added, all + added, kPass));
  }
  for (const Factors& f : factors) {
    const Bytes bytes = Bytes{4} * f.left();
    add(out, f.rank > 0 ? product_of(f.rows, f.columns, f.rank, kPass)
                        : traffic(f.left(), f.left(), bytes, bytes, kPass));
  }
  if (!gathered() && rule.feedback) out.push_back(traffic(elements, 2 * elements, all * 2, all, kPass));
  return out;
}

int64_t pushed_words(const Compression& rule, int64_t elements, int64_t shards) {
  return CompressedBucket(rule, (elements + shards - 1) / shards).message();
}

Compression read_compression(const Options& o) {
  const std::string& kind = o.text("compression");
  Compression c;
  if (kind == "none" || kind == "fp16") return c;
  c.kind = kind == "int8"   ? Compression::Kind::int8
           : kind == "topk" ? Compression::Kind::topk
                            : Compression::Kind::powersgd;
  if (kind == "topk") c.density = o.real("density");
  if (kind == "powersgd") c.rank = static_cast<int32_t>(o.count("rank"));
  c.feedback = o.flag("error-feedback");
  return c;
}

int64_t compressing_members(const Program& program, const Role& role) {
  int64_t members = 1;
  role.ops.each_distinct([&](const Op& op, int64_t) {
    if (op.kind == OpKind::collective && op.payload == Payload::compressed)
      members = role.mesh.members(program.collectives[op.what].axes);
  });
  return members;
}

int64_t compressed_words(const Program& program, uint32_t role, const Graph& graph) {
  if (program.compression.kind == Compression::Kind::none) return 0;
  int64_t sum = 0;
  if (!program.stores.empty()) {
    const Role& servers = program.roles[program.stores[0].role];
    const Channel& pushes = program.channels[static_cast<std::size_t>(servers.on_channel)];
    for (uint32_t key = 0; key < program.buckets.size(); ++key) {
      const int64_t parts = holders(pushes, key, servers.mesh.size()).count;
      sum += parts * pushed_words(program.compression, program.buckets[key].elements, parts);
    }
    return sum;
  }
  const int64_t members = compressing_members(program, program.roles[role]);
  for (const Bucket& b : program.buckets) {
    if (b.role == role) sum += CompressedBucket(program.compression, graph, b, members).words();
  }
  return sum;
}

}  // namespace tandem::schemes
