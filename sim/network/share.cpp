// SPDX-License-Identifier: Apache-2.0
#include "sim/network/share.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tandem::sim {

namespace {
// Levels closer than this are one.
constexpr double kMore = 1 + 1e-12, kLess = 1 - 1e-12;
// A cold link used beyond the one share becomes hot; a hot one that limits nobody, cold below the other.
constexpr double kHot = 0.98, kCold = 0.9;
// Periodically the sums of one hot link are recomputed, so that rounding errors do not add up.
constexpr uint32_t kRefresh = 8;
}  // namespace

FairShare::FairShare(std::vector<double> capacity, std::size_t most_visits)
    : most_visits_(most_visits),
      idle_(static_cast<uint32_t>(capacity.size())),
      link_(capacity.size()),
      facts_(capacity.size()),
      is_touched_(capacity.size()),
      level_(capacity.size() + 1, kInfinite),
      members_(capacity.size()),
      member_shares_(capacity.size()),
      own_(capacity.size()),
      order_(capacity.size()),
      beside_(capacity.size()) {
  level_[idle_] = 0;
  for (uint32_t l = 0; l < idle_; ++l) {
    if (!(capacity[l] >= 0) || std::isinf(capacity[l]))
      throw InputError("a link's capacity must be a finite number of bytes/s >= 0");
    facts_[l].capacity = capacity[l];
  }
}

// ---- which flow passes which link

void FairShare::reserve_shares(FlowId id, std::size_t count) {
  Flow& flow = flows_[id];
  if (flow.room < count) {
    flow.room = static_cast<uint32_t>(std::bit_ceil(count));
    flow.first = static_cast<uint32_t>(pool_.size());
    pool_.resize(pool_.size() + flow.room);
    position_.resize(pool_.size());
  }
  flow.count = flow.hot = 0;
}

FairShare::FlowId FairShare::add(std::span<const Use> uses, double cap) {
  for (const Use& use : uses) {
    if (!(use.weight >= 0) || std::isinf(use.weight))
      throw InputError("a flow's weight must be finite and >= 0");
    TANDEM_CHECK(use.link < link_.size());
  }
  if (free_.empty()) {
    free_.push_back(static_cast<FlowId>(flows_.size()));
    flows_.emplace_back();
    bottleneck_.push_back(idle_);
    level_.push_back(0);
    own_at_.push_back(0);
    watch_.push_back(0);
    is_moved_.push_back(0);
  }
  begin();
  const FlowId id = free_.back();
  free_.pop_back();
  reserve_shares(id, uses.size());
  Flow& flow = flows_[id];
  level_[own_cap(id)] = cap > 0 ? cap : kInfinite;
  bottleneck_[id] = idle_;
  watch_[id] = 0;
  bool ordered = true;  // by link, each once: as bindings list them, and then no search is needed
  int64_t last = -1;
  for (const Use& use : uses) {
    if (use.weight == 0) continue;
    Share* const shares = &pool_[flow.first];
    Share* const end = shares + flow.count;
    ordered = ordered && last < int64_t{use.link};
    last = use.link;
    Share* const same =
        ordered ? end : std::find_if(shares, end, [&](const Share& s) { return s.link == use.link; });
    const uint32_t index = flow.first + static_cast<uint32_t>(same - shares);
    auto& members = members_[use.link];
    facts_[use.link].total += static_cast<double>(use.weight);
    if (same != end) {
      same->weight += use.weight;
      members[position_[index]].weight = same->weight;
      continue;
    }
    *end = {use.link, use.weight};
    position_[index] = static_cast<uint32_t>(members.size());
    members.push_back({id, use.weight});
    member_shares_[use.link].push_back(index);
    ++flow.count;
    if (facts_[use.link].hot) swap_shares(index, flow.first + flow.hot++);
  }
  added_.push_back(id);
  ++active_;
  return id;
}

void FairShare::swap_shares(uint32_t a, uint32_t b) {
  if (a == b) return;
  std::swap(pool_[a], pool_[b]);
  std::swap(position_[a], position_[b]);
  member_shares_[pool_[a].link][position_[a]] = a;
  member_shares_[pool_[b].link][position_[b]] = b;
}

