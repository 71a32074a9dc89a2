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
  export OUT="$work/out"
  # Without the tests of kernels, which cuda_kernels_test runs.
  only=doctor,train-bf16,train-more,predict,schemes,sharing,routes,processes,hardware,pytorch,sanitizer
  python3 pack/gpu_visit.py --only $only --budget 500 --iterations 30 \
    --models "digits-mlp=8;transformer-tiny:layers=1,hidden=16,heads=2,vocabulary=40,sequence=6=2" || true
'
python3 - "$work/out/visit.json" << 'END'
import json, sys
stages = json.load(open(sys.argv[1]))["stages"]
sound = ["train-bf16", "train-more", "predict", "schemes", "sharing", "routes", "processes"]
wrong = [f"{name}: {stages.get(name, {}).get('problems', 'did not run')}" for name in sound
         if stages.get(name, {}).get("problems", True)]
# What is not here says so.
for name in ["hardware", "pytorch", "sanitizer"]:
    if not stages[name]["problems"]:
        wrong.append(f"{name}: ran without PyTorch, a toolkit or a GPU, and found nothing wrong")
run = stages["train-bf16"]["digits-mlp bf16"]["result"]["reports"][0]
if not run["iteration_seconds"].get("replayed") or not run["iteration_seconds"].get("eager") or not run.get("libraries"):
    wrong.append("train-bf16: no replayed or eager median, or nothing said of libraries")
print("\n".join(wrong) or "sound")
sys.exit(1 if wrong else 0)
END
