// SPDX-License-Identifier: Apache-2.0
// Refuses Programs that the engines could not run; semantics.md numbers the rules.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schemes/program/check_messages.h"
#include "schemes/program/program.h"

namespace tandem::schemes {

namespace {

/// Printed without quotes, so it must be one token.
bool is_word(std::string_view text) {
  return !text.empty() && text.find_first_of(" ,:\n\t") == std::string_view::npos;
}

class Checker {
 public:
  explicit Checker(const Program& program) : p_(program), messages_(program) {}

  void run() {
    check_tables();
    for (role_ = 0; role_ < p_.roles.size(); ++role_) check_role();
    messages_.check();
  }

 private:
  const Role& role() const { return p_.roles[role_]; }
  const Op& op() const { return *current_; }

  /// Every op that stands alone, those of a routine once, and what each call of it waits for.
  void check_role() {
    std::vector<bool> known(role().ops.routines().size());
    for (const OpList::Part& part : role().ops.parts()) {
      const bool again = part.routine >= 0 && known[static_cast<std::size_t>(part.routine)];
      for (uint32_t i = 0; i < part.count && !again; ++i) {
        op_ = part.first + i;
        current_ = &role().ops.stored(part, i);
        check_op();
        if (part.routine < 0) messages_.add(role_, *current_);
        for (const Dep& d : current_->deps) check_dep(part.routine < 0 ? d : Dep{d.op + part.first, d.lag});
      }
      if (part.routine >= 0) known[static_cast<std::size_t>(part.routine)] = true;
      for (const auto& [i, dep] : part.deps) {
        op_ = part.first + i;
        current_ = &role().ops.stored(part, i);
        check_dep(dep);
      }
    }
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw ProgramError(fmt::format("role \"{}\", op {} ({} \"{}\"): {}", role().name, op_, name(op().kind),
                                   op().label < p_.labels.size() ? p_.labels[op().label] : "", why));
  }
  void require(bool holds, std::string_view why) const {
    if (!holds) refuse(std::string(why));
  }
  static void table(bool holds, std::string_view what, std::size_t index, std::string_view why) {
    if (!holds) throw ProgramError(fmt::format("{} {}: {}", what, index, why));
  }

  bool served(uint32_t r) const { return p_.roles[r].on_channel >= 0; }

  void check_tables() const {
    if (p_.roles.empty()) throw ProgramError("a program needs a role");
    table(p_.samples_per_iteration >= 0, "program", 0, "negative samples per iteration");
    for (std::size_t i = 0; i < p_.roles.size(); ++i) {
      const Role& r = p_.roles[i];
      for (const Axis& a : r.mesh.axes) {
        table(a.size >= 1, "role", i, "an axis of the mesh has no instances");
        table(is_word(a.name), "role", i, "an axis needs a name without spaces, commas and colons");
      }
      table(r.mesh.size() <= INT32_MAX, "role", i, "more than 2^31 instances");
      table(r.on_channel < static_cast<int64_t>(p_.channels.size()), "role", i,
            "runs on a channel that does not exist");
    }
    table(!served(0), "role", 0, "the workers must repeat every iteration, not run per message");
    table(p_.micro_batches >= 1, "program", 0, "a step takes at least one iteration");
    table(p_.delay >= 0, "program", 0, "a negative delay");
    table(p_.comm_cores >= 0, "program", 0, "a negative number of cores that communicate");
    table(p_.delay == 0 || p_.micro_batches == 1, "program", 0, "gradients of micro-batches are not delayed");
    for (std::size_t i = 0; i < p_.tasks.size(); ++i) {
      check_averaging(p_.tasks[i].averaging, "task", i);
      table(p_.tasks[i].averaging.rule == Averaging::Rule::none || p_.tasks[i].pass == Pass::update, "task",
            i, "only an update averages");
    }
    table(p_.replicas >= 0, "program", 0, "a negative number of replicas");
    check_grid();
    int64_t end = 0;
    for (std::size_t i = 0; i < p_.buckets.size(); ++i) {
      table(p_.buckets[i].role < p_.roles.size(), "bucket", i, "is of a role that does not exist");
      if (i > 0 && p_.buckets[i].role != p_.buckets[i - 1].role) {
        table(p_.buckets[i].role > p_.buckets[i - 1].role, "bucket", i, "comes after those of a later role");
        end = 0;
      }
      table(p_.buckets[i].first == end && p_.buckets[i].elements >= 0 &&
                p_.buckets[i].elements <= INT64_MAX - end,
            "bucket", i, "does not follow the one before it");
      end += p_.buckets[i].elements;
    }
    for (std::size_t i = 0; i < p_.channels.size(); ++i) check_channel(i);
    for (std::size_t i = 0; i < p_.stores.size(); ++i) check_store(i);
    for (std::size_t i = 0; i < p_.roles.size(); ++i) {
      const int32_t c = p_.roles[i].on_channel;
      if (c < 0) continue;
      const Channel& channel = p_.channels[static_cast<std::size_t>(c)];
      table(channel.to_role == i, "role", i, "runs on a channel that leads elsewhere");
      table(channel.address != Address::reply, "role", i, "runs on a reply channel");
    }
  }

