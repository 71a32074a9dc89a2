// SPDX-License-Identifier: Apache-2.0
// Direct network without switches: every node forwards (TPU pods, rings of accelerators).
#include "topologies/blocks/torus.h"

#include <fmt/format.h>

#include <cmath>

namespace tandem::topologies {

namespace {

constexpr int64_t kMaxSize = 65536;  // routes have up to half as many links

class Torus : public Network {
 public:
  Torus(const NetworkShape& shape, std::vector<int64_t> sizes) : shape_(shape), sizes_(std::move(sizes)) {}
  uint64_t link_count() const override { return static_cast<uint64_t>(shape_.nodes) * 2 * sizes_.size(); }
  Bandwidth bandwidth(uint64_t) const override { return shape_.bandwidth; }
  std::string label(uint64_t id) const override {
    const auto per_node = 2 * sizes_.size();
    const auto node = static_cast<int64_t>(id / per_node);
    return fmt::format("node{}>node{}", node, neighbour(node, id % per_node / 2, id % 2 == 0 ? 1 : -1));
  }
  void route(Port from, Port to, std::vector<uint64_t>& links) const override {
    int64_t at = from.node;
    for (std::size_t axis = 0; axis < sizes_.size(); ++axis) {
      const int64_t size = sizes_[axis], a = coordinate(at, axis), b = coordinate(to.node, axis);
      const int64_t ahead = (b - a + size) % size;
      // Half way round both ways are equal: a rule that turns round with the direction keeps routes
      // reversible.
      const bool plus = 2 * ahead < size || (2 * ahead == size && a < b);
      for (int64_t left = plus ? ahead : size - ahead; ahead != 0 && left > 0; --left) {
        links.push_back(static_cast<uint64_t>(at) * 2 * sizes_.size() + 2 * axis + (plus ? 0 : 1));
        at = neighbour(at, axis, plus ? 1 : -1);
      }
    }
  }

  std::vector<int64_t> sizes() const override { return sizes_; }

 private:
  int64_t stride(std::size_t axis) const {
    int64_t s = 1;
    for (std::size_t i = axis + 1; i < sizes_.size(); ++i) s *= sizes_[i];
    return s;
  }
  int64_t coordinate(int64_t node, std::size_t axis) const { return node / stride(axis) % sizes_[axis]; }
  int64_t neighbour(int64_t node, std::size_t axis, int64_t step) const {
    const int64_t c = coordinate(node, axis), size = sizes_[axis];
    return node + ((c + step + size) % size - c) * stride(axis);
  }
  NetworkShape shape_;
  std::vector<int64_t> sizes_;
};

/// The most even factors of `nodes`, largest first.
std::vector<int64_t> even_sizes(int64_t nodes, int64_t dimensions) {
  std::vector<int64_t> out;
  for (int64_t left = dimensions; left > 1; --left) {
    auto size = static_cast<int64_t>(
        std::llround(std::pow(static_cast<double>(nodes), 1.0 / static_cast<double>(left))));
    while (size > 1 && nodes % size != 0) --size;
    size = size < 1 ? 1 : size;
    out.insert(out.begin(), size);
    nodes /= size;
  }
  out.insert(out.begin(), nodes);
  return out;
}

std::unique_ptr<Network> from_spec(const NetworkShape& shape, const Json& spec) {
  const Json* sizes = spec.find("sizes");
  if (sizes == nullptr) {
    return make_torus(shape, even_sizes(shape.nodes, spec.integer("dimensions", 2, 1, 6)), spec.place());
  }
  std::vector<int64_t> out;
  for (const Json& size : sizes->items()) out.push_back(size.as_int(1, 1'000'000'000));
  return make_torus(shape, std::move(out), sizes->place());
}

}  // namespace

std::unique_ptr<Network> make_torus(const NetworkShape& shape, std::vector<int64_t> sizes,
                                    const Place& place) {
  if (shape.ports != 1)
    throw InputError(place, fmt::format("a torus needs one port per node, not {}", shape.ports));
  if (sizes.empty() || sizes.size() > 6) throw InputError(place, "a torus has 1 to 6 dimensions");
  int64_t product = 1;
  for (const int64_t size : sizes) {
    if (size > kMaxSize)
      throw InputError(place, fmt::format("a torus has at most {} nodes along one axis", kMaxSize));
  }
  for (const int64_t size : sizes) product = checked_mul(product, size, "the torus");
  if (product != shape.nodes) {
    throw InputError(
        place, fmt::format("the sizes of the torus multiply to {}, but there are {} nodes; leave \"sizes\" "
                           "out to have them chosen",
                           product, shape.nodes));
  }
  return std::make_unique<Torus>(shape, std::move(sizes));
}

void register_torus(Registry<NetworkBlock>& registry) {
  registry.add({"torus",
                "direct torus of \"dimensions\" axes (or \"sizes\"): every node forwards",
                {"dimensions", "sizes"},
                from_spec});
}

}  // namespace tandem::topologies