/// Takes a flow that had so much off its links.
void FairShare::unlink(FlowId id, double rate) {
  const Flow& flow = flows_[id];
  for (uint32_t s = flow.first; s < flow.first + flow.count; ++s) {
    const uint32_t link = pool_[s].link;
    auto& members = members_[link];
    auto& shares = member_shares_[link];
    const uint32_t at = position_[s];
    members[at] = members.back();
    shares[at] = shares.back();
    position_[shares[at]] = at;
    members.pop_back();
    shares.pop_back();
    const auto weight = static_cast<double>(pool_[s].weight);
    facts_[link].total = members.empty() ? 0 : facts_[link].total - weight;
    if (!facts_[link].hot) link_[link].left += weight * rate;
  }
}

/// The first change after an update() begins a new list of what is changed.
void FairShare::begin() {
  if (!reported_) return;
  reported_ = false;
  for (const uint32_t l : changed_) facts_[l].changed = false;
  for (const FlowId id : moved_) is_moved_[id] = 0;
  changed_.clear();
  moved_.clear();
}

void FairShare::remove(FlowId id) {
  begin();
  const double had = rate(id);
  if (bottleneck_[id] == idle_) {  // added since the last update: nothing has changed
    added_.erase(std::find(added_.begin(), added_.end(), id));
  } else {
    move(id, idle_);
  }
  unlink(id, had);
  free_.push_back(id);
  --active_;
}

/// What the flows of a link use of it now. Recomputes all of its sums.
double FairShare::sum(uint32_t l) {
  Link& link = link_[l];
  double used = 0;
  link.left = facts_[l].capacity;
  link.top = link.own = 0;
  for (const Member& m : members_[l]) {
    const uint32_t b = bottleneck_[m.flow];
    const auto weight = static_cast<double>(m.weight);
    used += weight * level_[b];
    if (b == l) {
      link.own += weight;
    } else {
      link.left -= weight * level_[b];
      link.top = std::max(link.top, level_[b]);
    }
  }
  return used;
}

/// Makes a cold link hot.
void FairShare::promote(uint32_t l) {
  facts_[l].hot = true;
  hot_.push_back(l);
  order_.add(l, std::numeric_limits<double>::max());
  for (std::size_t i = 0; i < members_[l].size(); ++i) {
    const FlowId id = members_[l][i].flow;
    Flow& flow = flows_[id];
    const uint32_t share = flow.first + flow.hot++;
    swap_shares(member_shares_[l][i], share);
    if (bottleneck_[id] < idle_) add_beside(bottleneck_[id], pool_[share]);
  }
  sum(l);
  touch(l);
}

void FairShare::demote(uint32_t l) {
  facts_[l].hot = false;
  order_.erase(l);
  for (std::size_t i = 0; i < members_[l].size(); ++i) {
    const FlowId id = members_[l][i].flow;
    Flow& flow = flows_[id];
    if (bottleneck_[id] < idle_) drop_beside(bottleneck_[id], pool_[member_shares_[l][i]]);
    swap_shares(member_shares_[l][i], flow.first + --flow.hot);
  }
}

// ---- which link limits which flow

void FairShare::touch(uint32_t l) {
  if (is_touched_[l] != 0) return;
  is_touched_[l] = 1;
  touched_.push_back(l);
}

void FairShare::note_level(uint32_t l, double level) {
  level_[l] = level;
  if (level < kInfinite) order_.move(l, level);
  if (facts_[l].changed) return;
  facts_[l].changed = true;
  changed_.push_back(l);
}

void FairShare::leave(FlowId id, uint32_t from) {
  auto& own = own_[from];
  own[own_at_[id]] = own.back();
  own_at_[own.back()] = own_at_[id];
  own.pop_back();
  if (!own.empty()) {
    if (!(link_[from].own > 0)) sum(from);
    return;
  }
  link_[from].own = 0;
  beside_[from].clear();
  facts_[from].cap = facts_[from].watch = kInfinite;
  note_level(from, kInfinite);
}