  static void check_averaging(const Averaging& a, std::string_view what, std::size_t i) {
    table(std::isfinite(a.rate) && std::isfinite(a.weight), what, i, "rate and weight must be numbers");
  }

  /// Every device has one role that works on it (rule 1.8).
  void check_grid() const {
    const auto& axes = p_.grid.axes;
    if (axes.empty()) {
      for (std::size_t i = 0; i < p_.roles.size(); ++i) {
        table(p_.roles[i].at.empty(), "role", i, "has a place in a grid that the program lacks");
        table(i == 0 || !p_.roles[i].works(), "role", i,
              "works on the devices of role 0: only a grid divides them");
      }
      return;
    }
    std::vector<bool> taken(static_cast<std::size_t>(p_.grid.size()));
    for (std::size_t i = 0; i < p_.roles.size(); ++i) {
      const Role& r = p_.roles[i];
      if (!r.works()) continue;
      table(r.at.size() == axes.size(), "role", i, "has no place in the grid");
      std::size_t own = 0;
      for (std::size_t a = 0; a < axes.size(); ++a) {
        if (r.at[a] >= 0) {
          table(r.at[a] < axes[a].size, "role", i, "is outside of the grid");
          continue;
        }
        table(own < r.mesh.axes.size() && r.mesh.axes[own].size == axes[a].size, "role", i,
              "its mesh does not have the grid's axes");
        ++own;
      }
      table(own == r.mesh.axes.size(), "role", i, "its mesh has axes that the grid lacks");
      for (int64_t k = 0; k < r.mesh.size(); ++k) {
        auto device = taken[static_cast<std::size_t>(grid_device(p_, r, k))];
        table(!device, "role", i, "works on a device that another role works on");
        device = true;
      }
    }
    const auto idle = std::find(taken.begin(), taken.end(), false);
    table(idle == taken.end(), "device", static_cast<std::size_t>(idle - taken.begin()),
          "no role works on it");
  }

  void check_channel(std::size_t i) const {
    const Channel& c = p_.channels[i];
    table(c.from_role < p_.roles.size() && c.to_role < p_.roles.size(), "channel", i,
          "joins a role that does not exist");
    table(!c.key_bytes.empty(), "channel", i, "has no keys");
    for (const Bytes b : c.key_bytes) table(b.n >= 0, "channel", i, "negative bytes");
    table(c.key_layers.empty() || c.key_layers.size() == c.key_bytes.size(), "channel", i,
          "says of some keys alone which layers they carry");
    table(c.parts >= 1 && (c.parts == 1 || !c.key_layers.empty()), "channel", i,
          "carries parts of no layer's tensors");
    table(c.owners.empty() || (c.address == Address::shards && c.owners.size() == c.key_bytes.size()),
          "channel", i, "only shards own keys, and then each key has one that does");
    const int64_t from = p_.roles[c.from_role].mesh.size(), to = p_.roles[c.to_role].mesh.size();
    for (const uint32_t owner : c.owners) table(owner < to, "channel", i, "a key's owner does not exist");
    if (c.address == Address::same_index)
      table(from == to, "channel", i, "same_index joins meshes of different size");
    if (c.address == Address::sampled_peer || c.address == Address::next_peer) {
      const bool one = c.from_role == c.to_role || (served(c.to_role) && from == to);
      table(one && from > 1, "channel", i,
            "sampled_peer and next_peer need one role of at least 2 instances, or as many that serve per "
            "message");
    }
    if (c.address != Address::reply) {
      table(!served(c.from_role), "channel", i, "a role that runs per message can only reply");
      if (c.address == Address::shards)
        table(served(c.to_role), "channel", i, "shards must serve per message");
      return;
    }
    table(served(c.from_role), "channel", i, "only a role that runs per message replies");
    const Channel& asked = p_.channels[static_cast<std::size_t>(p_.roles[c.from_role].on_channel)];
    table(asked.from_role == c.to_role, "channel", i, "the reply does not lead to the role that asks");
    table(asked.key_bytes.size() == c.key_bytes.size(), "channel", i,
          "the reply has other keys than the request");
  }

