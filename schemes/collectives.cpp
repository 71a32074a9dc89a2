#include "schemes/collectives.h"

#include <algorithm>

namespace tandem {

double sent_share(const Schedule& schedule) {
  std::vector<double> sent(schedule.ranks, 0);
  for (const Step& step : schedule.steps) {
    for (const Move& m : step.moves) sent[m.from] += static_cast<double>(m.count) * step.repeat;
  }
  return *std::max_element(sent.begin(), sent.end()) / schedule.chunks;
}

}  // namespace tandem