/// Gives a flow another bottleneck, and its rate. Links must be hot and of finite level.
void FairShare::move(FlowId id, uint32_t to) {
  const uint32_t from = bottleneck_[id];
  const double before = level_[from], after = level_[to], change = after - before;
  bottleneck_[id] = to;
  const Flow flow = flows_[id];
  for (uint32_t s = flow.first; s < flow.first + flow.hot; ++s) {
    const uint32_t l = pool_[s].link;
    Link& link = link_[l];
    const auto weight = static_cast<double>(pool_[s].weight);
    if (from < idle_ && l != from) drop_beside(from, pool_[s]);
    if (to < idle_ && l != to) add_beside(to, pool_[s]);
    if (l == to) {
      link.left += weight * before;
      link.own += weight;
    } else {
      link.left -= weight * (l == from ? after : change);
      if (l == from) link.own -= weight;
      link.top = std::max(link.top, after);
    }
    touch(l);
  }
  if (from < idle_) leave(id, from);
  if (to < idle_) {
    LinkFacts& facts = facts_[to];
    facts.cap = std::min(facts.cap, level_[own_cap(id)]);
    facts.watch = std::min(facts.watch, watch_[id]);
    own_at_[id] = static_cast<uint32_t>(own_[to].size());
    own_[to].push_back(id);
  }
  if (to == idle_ || is_moved_[id] != 0) return;
  is_moved_[id] = 1;
  moved_.push_back(id);
}

/// A new flow's first bottleneck, where its share would be least: solve() finds the right one.
void FairShare::place(FlowId id) {
  const Flow flow = flows_[id];
  uint32_t to = own_cap(id);
  double least = level_[to];
  for (uint32_t s = flow.first; s < flow.first + flow.hot; ++s) {
    const Link& link = link_[pool_[s].link];
    const double share = std::max(0.0, link.left) / (link.own + static_cast<double>(pool_[s].weight));
    if (share < least) {
      least = share;
      to = pool_[s].link;
    }
  }
  if (least == kInfinite && flow.count > 0) {
    for (uint32_t s = flow.first; s < flow.first + flow.count; ++s) {
      const LinkFacts& link = facts_[pool_[s].link];
      if (link.capacity / link.total >= least) continue;
      least = link.capacity / link.total;
      to = pool_[s].link;
    }
    promote(to);
  }
  if (level_[to] == kInfinite && to < idle_) note_level(to, least);
  move(id, to);
}

// ---- solving

/// Where a link's list of what its flows use besides has another link, its end where it has not.
std::vector<FairShare::Beside>::iterator FairShare::find_beside(uint32_t l, uint32_t other) {
  return std::find_if(beside_[l].begin(), beside_[l].end(),
                      [other](const Beside& b) { return b.link == other; });
}

void FairShare::add_beside(uint32_t l, const Share& share) {
  const auto at = find_beside(l, share.link);
  if (at == beside_[l].end()) {
    beside_[l].push_back({share.link, 1, static_cast<double>(share.weight)});
  } else {
    ++at->flows;
    at->weight += static_cast<double>(share.weight);
  }
}

void FairShare::drop_beside(uint32_t l, const Share& share) {
  const auto at = find_beside(l, share.link);
  at->weight -= static_cast<double>(share.weight);
  if (--at->flows > 0) return;
  *at = beside_[l].back();
  beside_[l].pop_back();
}

/// Sets the level of a link, and tells those that its flows pass besides.
void FairShare::set_level(uint32_t l, double level) {
  const double change = level - level_[l];
  for (const Beside& beside : beside_[l]) {
    Link& link = link_[beside.link];
    link.left -= beside.weight * change;
    link.top = std::max(link.top, level);
    order_.mark(beside.link, link.own > 0);
    if (link.left < link.own * order_.before(beside.link)) fall(beside.link);
  }
  note_level(l, level);
}

/// The level of a link will be less than that of the one in front of it. One that limits nobody is overfull:
/// often only until the others are done, so that it waits for them.
void FairShare::fall(uint32_t l) {
  const Link& link = link_[l];
  LinkFacts& facts = facts_[l];
  if (link.own > 0) return order_.move(l, std::max(floor_, link.left / link.own));
  if (!overfull(l)) return;
  if (facts.woken == updates_) {
    order_.mark(l);
    order_.move(l, std::max(floor_, facts.capacity / facts.total));
  } else if (!facts.overfull) {
    facts.overfull = true;
    overfull_.push_back(l);
  }
}

