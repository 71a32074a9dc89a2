// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files that let engines start the shards of a sweep, or the processes of a run, on many machines.
//
// Which cells a shard has depends on its number and their count, and the count is written into the file: when
// Slurm starts one task of an array again, its SLURM_ARRAY_TASK_COUNT is 1.
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::app {

/// A sweep to be started in parts, or a run in processes.
struct JobFile {
  int64_t shards = 1;                ///< of a run: processes, each a node
  std::string program;               ///< the path of tandem where it is to run
  std::vector<std::string> command;  ///< "sweep" or "run" and its options, without --shard
  std::string out;                   ///< --out of the sweep or run; may be empty
  int64_t threads = 0;               ///< --threads of the sweep; 0: not given
  std::vector<std::string> options;  ///< of sbatch or mpirun, as they are
  std::string image, claim;          ///< of Kubernetes: what a container holds, and the volume for the files
  std::string made_by;               ///< the command that makes it
};

/// A script for sh, to be run where sbatch is: a job array of which each task answers a shard, and a job
/// after it that merges them and says what is missing. Its first argument starts these tasks alone: "3,7-9".
std::string slurm_script(const JobFile& job);
/// YAML of two Jobs (batch/v1): an indexed one that answers shards, and one for `kubectl patch` to start that
/// merges them. The claim's volume is the working folder, /work.
std::string kubernetes_manifest(const JobFile& job);
/// A script for sh: a job with a process on each of as many machines, which srun lets join by PMIx.
std::string slurm_run_script(const JobFile& job);
/// YAML of a Job, or for several processes of an MPIJob (kubeflow.org/v2beta1), which the MPI Operator
/// starts: its image has sshd and mpirun.
std::string kubernetes_run_manifest(const JobFile& job);
/// A line for sh: mpirun with as many ranks, which share one sweep, or run together.
std::string mpi_script(const JobFile& job);

}  // namespace tandem::app
