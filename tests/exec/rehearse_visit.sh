#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A visit to a machine with GPUs, rehearsed where there is none: the pack is unpacked where neither the source tree, the
# CUDA toolkit nor any library that it brings along is in sight, NVIDIA's libraries lie as Python's wheels lay them, and
# the emulated device stands for the GPU. Needs the rights to mount, and a built plugin.
#
#   tests/exec/rehearse_visit.sh BUILD [WORK]
#
# 0: every stage that can be run was sound. 77: this cannot be tried here.
set -eu
build=$(realpath "$1")
work=${2:-$(mktemp -d)}
root=$(realpath "$(dirname "$0")/../..")
unshare -m true 2> /dev/null || exit 77
toolkit=$(realpath /usr/local/cuda 2> /dev/null) || exit 77
libraries=$(realpath "$toolkit/lib64")
[ -e "$build/libtandem_cuda.so" ] && [ -e "$libraries/libcudnn.so.9" ] && [ -e "$libraries/stubs/libcuda.so" ] || exit 77

python3 "$root/calibration/gpu_visit.py" --pack "$work/pack" --build "$build" --with libemulated_cuda.so
# Models that the emulated device trains in seconds.
cat > "$work/pack/data/calibration/suite/suite-gpu.json" << 'END'
{"graphs": [{"model": "digits-mlp", "batch": 4}, {"model": "mlp:inputs=8,hidden=16,layers=2", "batch": 2}],
 "largest_all_reduce_bytes": 4096}
END
cat > "$work/pack/data/calibration/suite/check-gpu.json" << 'END'
{"cases": [{"model": "digits-mlp", "batch": 8, "iterations": 30}]}
END
# And of the tests of kernels those that take seconds; cuda_kernels_test runs all.
sed -i 's/^KERNELS = .*/KERNELS = "*ConformanceOfUpdates*:*ConformanceOfDropout*"/' "$work/pack/gpu_visit_timed.py"
sed -i 's/^SANITIZED = .*/SANITIZED = ["_pool", "Compression"]/' "$work/pack/gpu_visit_timed.py"
for package in cu13 cudnn nccl; do mkdir -p "$work/site/nvidia/$package/lib"; done
for file in "$libraries"/lib*.so.*; do
  case $(basename "$file") in
    libcudnn*) package=cudnn ;;
    libnccl*) package=nccl ;;
    libcublas*.so.13 | libnvrtc*) package=cu13 ;;
    *) continue ;;
  esac
  ln -f "$(realpath "$file")" "$work/site/nvidia/$package/lib/$(basename "$file")"
done
mkdir -p "$work/driver" "$work/empty" "$work/out"
cp "$libraries/stubs/libcuda.so" "$work/driver/libcuda.so.1"