  void check_store(std::size_t i) const {
    const Store& s = p_.stores[i];
    table(s.role < p_.roles.size(), "store", i, "is held by a role that does not exist");
    table(served(s.role), "store", i, "its role does not run per message");
    table(s.batch >= 1, "store", i, "batch must be at least 1");
    table(s.slack >= 0, "store", i, "negative slack");
    check_averaging(s.averaging, "store", i);
    const Channel& in = p_.channels[static_cast<std::size_t>(p_.roles[s.role].on_channel)];
    if (s.reader >= 0) check_reader(i, s, in);
    const int64_t pushing = p_.roles[in.from_role].mesh.size();
    const bool peers = in.address == Address::sampled_peer || in.address == Address::next_peer;
    table(s.own_models == peers, "store", i, "models of workers meet each other's, and no others do");
    const bool plain = s.batch == 1 && s.shares == 1 && !s.drop_late && !s.own_models &&
                       s.averaging.rule == Averaging::Rule::none;
    table(s.locked || (plain && p_.roles[s.role].mesh.size() == 1), "store", i,
          "without a lock one shard takes gradients, each as a separate version");
    table(s.shares >= 1 && pushing % s.shares == 0, "store", i,
          fmt::format("{} shares of a key do not divide over {} workers", s.shares, pushing));
    const int64_t workers = pushing / s.shares;  // that have a share in common
    table(s.quorum >= 1 && s.quorum <= workers, "store", i,
          fmt::format("a quorum of {} among {} workers: the gate never opens", s.quorum, workers));
  }

  /// Whoever pushes asks the reader, shard by shard, under the same keys.
  void check_reader(std::size_t i, const Store& s, const Channel& pushed) const {
    const auto r = static_cast<std::size_t>(s.reader);
    table(r < p_.roles.size() && r != s.role && served(static_cast<uint32_t>(r)), "store", i,
          "its reader is no other role that runs per message");
    const Channel& asked = p_.channels[static_cast<std::size_t>(p_.roles[r].on_channel)];
    table(
        p_.roles[r].mesh.size() == p_.roles[s.role].mesh.size() && p_.roles[r].site == p_.roles[s.role].site,
        "store", i, "its reader is not where the store is");
    table(asked.from_role == pushed.from_role && asked.address == pushed.address &&
              asked.key_bytes.size() == pushed.key_bytes.size() && asked.owners == pushed.owners,
          "store", i, "its reader is asked by others than those who push, or otherwise");
    table(s.locked && !s.own_models && s.averaging.rule == Averaging::Rule::none, "store", i,
          "only gradients that are merged one after the other have a reader");
  }

  bool sums(const Op& o) const {
    return o.kind == OpKind::collective && o.what < p_.collectives.size() &&
           p_.collectives[o.what].kind == CollKind::all_reduce;
  }
  /// The only work of a host's processors in a role that trains: updates, and sums of gradients.
  bool updates_on_host() const {
    return role().works() && (op().payload == Payload::parameters || op().payload == Payload::shard ||
                              op().payload == Payload::gradients);
  }
  /// Of its own, for what is offloaded.
  Lane copy_lane() const {
    if (op().what >= p_.copies.size()) return op().lane;
    const CopyKind kind = p_.copies[op().what].kind;
    if (of_input(kind)) return lane_of(kind);
    return kind == CopyKind::device_to_host ? Lane::offload : Lane::reload;
  }

  /// Reading and decoding have their own lanes.
  bool on_input_lane() const { return copy_lane() == Lane::read || copy_lane() == Lane::decode; }

  void check_lane() const {
    const Lane l = op().lane;
    bool fits = false;
    switch (op().kind) {
      case OpKind::compute:
        fits = l == Lane::compute || (l == Lane::host && updates_on_host());
        break;
      case OpKind::apply:
        fits = l == Lane::compute;
        break;
      case OpKind::collective:
        fits = l == Lane::comm || l == Lane::reduce;
        break;
      case OpKind::copy:
        fits = l == copy_lane() || (l == Lane::copy && !on_input_lane());
        break;
      case OpKind::gate:
        fits = l == Lane::host;
        break;
      case OpKind::send:
        fits = l == Lane::comm || l == Lane::copy || l == Lane::host || l == Lane::send;
        break;
      case OpKind::recv:
        fits = l == Lane::comm || l == Lane::copy || l == Lane::host || l == Lane::recv;
        break;
    }
    if (!fits) refuse(fmt::format("may not use lane {} (rule 1.5)", name(l)));
  }

