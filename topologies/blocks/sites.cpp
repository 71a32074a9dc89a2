// SPDX-License-Identifier: Apache-2.0
// Sites that a wide network joins: a switch for the ports of each site's nodes, and a line of its own from
// there to all others. Nodes are at the sites in their order.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "topologies/blocks/network.h"

namespace tandem::topologies {

namespace {

constexpr const char* kWideNetwork = "internet";

class Sites : public Network {
 public:
  Sites(const NetworkShape& shape, const Json& spec)
      : shape_(shape), ports_(static_cast<uint64_t>(shape.nodes) * shape.ports) {
    const Json& sites = spec.at("sites");
    int64_t open = 0, rest = shape.nodes;  // sites that do not say how many nodes they have, and theirs
    for (const auto& [name, site] : sites.members()) {
      check_name(name, site);
      site.only({"nodes", "bandwidth", "note"});
      const int64_t nodes = site.integer("nodes", -1, 0, shape.nodes);
      nodes < 0 ? ++open : rest -= nodes;
      sites_.push_back({name, nodes, 0, site.at("bandwidth").as_bandwidth()});
    }
    if (sites_.empty() || rest < 0 || (open == 0 && rest > 0))
      sites.fail(
          fmt::format("the sites have {} nodes, the system {}; a site without \"nodes\" has what the "
                      "others leave",
                      shape.nodes - rest, shape.nodes));
    int64_t first = 0;
    for (Site& site : sites_) {
      if (site.nodes < 0) {
        TANDEM_CHECK(open > 0);
        site.nodes = (rest + open - 1) / open;
        rest -= site.nodes;
        --open;
      }
      site.first = first;
      first += site.nodes;
    }
  }
  uint64_t link_count() const override { return 2 * (ports_ + sites_.size()); }
  Bandwidth bandwidth(uint64_t id) const override {
    return id < 2 * ports_ ? shape_.bandwidth : sites_[id / 2 - ports_].bandwidth;
  }
  std::string label(uint64_t id) const override {
    const uint64_t unit = id / 2;
    std::string low, high = kWideNetwork;
    if (unit < ports_) {
      low = fmt::format("node{}/port{}", unit / shape_.ports, unit % shape_.ports);
      high = sites_[site_of(static_cast<int64_t>(unit / shape_.ports))].name;
    } else {
      low = sites_[unit - ports_].name;
    }
    return id % 2 == 0 ? low + ">" + high : high + ">" + low;
  }
  void route(Port from, Port to, std::vector<uint64_t>& links) const override {
    const std::size_t a = site_of(from.node), b = site_of(to.node);
    links.push_back(2 * unit(from));
    if (a != b) links.insert(links.end(), {2 * (ports_ + a), 2 * (ports_ + b) + 1});
    links.push_back(2 * unit(to) + 1);
  }
  NodeRange below(uint64_t id) const override {
    const uint64_t unit = id / 2;
    if (unit >= ports_) {
      const Site& site = sites_[unit - ports_];
      return {site.first, site.first + site.nodes};
    }
    const auto node = static_cast<int64_t>(unit / shape_.ports);
    return {node, node + 1};
  }

 private:
  struct Site {
    std::string name;
    int64_t nodes, first;
    Bandwidth bandwidth;  ///< of its line, one direction
  };

  static void check_name(const std::string& name, const Json& site) {
    const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '_';
    });
    if (name.empty() || !plain || name == kWideNetwork)
      site.fail(fmt::format("\"{}\" is no name of a site: letters, digits, - and _, and not \"{}\"",
                            printable(name), kWideNetwork));
  }
  /// O(sites).
  std::size_t site_of(int64_t node) const {
    const auto at =
        std::find_if(sites_.begin(), sites_.end(), [&](const Site& s) { return node < s.first + s.nodes; });
    return static_cast<std::size_t>(at - sites_.begin());
  }
  uint64_t unit(Port p) const { return static_cast<uint64_t>(p.node) * shape_.ports + p.index; }

  NetworkShape shape_;
  uint64_t ports_;  ///< of all nodes
  std::vector<Site> sites_;
};

}  // namespace

void register_sites(Registry<NetworkBlock>& registry) {
  registry.add({"sites",
                "sites with a line each to a wide network",
                {"sites"},
                [](const NetworkShape& shape, const Json& spec) -> std::unique_ptr<Network> {
                  return std::make_unique<Sites>(shape, spec);
                }});
}

}  // namespace tandem::topologies
