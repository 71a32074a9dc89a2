// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands that ask `predict` and `run` about a way to train.
#include <string>
#include <vector>

#include "answers/way_search.h"

namespace tandem::answers {

/// A command, word by word, or why there is none.
struct RunCommand {
  std::vector<std::string> words, notes;  ///< notes: how the run differs from the prediction
  std::string why_not;                    ///< "" where there are words
};

/// On this machine: on its GPUs if `gpus`, else on its cores; several nodes are emulated.
RunCommand run_here(const Question& question, const Candidate& candidate, const Saver& saver, bool gpus);
/// On the question's machine: on its GPUs, under mpirun where it has several nodes.
RunCommand run_there(const Question& question, const Candidate& candidate, const Saver& saver);

}  // namespace tandem::answers
