#pragma once
// The closing line of predict: what one change would give, each figure simulated. Floor 5.
#include <string>
#include <vector>

#include "app/question.h"

namespace tandem {

/// About the last report of `reports`, which answers `question`: twice one kind of link and the best other
/// stock system with the same chip when communication binds, a smaller number format when compute
/// does, synthetic input when input does; then whether the figures are calibrated. One sentence each.
std::string closing_line(const Question& question, const std::vector<Report>& reports);

}  // namespace tandem
