// SPDX-License-Identifier: Apache-2.0
#pragma once
// The program as several processes under mpirun.
#include <string>
#include <vector>

#include "base/child.h"
#include "tests/app/tool.h"

namespace tandem::tests {

/// Status 127 where there is no mpirun.
inline ChildResult mpirun(int processes, std::vector<std::string> words,
                          const char* program = TANDEM_BINARY) {
  std::vector<std::string> all = {"mpirun", "--allow-run-as-root",     "--oversubscribe",
                                  "-np",    std::to_string(processes), program};
  all.insert(all.end(), words.begin(), words.end());
  try {
    return run_child(all, "", "openmpi-bin", kPatience);
  } catch (const DeviceError&) {
    ChildResult none;  // no such program
    none.status = 127;
    return none;
  }
}

/// No mpirun here, or a build without MPI.
inline bool absent(const ChildResult& r) {
  return r.status == 127 || r.err.find("built without MPI") != std::string::npos;
}

}  // namespace tandem::tests
