#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Of a visit's results a summary, and the figures that `tandem validate` prints: visit.json has them, as files of
calibration/data/visits do.

  gpu_visit_figures.py VISIT.json calibration/data/visits/NAME.json     adds them to what earlier visits found
"""
import json
import pathlib
import sys


def objects(tree):
    """All JSON objects of a tree, each in front of what it holds."""
    if isinstance(tree, dict):
        yield tree
    for below in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else []:
        yield from objects(below)


def executed(stages):
    """The executor's samples per second with one worker: of trainings, of what check ran, of measured graphs."""
    for found in objects(stages):
        result = found.get("result")
        result = result if isinstance(result, dict) else {}
        for report in result.get("reports", []):
            inputs = report["inputs"]
            if report["devices"] != 1 or not report.get("samples_per_second") or inputs.get("backend") != "cuda":
                continue
            if inputs.get("scheme", "allreduce") != "allreduce" or inputs.get("scheme.accumulate", "1") != "1":
                continue
            steps = report["iteration_seconds"]
            yield {"model": inputs["model"], "batch": int(inputs["batch_per_device"]), "precision": inputs["precision"],
                   **{key: value for key, value in found.get("asked", {}).items() if key != "scheme"},
                   "samples_per_second": round(report["samples_per_second"], 1), **watts(report),
                   **{f"{kind}_seconds": steps[kind] for kind in ["replayed", "eager"] if kind in steps}}
        for case in result.get("cases", []):
            if (case["metric"], case["devices"], case["scheme"]) == ("samples_per_second", 1, "allreduce"):
                yield {"model": case["model"], "batch": case["batch_per_device"],
                       "precision": result.get("precision", "fp32"), "samples_per_second": round(case["executed"], 1)}
        for graph in found.get("graphs", []):
            if graph["workers"] == 1:
                yield {"model": graph["model"], "batch": graph["batch"], "precision": graph["precision"],
                       "samples_per_second": round(graph["batch"] / graph["step_seconds"], 1),
                       "replayed_seconds": graph["step_seconds"]}


def watts(report):
    """{} where no meter was read."""
    power = report.get("power")
    return {"watts": round(power["watts_per_device"], 1)} if power else {}


def trainings(stages):
    """Of several GPUs, and what they are measured by: one worker with the same model."""
    for case, found in stages.get("scaling", {}).items():
        reports = found.get("result", {}).get("reports", []) if isinstance(found, dict) else []
        for report in reports:
            if not report.get("samples_per_second") or report["inputs"].get("backend") != "cuda":
                continue
            stale = report.get("staleness")
            yield {**found["asked"], "devices": report["devices"], "samples_per_second": round(report["samples_per_second"], 1),
                   **watts(report), **({"staleness": stale["mean"]} if stale else {})}


def tested(found, name=""):
    """In words, what tests and schemes came to."""
    if "tests" in found:
        yield f"{name}: {found['passed']} of {found['tests']} tests"
    runs = [run for run in found.values() if isinstance(run, dict) and "cuda" in run and "cpu" in run]
    if runs:
        ended = [run for run in runs if run["cuda"].get("exit") == run["cpu"].get("exit") == 0 and "problem" not in run]
        free = sum(1 for run in ended if run["free"])
        yield (f"{len(runs)} runs of schemes and offloading on two workers that share the GPU: {len(ended) - free} end at "
               f"the processor's losses, {free} whose workers wait for nobody end")
    for key, below in found.items():
        if isinstance(below, dict) and key != "result":
            yield from tested(below, f"{name} {key}".strip())


def figures(results):
    """What a file of calibration/data/visits holds."""
    stages = results["stages"]
    said = {row["part"]: str(row.get("found", "")) for row in stages.get("doctor", {}).get("result") or []
            if isinstance(row, dict) and "part" in row}
    tests = list(tested(stages))
    machine = "; ".join(said[part] for part in ["GPU0", "CUDA versions"] if part in said)
    of_torch = ["model", "batch", "precision", "mode", "torch", "step_seconds", "spread", "samples_per_second", "peak_bytes",
                "reserved_bytes", "driver_bytes"]
    several = {"trainings": list(trainings(stages)), "collectives": stages.get("reduced", {}).get("collectives", [])}
    if "system" in stages.get("wires", {}):
        several["system"] = stages["wires"]["system"]
    return {"schema": "tandem-visit-1", "machine": machine or results["platform"], "date": results["date"],
            "conformance": {results["date"]: "; ".join(tests)} if tests else {},
            "tandem": list(executed(stages)),
            "pytorch": [{key: found[key] for key in of_torch if key in found} for found in objects(stages)
                        if "mode" in found and "step_seconds" in found],
            **{key: value for key, value in several.items() if value}}


