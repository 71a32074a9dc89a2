// SPDX-License-Identifier: Apache-2.0
// One non-blocking switch: every port has a cable up and a cable down.
#include <fmt/format.h>

#include "topologies/blocks/network.h"

namespace tandem::topologies {

namespace {

class Single : public Network {
 public:
  explicit Single(const NetworkShape& shape) : shape_(shape) {}
  uint64_t link_count() const override { return 2 * static_cast<uint64_t>(shape_.nodes) * shape_.ports; }
  Bandwidth bandwidth(uint64_t) const override { return shape_.bandwidth; }
  std::string label(uint64_t id) const override {
    const uint64_t port = id / 2;
    const std::string end = fmt::format("node{}/port{}", port / shape_.ports, port % shape_.ports);
    return id % 2 == 0 ? end + ">switch" : "switch>" + end;
  }
  void route(Port from, Port to, std::vector<uint64_t>& links) const override {
    links.push_back(2 * port(from));
    links.push_back(2 * port(to) + 1);
  }

  NodeRange below(uint64_t id) const override {
    const auto node = static_cast<int64_t>(id / 2 / shape_.ports);
    return {node, node + 1};
  }

 private:
  uint64_t port(Port p) const { return static_cast<uint64_t>(p.node) * shape_.ports + p.index; }
  NetworkShape shape_;
};

}  // namespace

void register_single(Registry<NetworkBlock>& registry) {
  registry.add({"single", "one non-blocking switch", {}, [](const NetworkShape& shape, const Json&) {
                  return std::unique_ptr<Network>(std::make_unique<Single>(shape));
                }});
}

}  // namespace tandem::topologies