export work root toolkit build
unshare -m sh -euc '
  for file in "$work"/pack/lib/*; do
    there=$(ldconfig -p | sed -n "s|^\t$(basename "$file") .* => ||p" | head -1)
    [ -z "$there" ] || mount --bind /dev/null "$(realpath "$there")"
  done
  mount --bind "$work/empty" "$toolkit"
  case $work in "$root"/*) ;; *) mount --bind "$work/empty" "$root" ;; esac
  cd "$work"
  export PYTHONPATH="$work/site" LD_LIBRARY_PATH="$work/driver" TANDEM_CUDA_PLUGIN="$work/pack/libemulated_cuda.so"
  python3 pack/gpu_visit.py --help > /dev/null
  models="digits-mlp=8;transformer-tiny:layers=1,hidden=16,heads=2,vocabulary=40,sequence=6=2"
  # Without stages of nothing but tests of kernels.
  OUT="$work/out" python3 pack/gpu_visit.py --budget 3600 --patience 20 --iterations 30 --models "$models" \
    --only doctor,train-bf16,train-more,predict,schemes,sharing,hardware,pytorch,sanitizer || true
  # A sanitizer that runs the program stands for the one.
  mkdir -p bin && printf "#!/bin/sh\nshift 4\nexec \"\$@\"\n" > bin/compute-sanitizer && chmod +x bin/compute-sanitizer
  PATH="$work/bin:$PATH" OUT="$work/visit" python3 pack/gpu_visit.py --call visit --budget 3600 --patience 20 --iterations 30 \
    --models "$models" --profile "$work/out/profile.json" || true
  OUT="$work/multi" python3 pack/gpu_visit.py --call multi --budget 3600 --patience 20 --iterations 30 --models "$models" || true
'
python3 - "$work" << 'END'
import json, os, pathlib, sys
work = pathlib.Path(sys.argv[1])
visit, timed, multi = (json.loads((work / name / "visit.json").read_text()) for name in ["out", "visit", "multi"])
wrong = []

def sound(found, names, expected=()):
    for name in names:
        for problem in found.get(name, {}).get("problems", ["did not run"]):
            if not any(word in problem for word in expected):
                wrong.append(problem if problem.startswith(name) else f"{name}: {problem}")

# How near predictions come is not judged here: what else runs on this machine disturbs an emulated device.
judged = [f"check {precision}: exit code 1" for precision in ["bf16", "fp32", "tf32"]]
sound(visit["stages"], ["train-bf16", "train-more", "predict", "schemes", "sharing"], judged)
sound(timed["stages"], ["profile", "predicted", "judged", "memory", "shared", "attention", "racecheck"], judged)
sound(multi["stages"], ["wires", "scaling", "reduced", "routes", "processes"])
# The clock of the twelve minutes: what each stage took, and what its share is.
for name, stage in timed["stages"].items():
    print(f"{name}: {stage['stage_seconds']} s, its share is {stage['limit_seconds']} s"
          + (f"; cut: {len(stage['left_out'])} left out" if "left_out" in stage else ""))
print(f"together {sum(stage['stage_seconds'] for stage in timed['stages'].values()):.0f} s")
if sum(stage["limit_seconds"] for stage in timed["stages"].values()) > 720:
    wrong.append("visit: shares of more than twelve minutes")
# What is not here says so.
for stages, names in [(visit["stages"], ["hardware", "pytorch", "sanitizer"]), (timed["stages"], ["eager"])]:
    wrong += [f"{name}: ran without PyTorch, a toolkit or a GPU, and found nothing wrong" for name in names
              if not stages[name]["problems"]]
run = visit["stages"]["train-bf16"]["digits-mlp bf16"]["result"]["reports"][0]
if not run["iteration_seconds"].get("replayed") or not run["iteration_seconds"].get("eager") or not run.get("libraries"):
    wrong.append("train-bf16: no replayed or eager median, or nothing said of libraries")
for stage, part in [("attention", "against-cpu"), ("racecheck", "racecheck")]:
    tests = timed["stages"][stage].get(part, {})
    if not tests.get("tests") or tests["tests"] != tests["passed"]:
        wrong.append(f"{stage}: {tests.get('passed')} of {tests.get('tests')} tests passed")
# What brings results back takes eight files at most; those that validate reads hold so much.
for name, found, rates in [("out", visit, {"bf16", "fp16", "fp8", "fp32", "tf32"}), ("visit", timed, {"bf16", "fp32", "tf32", "fp8"})]:
    files = sorted(os.listdir(work / name))
    if len(files) > 8 or "visit.json" not in files or "summary.txt" not in files:
        wrong.append(f"{name}: {len(files)} files, {', '.join(files)}")
    if {row["precision"] for row in found["tandem"] if row["samples_per_second"] > 0 and row["batch"] >= 1} != rates:
        wrong.append(f"{name}: not every rate is among the figures")
    if not isinstance(found["machine"], str) or not isinstance(found["date"], str) or found["pytorch"]:
        wrong.append(f"{name}: no machine or date, or figures of PyTorch, which is not here")
if "runs of schemes" not in " ".join(visit["conformance"].values()):
    wrong.append("out: nothing said of the schemes")
print("\n".join(wrong) or "sound")
sys.exit(1 if wrong else 0)
END
