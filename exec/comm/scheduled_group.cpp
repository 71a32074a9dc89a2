// SPDX-License-Identifier: Apache-2.0
#include "exec/comm/scheduled_group.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "exec/comm/collective.h"

namespace tandem::exec {

namespace {

class ScheduledGroup : public DeviceGroup {
 public:
  ScheduledGroup(std::unique_ptr<DeviceGroup> links, Schedule schedule)
      : links_(std::move(links)), schedule_(std::move(schedule)), members_(schedule_.ranks) {}

  void reserve(uint32_t rank, DeviceSession& session, int64_t elements) override {
    plan_steps(rank);
    reserve(members_[rank], session, elements);
  }
  void join(uint32_t rank, DeviceSession& session) override {
    plan_steps(rank);
    links_->join(rank, session);
  }

  void run(uint32_t rank, DeviceSession& session, float* buffer, int64_t elements, Lane lane,
           Precision format) override {
    Member& me = members_[rank];
    reserve(me, session, elements);
    for (const RankStep& step : me.steps) {
      me.sends.clear();
      me.receives.clear();
      for (const Move& m : step.sends) {
        const auto [begin, count] = range(m, elements);
        if (count > 0) me.sends.push_back({m.to, buffer + begin, count});
      }
      int64_t used = 0;
      for (const Take& t : step.takes) {
        const auto [begin, count] = range(t.move, elements);
        if (count > 0)
          me.receives.push_back({t.move.from, t.aside ? me.aside + used : buffer + begin, count});
        used += t.aside ? count : 0;
      }
      if (me.sends.empty() && me.receives.empty()) continue;
      links_->exchange(rank, session, me.sends, me.receives, lane);
      used = 0;
      for (const Take& t : step.takes) {
        const auto [begin, count] = range(t.move, elements);
        if (!t.aside || count == 0) continue;
        if (t.move.reduce && element_bytes(format) == 2)
          session.accumulate_half(buffer + begin, me.aside + used, count, lane);
        else if (t.move.reduce)
          session.accumulate(buffer + begin, me.aside + used, count, lane);
        else
          session.copy(buffer + begin, me.aside + used, count, lane);
        used += count;
      }
    }
  }

  void exchange(uint32_t rank, DeviceSession& session, std::span<const DeviceMessage> sends,
                std::span<const DeviceMessage> receives, Lane lane) override {
    links_->exchange(rank, session, sends, receives, lane);
  }
  std::string failure() override { return links_->failure(); }
  void stop() noexcept override { links_->stop(); }

 private:
  struct Take {
    Move move;
    bool aside;  ///< arrives outside the buffer
  };
  struct RankStep {
    std::vector<Move> sends;
    std::vector<Take> takes;
  };
  struct Member {
    std::vector<RankStep> steps;
    std::vector<DeviceMessage> sends, receives;  ///< of the step under way
    float* aside = nullptr;
    int64_t aside_elements = 0;
  };

  void plan_steps(uint32_t rank) {
    if (!members_[rank].steps.empty()) return;
    for (const Step& step : schedule_.steps)
      members_[rank].steps.insert(members_[rank].steps.end(), step.repeat, plan(step, rank));
  }

  static RankStep plan(const Step& step, uint32_t rank) {
    RankStep out;
    std::vector<const Move*> mine;
    for (const Move& m : step.moves) {
      if (m.from == rank) out.sends.push_back(m);
      if (m.from == rank || m.to == rank) mine.push_back(&m);
    }
    for (const Move& m : step.moves) {
      if (m.to != rank) continue;
      const bool upon = std::any_of(mine.begin(), mine.end(),
                                    [&](const Move* other) { return other != &m && overlap(*other, m); });
      out.takes.push_back({m, m.reduce || upon});
    }
    return out;
  }

  std::pair<int64_t, int64_t> range(const Move& move, int64_t elements) const {
    const int64_t begin = chunk_begin(elements, schedule_.chunks, move.offset);
    return {begin, chunk_begin(elements, schedule_.chunks, move.offset + move.count) - begin};
  }

  void reserve(Member& me, DeviceSession& session, int64_t elements) const {
    int64_t most = 0;
    for (const RankStep& step : me.steps) {
      int64_t used = 0;
      for (const Take& t : step.takes) used += t.aside ? range(t.move, elements).second : 0;
      most = std::max(most, used);
    }
    if (most <= me.aside_elements) return;
    me.aside = session.allocate(most);
    me.aside_elements = most;
  }

  std::unique_ptr<DeviceGroup> links_;
  Schedule schedule_;
  std::vector<Member> members_;  ///< [rank]; those of other processes stay empty
};

}  // namespace

std::unique_ptr<DeviceGroup> scheduled_group(std::unique_ptr<DeviceGroup> links, Schedule schedule) {
  return std::make_unique<ScheduledGroup>(std::move(links), std::move(schedule));
}

}  // namespace tandem::exec