/// Marks a link whose level may be wrong, at the least of its old and its new one. The new one is at least
/// what its own flows get when all others keep their rates.
void FairShare::expect(uint32_t l) {
  const Link& link = link_[l];
  if (link.own == 0) return fall(l);
  order_.mark(l);
  order_.move(l, std::max(floor_, std::min(level_[l], link.left / link.own)));
}

/// Has links that limit nobody and are overfull limit some. False: there are none.
bool FairShare::wake() {
  bool any = false;
  for (const uint32_t l : overfull_) {
    facts_[l].overfull = false;
    if (!facts_[l].hot || !own_[l].empty() || !overfull(l)) continue;
    any = true;
    floor_ = 0;
    facts_[l].woken = updates_;
    fall(l);
  }
  overfull_.clear();
  return any;
}

void FairShare::solve() {
  floor_ = 0;
  for (std::size_t visits = 0;; ++visits) {
    if (visits > most_visits_ * (hot_.size() + 1)) return fill();
    for (const uint32_t l : touched_) {
      is_touched_[l] = 0;
      if (!facts_[l].hot) continue;
      if (members_[l].size() == own_[l].size()) {  // no rounding errors of others that have gone
        link_[l].left = facts_[l].capacity;
        link_[l].top = 0;
      }
      expect(l);
    }
    touched_.clear();
    const LevelOrder::Entry* const first = order_.pop();
    if (first == nullptr) {
      if (!wake()) return;
      continue;
    }
    visit(first->item, first->key);
  }
}

/// Level at which a link is shared by its own flows and those faster than that, joining_.
double FairShare::joined_level(uint32_t l, double least) {
  const Link& link = link_[l];
  joining_.clear();
  double level = least;
  for (const Member& m : members_[l]) {
    const uint32_t b = bottleneck_[m.flow];
    if (b != l && level_[b] > level * kMore) joining_.push_back(m);
  }
  for (std::size_t before = 0; before != joining_.size() && !joining_.empty();) {
    before = joining_.size();
    double left = link.left, own = link.own;
    for (const Member& m : joining_) {
      left += static_cast<double>(m.weight) * level_[bottleneck_[m.flow]];
      own += static_cast<double>(m.weight);
    }
    level = std::max(level, left / own);
    std::erase_if(joining_, [&](const Member& m) { return level_[bottleneck_[m.flow]] <= level * kMore; });
  }
  return level;
}

/// Flows whose cap is below the level that their link would give them part from it.
void FairShare::part_capped(uint32_t l) {
  const Link& link = link_[l];
  while (!own_[l].empty() && link.left / link.own > facts_[l].cap * kMore) {
    const double level = link.left / link.own;
    double least = kInfinite;
    for (std::size_t i = own_[l].size(); i-- > 0;) {
      const FlowId id = own_[l][i];
      const double cap = level_[own_cap(id)];
      if (level > cap * kMore) {
        move(id, own_cap(id));
      } else {
        least = std::min(least, cap);
      }
    }
    facts_[l].cap = least;
  }
}

/// Level that the link's own flows get when all others keep their rates.
double FairShare::own_level(uint32_t l) const {
  return own_[l].empty() ? kInfinite : std::max(0.0, link_[l].left / link_[l].own);
}

/// Brings a link to its level, as far as is known now. `key`: the least that it was expected to be.
void FairShare::visit(uint32_t l, double key) {
  Link& link = link_[l];
  if (own_[l].empty()) {
    if (!overfull(l)) return;
  } else {
    const double now = level_[l], used = now * link.own;
    if (link.left <= used * kMore && link.left >= used * kLess && link.top <= now * kMore) return;
  }
  joining_.clear();
  if (own_[l].empty() || link.top > own_level(l) * kMore) sum(l);
  double level = own_level(l);
  if (own_[l].empty() ? link.left < 0 : link.top > level * kMore)
    level = joined_level(l, own_[l].empty() ? 0 : level);
  const double now = std::min(level_[l], level);
  if (now > std::max(floor_, key) * kMore) {
    order_.mark(l);
    return order_.move(l, now);
  }
  floor_ = std::max(floor_, now);
  if (!joining_.empty()) {
    if (own_[l].empty()) note_level(l, level);
    for (const Member& m : joining_) move(m.flow, l);
    sum(l);
  }
  part_capped(l);
  if (own_[l].empty()) return;
  level = own_level(l);
  if (level > level_[l] * kMore || level < level_[l] * kLess) set_level(l, level);
}