def case_lines(case, value):
    if not isinstance(value, dict):
        return []
    if "samples_per_second" in value:
        version = f", PyTorch {value['torch']}" if "torch" in value else ""
        return [f"{case}: {value['samples_per_second']:.1f} samples/s{version}"]
    if "driver_bytes" in value:
        gib = lambda n: "?" if n is None else f"{n / 2**30:.2f} GiB"
        return [f"{case}: {gib(value['allocated_bytes'])} allocated, {gib(value['driver_bytes'])} taken on the GPU, "
                f"{gib(value['predicted_bytes'].get('nvidia_smi'))} predicted of PyTorch"]
    result = value.get("result")
    if not isinstance(result, dict):
        return []
    out = []
    for r in result.get("reports", []):
        if not r.get("samples_per_second"):
            continue
        steps = r["iteration_seconds"]
        more = [f"{key} {1e3 * steps[key]:.2f} ms" for key in ["replayed", "eager"] if key in steps]
        more.append(f"{sum(u['calls'] for u in r.get('libraries', []) if 'refused' in u)} calls refused")
        out.append(f"{case} x{r['devices']}: {r['samples_per_second']:.1f} samples/s, {', '.join(more)}")
        out += [f"    {note}" for note in r.get("notes", [])]
    if "mean_abs_error" in result:
        judged = [row for row in result["cases"] if "in_interval" in row]
        out.append(f"{case}: mean error {100 * result['mean_abs_error']:.1f} %, most {100 * result['max_abs_error']:.1f} %; "
                   f"{sum(row['in_interval'] for row in judged)} of {len(judged)} inside their interval")
    return out


def summary(results):
    lines = [f"tandem on {results['platform']}, {results['date']}"]
    stages = results["stages"]
    for row in (stages.get("doctor", {}).get("result") or [])[:40]:
        if isinstance(row, dict) and str(row.get("part", "")).startswith(("GPU", "CUDA", "cu", "NV", "NCCL")):
            lines.append(f"  {row['part']}: {row.get('found', '')}")
    for name, stage in stages.items():
        verdict = f"{len(stage['problems'])} problem(s)" if stage.get("problems") else "sound"
        limit = f" of {stage['limit_seconds']}" if "limit_seconds" in stage else ""
        lines.append(f"{name}: {stage.get('stage_seconds', 0)}{limit} s, "
                     + (f"not run: {stage['not_run']}" if "not_run" in stage else verdict))
        lines += [f"  {text}" for text in tested(stage, name)]
        for case, value in stage.items():
            lines += [f"  {text}" for text in case_lines(case, value)]
    for stage in stages.values():
        lines += ["PROBLEM " + " ".join(text.split())[:300] for text in stage.get("problems", [])]
    return "\n".join(lines) + "\n"


def merged(old, new):
    """Rows of the executor join those of earlier visits, the last of which counts; PyTorch's take their place."""
    of = lambda row: tuple(row[key] for key in ["model", "batch", "precision", "mode"])
    fresh = {of(row) for row in new["pytorch"]}
    return {**old, "conformance": {**old["conformance"], **new["conformance"]},
            **{key: new[key] for key in ["trainings", "collectives", "system"] if key in new},
            "tandem": old["tandem"] + [{**row, "kernels": new["date"]} for row in new["tandem"]],
            "pytorch": [row for row in old["pytorch"] if of(row) not in fresh] + new["pytorch"]}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    visit, into = json.loads(pathlib.Path(sys.argv[1]).read_text()), pathlib.Path(sys.argv[2])
    new = figures(visit)
    all_of_them = merged(json.loads(into.read_text()), new) if into.exists() else new
    into.write_text(json.dumps(all_of_them, indent=1) + "\n")
    print(f"{into}: {len(new['tandem'])} rates of the executor and {len(new['pytorch'])} of PyTorch from {sys.argv[1]}")