  void check_op() const {
    require(op().label < p_.labels.size(), "its label does not exist");
    require(op().bytes.n >= 0, "negative bytes");
    require(op().every >= 1, "every must be at least 1");
    require(op().from < op().until, "it ends before it begins");
    require((op().from == 0 && op().until == Op::kEver) || op().kind == OpKind::compute ||
                op().kind == OpKind::collective,
            "messages and copies go in all iterations");
    if (op().payload == Payload::mean) require(sums(op()), "only an all-reduce makes a mean");
    const bool of_bucket = op().payload == Payload::gradients || op().payload == Payload::parameters ||
                           op().payload == Payload::state || op().payload == Payload::shard ||
                           op().payload == Payload::sequence_gradients || op().payload == Payload::mean ||
                           op().payload == Payload::compressed;
    if (of_bucket) {
      require(op().key < p_.buckets.size(), "works on a bucket that does not exist");
      require(p_.buckets[op().key].role == role_ || !role().works(), "works on another role's bucket");
    }
    if (op().payload == Payload::compressed)
      require(p_.compression.kind != Compression::Kind::none && role().works(),
              "only workers compress gradients, and the program does not say how");
    if (op().payload == Payload::shard)
      require((op().kind == OpKind::compute || sums(op())) && role().works(),
              "only a worker's update, and a sum between those with the same one, works on its shard");
    check_lane();
    if (served(role_)) {
      const bool may = op().kind == OpKind::compute || op().kind == OpKind::apply ||
                       op().kind == OpKind::gate || op().kind == OpKind::send;
      require(may, "a role that runs per message may only compute, apply, gate and reply");
      require(op().every == 1, "a role that runs per message knows no iterations for `every`");
    }
    switch (op().kind) {
      case OpKind::compute:
        require(op().what < p_.tasks.size(), "its task does not exist");
        break;
      case OpKind::copy:
        require(op().what < p_.copies.size(), "its copy does not exist");
        break;
      case OpKind::collective:
        check_collective();
        break;
      case OpKind::send:
        check_send();
        break;
      case OpKind::recv:
        check_recv();
        break;
      case OpKind::apply:
      case OpKind::gate:
        require(op().what < p_.stores.size(), "its store does not exist");
        require(p_.stores[op().what].role == role_, "its store is held by another role");
        break;
    }
  }

  void check_collective() const {
    require(op().what < p_.collectives.size(), "its collective does not exist");
    const Collective& c = p_.collectives[op().what];
    const auto& axes = role().mesh.axes;
    require(is_word(c.algorithm), "the collective's algorithm is not a name");
    require(c.axes != 0, "the collective spans no axis");
    int64_t members = 1;
    for (std::size_t i = 0; i < 32; ++i) {
      if ((c.axes >> i & 1U) == 0) continue;
      require(i < axes.size(), "the collective spans an axis that the mesh lacks");
      members *= axes[i].size;
    }
    require(c.root < members, "the collective's root is not a member");
  }

  void check_send() const {
    require(op().what < p_.channels.size(), "its channel does not exist");
    const Channel& c = p_.channels[op().what];
    require(c.from_role == role_, "sends on a channel of another role");
    if (c.address == Address::reply) return;  // takes key and bytes from the message it answers
    require(op().key < c.key_bytes.size(), "its key does not exist");
    if (op().bytes != c.key_bytes[op().key]) {
      refuse(fmt::format("sends {} bytes where the channel's key {} has {}", op().bytes.n, op().key,
                         c.key_bytes[op().key].n));
    }
  }

  void check_recv() const {
    require(op().what < p_.channels.size(), "its channel does not exist");
    const Channel& c = p_.channels[op().what];
    require(c.to_role == role_, "receives on a channel of another role");
    require(op().key < c.key_bytes.size(), "its key does not exist");
  }

  void check_dep(const Dep& d) const {
    if (d.op >= role().ops.size()) refuse(fmt::format("depends on op {}, which does not exist", d.op));
    if (d.lag == 0 && d.op >= op_) refuse(fmt::format("depends on op {}, which is not earlier", d.op));
    require(d.lag == 0 || !served(role_), "a role that runs per message cannot look back");
  }

  const Program& p_;
  MessageCheck messages_;
  uint32_t role_ = 0, op_ = 0;
  const Op* current_ = nullptr;
};

}  // namespace

void check(const Program& program) { Checker(program).run(); }

}  // namespace tandem::schemes
