#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tandem says of a GPU before gpu_visit.py has seen it: rate, kinds of kernels, memory and watts of twelve trainings
in four formats, on each of two chips, from the kernels that were measured on one of them.

  gpu_visit_predict.py [--program build/tandem] [--out calibration/data/visits/predicted.json]

Commit the file before the visit. A visit's rows of the same model, batch and format judge it: `tandem validate` prints them
side by side. What was measured in another format or on another chip is scaled by the stock curves, and the row says so ("extrapolates").
"""
import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PROFILE = "h200"
SYSTEMS = {"h100": "dgx-h100", "h200": "hgx-h200"}  # what a visit's machine is called, and where its chip is described
PRECISIONS = ["bf16", "tf32", "fp32", "fp8"]
# Model, batch, other options. The first eight are those that every visit trains.
TRAININGS = [("resnet50", 64, {}), ("bert-large", 16, {}), ("gpt2", 8, {}), ("vgg16", 64, {}), ("resnet18", 64, {}),
             ("mobilenet-v2", 64, {}), ("densenet121", 32, {}), ("resnext50-32x4d", 32, {}),
             ("llama3.2-1b:sequence=1024", 2, {}), ("vit-b16", 64, {}), ("t5-small", 16, {}),
             ("gpt2-medium", 4, {"adapter": "lora:rank=16"})]


def words(options):
    return [word for key, value in options.items() for word in [f"--{key}", str(value)]]


def ask(program, system, training, precision, profile):
    """A row, or None where the profile has no kernels in that format."""
    model, batch, more = training
    command = ["predict", "--system", SYSTEMS[system], "--devices", "1", "--model", model, "--batch", str(batch), *words(more),
               "--precision", precision, "--profile", profile, "--input", "synthetic", "--format", "json", "--quiet"]
    done = subprocess.run([program, *command], capture_output=True, text=True, errors="replace")
    if done.returncode == 3 and "kernels were measured in" in done.stdout + done.stderr:
        return None
    if done.returncode != 0:
        sys.exit(f"tandem {' '.join(command)}: exit code {done.returncode}\n{done.stderr or done.stdout}")
    try:
        report = json.loads(done.stdout)["reports"][0]
    except (ValueError, LookupError, TypeError):
        sys.exit(f"{program} {' '.join(command)}: no report of a prediction came out")
    interval, memory = report["samples_per_second_interval"], report["memory_bytes_per_device"]
    row = {"system": system, "described": SYSTEMS[system], "model": model, "batch": batch,
           **({"options": more} if more else {}), "precision": precision, "profile": profile, "command": " ".join(["tandem", *command]),
           "samples_per_second": report["samples_per_second"], "low": interval["low"], "high": interval["high"],
           "compute_by_kernel": report["compute_by_kernel"],
           "memory_bytes": {key: memory[key] for key in ["total", "reserved", "nvidia_smi"]}, "extrapolates": report["extrapolates"]}
    if power := report.get("power"):
        row["watts"] = {"mean": power["watts_per_device"], **{key: power["interval"][key] for key in ["low", "high"] if "interval" in power}}
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", default=str(HERE.parent / "build" / "tandem"), help="tandem, as built (default build/tandem)")
    p.add_argument("--out", default=str(HERE / "data" / "visits" / "predicted.json"))
    p.add_argument("--trainings", type=int, default=len(TRAININGS), help="the first so many alone")
    arguments = p.parse_args()
    out = pathlib.Path(arguments.out)
    if not arguments.out or out.is_dir() or not out.parent.is_dir():
        p.error(f"--out {arguments.out}: not a file in a folder that there is")
    if not 1 <= arguments.trainings <= len(TRAININGS):
        p.error(f"--trainings {arguments.trainings}: from 1 to {len(TRAININGS)}")
    try:
        version = subprocess.run([arguments.program, "--version"], capture_output=True, text=True, errors="replace",
                                 check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError) as why:
        p.error(f"--program {arguments.program}: no tandem ({why}); build it, or name another")
    if not version.startswith("tandem "):
        p.error(f"--program {arguments.program}: no tandem, it says \"{version}\"")
    cases = [(system, training, precision) for system in SYSTEMS for training in TRAININGS[:arguments.trainings]
             for precision in PRECISIONS]
    one = lambda case: ask(arguments.program, *case, PROFILE) or ask(arguments.program, *case, "stock")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(one, cases))
    found = {"schema": "tandem-visit-predictions-1", "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
             "program": version, "profile": PROFILE, "command": "calibration/gpu_visit_predict.py", "rows": rows}
    head = json.dumps({**found, "rows": []}, indent=1).removesuffix("[]\n}")
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    try:
        out.write_text(f"{head}[\n{lines}\n ]\n}}\n")
    except OSError as why:
        sys.exit(f"--out {out}: {why.strerror}")
    print(f"{out}: {len(rows)} predictions by {version}")


if __name__ == "__main__":
    main()
