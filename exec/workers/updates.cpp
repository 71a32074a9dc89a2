// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/updates.h"

#include <algorithm>

namespace tandem::exec {

Needs Updates::needs(const Asked& a) {
  return {{a.lowered().parameters() * a.program.delay, &MemoryUse::buffers}};
}

Updates::Updates(const Workplace& place)
    : UpdateHandler(place), delayed_(place.bench.allocate(needs(place.bench.asked())[0])) {
  find_judge();
}

/// A step's first update, before which all gradients have been summed (update=all, one worker): in fp16 a
/// non-finite one then cancels them all (torch.amp.GradScaler).
void Updates::find_judge() {
  if (plan_.execution().job.precision != Precision::fp16 || plan_.stages().split() ||
      run_.store() != nullptr || plan_.spreads())
    return;
  const auto& ops = role().ops;
  int64_t last_sum = -1, first_update = -1;
  for (uint32_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind == OpKind::collective && ops[i].payload == Payload::gradients) last_sum = i;
    if (ops[i].kind == OpKind::compute && ops[i].payload == Payload::parameters && first_update < 0)
      first_update = i;
  }
  if (first_update < 0 || last_sum > first_update) return;
  const auto& deps = ops[static_cast<uint32_t>(first_update)].deps;
  const bool behind = last_sum < 0 || std::any_of(deps.begin(), deps.end(), [&](const Dep& d) {
                        return d.lag == 0 && static_cast<int64_t>(d.op) == last_sum;
                      });
  if (behind) judge_ = static_cast<uint32_t>(first_update);
}

OpHandler::Act Updates::bind(uint32_t index) {
  const Op& op = role().ops[index];
  const Slice part = updated(index);
  if (part.elements == 0) return nothing();
  if (plan_.shards().hold_models()) return update_model(op, part);
  // An update before the next iteration's forward: the first has nothing to apply yet.
  int32_t lag = 0;
  for (const Dep& d : op.deps) lag = std::max<int32_t>(lag, d.lag);
  driver_->needs_state(lag);
  if (plan_.program().delay > 0) return update_late(op, part, lag);
  return
      [this, list = std::vector<Launch>{update(op, part)}, lag, judges = index == judge_](int32_t iteration) {
        if (iteration < lag) return int64_t{0};
        if (judges) device_->judge(memory_.gradients(), graph().parameters(), Lane::compute);
        IterationState s = plan_.state(instance_, iteration - lag);
        s.slot = static_cast<uint32_t>(lag);
        driver_->launch(list, 0, s);
        return int64_t{0};
      };
}

Launch Updates::update(const Op& op, const Slice& part) {
  Call call = update_call(op, part);
  std::vector<float*> operands{own_parameters(part.first), own_gradients(part.first)};
  memory_.add_state(operands, part.first);
  copies_.renew_by(call, operands, part);
  return launch_of(call, operands);
}

/// With the gradients of `lag` iterations ago, whose memory then holds this iteration's until they are
/// summed.
OpHandler::Act Updates::update_late(const Op& op, const Slice& part, int32_t lag) {
  const int64_t all = graph().parameters();
  Launch late = update(op, part);
  const std::vector<float*> now = late.operands[0];
  late.operands.clear();
  for (int32_t k = 0; k < lag; ++k) {
    late.operands.push_back(now);
    late.operands.back()[1] = delayed_ + k * all + part.first;
  }
  return [this, list = std::vector<Launch>{late}, part, lag, all](int32_t iteration) {
    const int32_t slot = iteration % lag;
    if (iteration >= lag) {
      IterationState s = plan_.state(instance_, iteration - lag);
      s.slot = static_cast<uint32_t>(lag);
      driver_->launch(list, static_cast<std::size_t>(slot), s);
    }
    device_->copy(delayed_ + slot * all + part.first, memory_.gradients() + part.first, part.elements,
                  Lane::compute);
    return int64_t{0};
  };
}

/// On the model that others can reach, a copy of which is used for computing until the next update.
OpHandler::Act Updates::update_model(const Op& op, const Slice& part) {
  return [this, list = std::vector<Launch>{update(op, part)}, key = op.key, part,
          copies = copied(part)](int32_t iteration) {
    run_.store()->change(instance_, key, {part.first, part.elements, instance_}, [&](float* model) {
      device_->synchronize(Lane::compute);  // it may still read them
      device_->upload(memory_.parameters() + part.first, model, part.elements);
      driver_->launch(list, 0, plan_.state(instance_, iteration));
      renew(copies, Lane::compute);
      device_->synchronize(Lane::compute);
      device_->download(model, memory_.parameters() + part.first, part.elements);
    });
    return int64_t{0};
  };
}

}  // namespace tandem::exec