// ---- links with room to spare

/// Deals out a cold link again, half of what is left to its flows and half to those to come, or makes it hot.
void FairShare::look(uint32_t l) {
  LinkFacts& facts = facts_[l];
  facts.looked = round_;
  const double used = sum(l);
  if (used > kHot * facts.capacity) return promote(l);
  link_[l].left = (facts.capacity - used) / 2;
  facts.rise = facts.total > 0 ? link_[l].left / facts.total : 0;
  for (const Member& m : members_[l]) {
    const uint32_t b = bottleneck_[m.flow];
    const double most = level_[b] + facts.rise;
    watch_[m.flow] = std::min(watch_[m.flow], most);
    if (b < idle_) facts_[b].watch = std::min(facts_[b].watch, most);
  }
}

/// Asks a flow's cold links for more than it had of each.
void FairShare::deal(FlowId id, double had) {
  const Flow& flow = flows_[id];
  const uint32_t b = bottleneck_[id];
  for (uint32_t s = flow.first + flow.hot; s < flow.first + flow.count; ++s) {
    const Share share = pool_[s];
    LinkFacts& facts = facts_[share.link];
    if (facts.looked == round_) continue;  // with this flow
    const double most = level_[b] + facts.rise;
    const double more = static_cast<double>(share.weight) * (most - had);
    if (facts.rise > 0 && more <= link_[share.link].left) {
      link_[share.link].left -= std::max(0.0, more);
      watch_[id] = std::min(watch_[id], most);
    } else {
      look(share.link);  // where it gets hot, this share changes places with one that is done
    }
  }
  if (b < idle_) facts_[b].watch = std::min(facts_[b].watch, watch_[id]);
}

/// Collects the flows that have risen beyond what was dealt out to them; new ones had nothing.
void FairShare::find_risen() {
  risen_.clear();
  const auto check = [&](FlowId id) {
    if (watch_[id] >= rate(id)) return;
    risen_.emplace_back(id, watch_[id]);
    watch_[id] = kInfinite;
  };
  for (const FlowId id : moved_) {
    if (bottleneck_[id] != idle_) check(id);
  }
  for (const uint32_t l : changed_) {
    if (own_[l].empty() || level_[l] <= facts_[l].watch) continue;
    facts_[l].watch = kInfinite;
    for (const FlowId id : own_[l]) {
      check(id);
      facts_[l].watch = std::min(facts_[l].watch, watch_[id]);
    }
  }
}

/// Makes sure that no cold link is overfull, and solves again where one would be.
void FairShare::certify() {
  for (;;) {
    find_risen();
    if (risen_.empty()) return;
    ++round_;
    for (const auto& [id, had] : risen_) deal(id, had);
    solve();
  }
}

void FairShare::refresh() {
  if (updates_ % kRefresh != 0 || hot_.empty()) return;
  if (next_hot_ >= hot_.size()) next_hot_ = 0;
  const uint32_t l = hot_[next_hot_];
  if (!own_[l].empty() || facts_[l].capacity - link_[l].left > kCold * facts_[l].capacity) {
    ++next_hot_;
    sum(l);
    return touch(l);
  }
  hot_[next_hot_] = hot_.back();
  hot_.pop_back();
  demote(l);
  look(l);
}

void FairShare::update() {
  begin();
  if (!added_.empty() || !touched_.empty()) {
    ++updates_;
    refresh();
    for (const FlowId id : added_) place(id);
    solve();
    certify();
    added_.clear();
  }
  reported_ = true;
}

}  // namespace tandem::sim
