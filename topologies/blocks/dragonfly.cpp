// SPDX-License-Identifier: Apache-2.0
// Dragonfly (Kim, Dally, Scott, Abts: Technology-driven, highly-scalable dragonfly topology, 2008): routers
// with "down" ports each, "routers" of them in a group with a cable between every two, "global" cables from
// each router to other groups. The cables of a group are dealt out evenly to the other groups. Routes are
// minimal (at most one global cable); which of the parallel cables between two groups a pair of ports takes
// depends on both ends only.
#include <fmt/format.h>

#include "topologies/blocks/network.h"

namespace tandem::topologies {

namespace {

class Dragonfly : public Network {
 public:
  Dragonfly(const NetworkShape& shape, const Json& spec) : shape_(shape) {
    const auto down = static_cast<uint64_t>(spec.at("down").as_int(1, 1 << 20));
    down_ = (down + shape.bonded - 1) / shape.bonded;
    routers_ = static_cast<uint64_t>(spec.at("routers").as_int(1, 1 << 16));
    const auto global = static_cast<uint64_t>(spec.at("global").as_int(1, 1 << 16));
    global_per_router_ = global;
    ports_ = static_cast<uint64_t>(shape.nodes) * shape.ports;
    const uint64_t per_group = down_ * routers_;
    groups_ = (ports_ + per_group - 1) / per_group;
    if (groups_ > routers_ * global + 1) {
      spec.fail(fmt::format("{} groups need {} global cables each; {} routers with {} have {}", groups_,
                            groups_ - 1, routers_, global, routers_ * global));
    }
    parallel_ = groups_ > 1 ? routers_ * global / (groups_ - 1) : 0;
    first_local_ = 2 * ports_;
    first_global_ = first_local_ + groups_ * routers_ * (routers_ - 1);
  }
  uint64_t link_count() const override {
    return first_global_ + (groups_ > 1 ? groups_ * (groups_ - 1) * parallel_ : 0);
  }
  Bandwidth bandwidth(uint64_t id) const override {
    return {shape_.bandwidth.bytes_per_second / (id < first_local_ ? 1 : shape_.bonded)};
  }
  std::string label(uint64_t id) const override {
    if (id < first_local_) {
      const uint64_t unit = id / 2;
      const std::string port = fmt::format("node{}/port{}", unit / shape_.ports, unit % shape_.ports);
      return id % 2 == 0 ? port + ">" + router(unit / down_) : router(unit / down_) + ">" + port;
    }
    if (id < first_global_) {
      const uint64_t from = (id - first_local_) / (routers_ - 1), k = (id - first_local_) % (routers_ - 1);
      const uint64_t own = from % routers_;
      return router(from) + ">" + router(from - own + (k < own ? k : k + 1));
    }
    const uint64_t pair = (id - first_global_) / parallel_, cable = (id - first_global_) % parallel_;
    const uint64_t a = pair / (groups_ - 1), b = (a + 1 + pair % (groups_ - 1)) % groups_;
    return router(gateway(a, b, cable)) + ">" + router(gateway(b, a, cable));
  }
  void route(Port from, Port to, std::vector<uint64_t>& links) const override {
    const uint64_t a = unit(from), b = unit(to);
    uint64_t at = a / down_;
    const uint64_t goal = b / down_, here = at / routers_, there = goal / routers_;
    links.push_back(2 * a);
    if (here != there) {
      const uint64_t cable = (a + b) % parallel_;
      local(at, gateway(here, there, cable), links);
      links.push_back(first_global_ + (here * (groups_ - 1) + peer(here, there)) * parallel_ + cable);
      at = gateway(there, here, cable);
    }
    local(at, goal, links);
    links.push_back(2 * b + 1);
  }

 private:
  uint64_t unit(Port p) const { return static_cast<uint64_t>(p.node) * shape_.ports + p.index; }
  /// Number of group `to` among the others of `from`, counted onwards.
  uint64_t peer(uint64_t from, uint64_t to) const { return (to + groups_ - from - 1) % groups_; }
  /// The router of `from` that holds a cable to `to`.
  uint64_t gateway(uint64_t from, uint64_t to, uint64_t cable) const {
    return from * routers_ + (peer(from, to) * parallel_ + cable) / global_per_router_;
  }
  void local(uint64_t from, uint64_t to, std::vector<uint64_t>& links) const {
    if (from == to) return;
    const uint64_t own = from % routers_, other = to % routers_;
    links.push_back(first_local_ + from * (routers_ - 1) + (other < own ? other : other - 1));
  }
  std::string router(uint64_t r) const { return fmt::format("group{}-router{}", r / routers_, r % routers_); }

  NetworkShape shape_;
  uint64_t down_ = 1, routers_ = 1, global_per_router_ = 1;
  uint64_t ports_ = 0, groups_ = 0;
  uint64_t parallel_ = 0;  ///< cables between every two groups
  uint64_t first_local_ = 0, first_global_ = 0;
};

}  // namespace

void register_dragonfly(Registry<NetworkBlock>& registry) {
  registry.add({"dragonfly",
                "groups of \"routers\" with \"down\" ports and \"global\" cables to other groups each",
                {"down", "routers", "global"},
                [](const NetworkShape& shape, const Json& spec) {
                  return std::unique_ptr<Network>(std::make_unique<Dragonfly>(shape, spec));
                }});
}

}  // namespace tandem::topologies
