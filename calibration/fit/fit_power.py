#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fit what accelerators draw, and what a power limit leaves of their speed: figures of topologies/power/devices.json.

    python3 calibration/fit/fit_power.py --tandem build/tandem [--check]

Needs numpy and scipy. The program says how a step divides into matrix products and all else ("predict --format json",
compute_by_kernel); topologies/devices/device_power.h has the formulas. Fitted are, with the rows of each:

  levels products, streams   watts of one H200 (calibration/data/visits/h200.json) and of V100 at rated power
                             (calibration/data/power_limits), as least squares in which each machine counts once
  scale of pascal            watts of P100 at rated power, given these levels
  clock                      seconds of an epoch of V100 under limits; `held` is the mean of watts over limit where the
                             limit cost more than 3 % of the speed, V100 and P100
  demand of hopper, blackwell  cuBLAS under limits over the best product at rated power
                             (calibration/data/limited_products.json), each device once, given clock and base
  boards (plan/power/draw.json) walls of the one-node rows of mlperf.json that say so, given all else
  errors                     of watts: H200 by levels fitted to V100 and the reverse; of other architectures, and of
                             Hopper, whose rows in 2 bytes were too short, these two, A40, RTX 6000 (calibration/data/power/zeus.json) and P100 at scale 1. Of
                             limits: P100 by V100's clock and V100 by P100's, over the logarithm of the speed

Of the H200 only runs that took four seconds count: what its driver reports is an average over one.
"""
import argparse
import csv
import io
import json
import math
import pathlib
import subprocess
import sys

try:
    import numpy
    from scipy.optimize import least_squares, nnls
except ImportError as missing:
    print(missing)
    sys.exit(77)  # what a test that is skipped says

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "topologies" / "power" / "devices.json"
PRODUCTS = {"gemm", "conv", "attention"}
RATED = {"A40": "a40", "Quadro RTX 6000": "quadro-rtx-6000"}  # files in topologies/devices
LONG = 4.0       # seconds of a run on the H200
ITERATIONS = 60  # of these runs


def shares(tandem, **asked):
    """Of a step's kernels: (products, all else)."""
    words = [f"--{key}={value}" for key, value in asked.items()]
    out = subprocess.run([tandem, "predict", "--devices=1", "--format=json", "--input=synthetic", *words],
                         capture_output=True, text=True)
    report = json.loads(out.stdout)["reports"][0] if out.returncode == 0 else {}
    if not report.get("fits"):
        return None
    kinds = {k["name"]: k["share"] for k in report["compute_by_kernel"]}
    products = sum(share for kind, share in kinds.items() if kind in PRODUCTS) / sum(kinds.values())
    return products, 1 - products


def of_h200(tandem):
    """[(machine, products, streams, watts over rated)]"""
    rows = []
    for row in json.loads((ROOT / "calibration/data/visits/h200.json").read_text())["tandem"]:
        if "clocks" in row and row["replayed_seconds"] * ITERATIONS >= LONG:
            p, s = shares(tandem, model=row["model"], system="hgx-h200", batch=row["batch"], profile="h200",
                          precision=row["precision"], scheme="allreduce")
            rows.append(("H200", p, s, row["clocks"]["watts"][2] / 700))
    return rows


def of_limits(tandem):
    """[(machine, products, streams, watts over rated, [(limit, speed, watts)])], limits as shares of the rated power"""
    rows = []
    for row in json.loads((ROOT / "calibration/data/power_limits/zeus.json").read_text())["rows"]:
        q = row["question"]
        mix = shares(tandem, model=q["model"], system=q["system"], batch=q["batch"], precision=q["precision"],
                     scheme=q["scheme"])
        if mix is None:
            continue
        rated, watts, seconds = row["under"][-1]
        under = [(limit / rated, seconds / longer, drawn / rated) for limit, drawn, longer in row["under"][:-1]]
        rows.append((row["machine"], *mix, watts / rated, under))
    return rows


def of_others(tandem):
    """Rows of each machine of zeus.json that no level is fitted to, as of_h200()."""
    out = {}
    for row in json.loads((ROOT / "calibration/data/power/zeus.json").read_text())["rows"]:
        if row.get("held_out"):
            q = row["question"]
            mix = shares(tandem, model=q["model"], system=q["system"], batch=q["batch"], precision=q["precision"],
                         scheme=q["scheme"])
            rated = json.loads((ROOT / "topologies" / "devices" / f"{RATED[row['machine']]}.json").read_text())["watts"]
            out.setdefault(row["machine"], []).append((row["machine"], *mix, row["watts"] / rated))
    return list(out.values())


def levels(rows):
    """(products, streams); each machine counts once."""
    of = {m: sum(1 for r in rows if r[0] == m) for m in {r[0] for r in rows}}
    weight = numpy.array([1 / math.sqrt(of[r[0]]) for r in rows])
    a = numpy.array([[r[1], r[2]] for r in rows])
    return nnls(a * weight[:, None], numpy.array([r[3] for r in rows]) * weight)[0]


def speed(limit, p, s, drawn, clock, base):
    least, slope, held = clock

    def at(f):
        voltage = max(least, 1 - slope * (1 - f))
        return base + (drawn - base) * voltage**2 / (p / f + s)
    if at(1) <= held * limit:
        return 1.0
    low, high = 0.05, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if at(middle) > held * limit else (middle, high)
    return 1 / (p / low + s)


def speed_errors(rows, clock, base, drawn):
    """Logarithms of predicted over measured speed, with the measured ones."""
    return [(math.log(speed(limit, r[1], r[2], drawn(r), clock, base) / fast), fast)
            for r in rows for limit, fast, _ in r[4]]


def fit_clock(rows, base, held, drawn):
    found = least_squares(lambda x: [e for e, _ in speed_errors(rows, (x[0], x[1], held), base, drawn)], [0.8, 1.2],
                          bounds=([0.5, 0.2], [0.99, 6]), diff_step=1e-3)
    return float(found.x[0]), float(found.x[1]), held


def product_speed(limit, demand, clock, base):
    """Of a product that reaches the device's best, over that at rated power, which holds it down too."""
    def held(share):
        return speed(share, 1, 0, demand, clock, base)
    return held(limit) / held(1)


def fit_demand(clock, base):
    """(demand, [(device, predicted, measured)])"""
    rows = json.loads((ROOT / "calibration/data/limited_products.json").read_text())["rows"]
    devices = {}
    for row in rows:
        devices.setdefault(row["device"], []).append((row["limit"] / row["rated"], row["tflops"] / row["best"]))

    def errors(demand):
        return [numpy.mean([math.log(product_speed(limit, demand, clock, base) / fast) for limit, fast in of])
                for of in devices.values()]
    found = least_squares(lambda x: errors(x[0]), [1.7], bounds=([1], [5]), diff_step=1e-3)
    return float(found.x[0]), list(zip(devices, errors(found.x[0]))), len(rows)


def fit_boards(tandem, check):
    """So that the rows that name it have no bias; all other parts of a node stay."""
    path = ROOT / "plan" / "power" / "draw.json"
    text = path.read_text()
    draw = json.loads(text)
    rows = [row for row in json.loads((ROOT / "calibration/data/power/mlperf.json").read_text())["rows"]
            if "boards" in row.get("fitted", "")]
    sources = {row["source"] for row in rows}
    out = subprocess.run([tandem, "validate", "--power=csv"], capture_output=True, text=True, check=True).stdout
    missing = [float(r["published"]) - float(r["predicted"]) for r in csv.DictReader(io.StringIO(out))
               if r["source"] in sources]
    value = draw["boards"]["value"][1] + draw["supply"]["value"][1] * numpy.mean(missing) / (8 * 700)
    was, now = json.dumps(draw["boards"]["value"]), json.dumps([round(value + d, 3) for d in (-0.12, 0, 0.12)])
    print(f"boards: {was} -> {now}, {len(missing)} rows, {numpy.mean(missing):+.0f} W on average before")
    if not check:
        path.write_text(text.replace(f'"boards": {{"value": {was}', f'"boards": {{"value": {now}'))
    return int(abs(value - draw["boards"]["value"][1]) >= 0.005)


def differences(was, now, name=""):
    """How many figures are another in the third digit, each in words."""
    if isinstance(now, dict):
        return sum(differences(was[key], now[key], f"{name}.{key}") for key in now)
    if isinstance(now, str) or abs(was - now) < 0.005:
        return 0
    print(f"{name[1:]}: {now:.3f} by the fit, {was:.3f} in the file")
    return 1


def rms(values):
    return math.sqrt(sum(v * v for v in values) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where the file says something else")
    arguments = parser.parse_args()
    document = json.loads(DATA.read_text())
    h200, limits = of_h200(arguments.tandem), of_limits(arguments.tandem)
    v100, p100 = ([r for r in limits if r[0] == machine] for machine in ["V100", "P100"])
    base = document["base"]["others"]["value"]

    products, streams = levels(h200 + v100)
    level = lambda r: products * r[1] + streams * r[2]
    pascal = sum(r[3] for r in p100) / sum(level(r) for r in p100)
    held = sum(w / limit for r in limits for limit, fast, w in r[4] if fast < 0.97) / sum(
        1 for r in limits for _, fast, _ in r[4] if fast < 0.97)
    draws = {"V100": level, "P100": lambda r: pascal * level(r)}
    clock = fit_clock(v100, base, held, draws["V100"])
    other = fit_clock(p100, base, held, draws["P100"])

    left_out = []
    for kept, out in [(h200, v100), (v100, h200)]:
        a, b = levels(kept)
        errors = [math.log((a * r[1] + b * r[2]) / r[3]) for r in out]
        left_out.append(rms(errors))
        print(f"{out[0][0]}, levels of {kept[0][0]} ({a:.3f}, {b:.3f}): mean {100 * numpy.mean(numpy.abs(errors)):.1f} %")
    slow = []
    for name, rows, with_clock in [("P100", p100, clock), ("V100", v100, other), ("V100 (fitted)", v100, clock)]:
        found = speed_errors(rows, with_clock, base, draws[rows[0][0]])
        print(f"{name}: speed under limits, mean {100 * numpy.mean([abs(e) for e, _ in found]):.1f} %, "
              f"worst {100 * max(abs(e) for e, _ in found):.1f} %, {len(found)} rows")
        if "fitted" not in name:
            slow += [(e, math.log(fast)) for e, fast in found if fast < 0.97]
    limit_error = rms([e for e, _ in slow]) / rms([s for _, s in slow])

    demand, products_off, product_rows = fit_demand(clock, base)
    print("products under limits: " + ", ".join(f"{name} {100 * (math.exp(e) - 1):+.0f} %" for name, e in products_off))

    of_levels = "one H200 2026-11-26 and 27, V100 of ml-energy/zeus trace zeus_nsdi23@75a8b93"
    rows_of_levels = f"{len(h200)} of calibration/data/visits/h200.json, {len(v100)} of calibration/data/power_limits"

    def put(entry, value, source, rows):
        entry.update(value=round(value, 3), source=source, rows=rows)
    put(document["levels"]["products"], products, of_levels, rows_of_levels)
    put(document["levels"]["streams"], streams, of_levels, rows_of_levels)
    put(document["scale"]["pascal"], pascal, "P100 of ml-energy/zeus trace zeus_nsdi23@75a8b93: its rated power is generous",
        f"{len(p100)} of calibration/data/power_limits")
    for architecture in ["hopper", "blackwell"]:
        put(document["demand"][architecture], demand, document["demand"][architecture]["source"],
            f"{product_rows} of calibration/data/limited_products.json")
    document["clock"].update(least_voltage=round(clock[0], 3), slope=round(clock[1], 3), held=round(held, 3),
                             source="ml-energy/zeus trace zeus_nsdi23@75a8b93",
                             rows=f"{sum(len(r[4]) for r in v100)} of V100 in calibration/data/power_limits; held: "
                                  "those of P100 too")
    for architecture in ["volta", "pascal"]:
        put(document["errors"]["watts"][architecture], rms(left_out),
            "relative standard error of V100 by the levels of H200 and the reverse", rows_of_levels)
    away = [[math.log(level(r) / r[3]) for r in rows] for rows in of_others(arguments.tandem) + [p100]]
    print("others: " + ", ".join(f"{100 * numpy.mean(errors):+.1f} %" for errors in away))
    put(document["errors"]["watts"]["others"], rms(left_out + [rms(errors) for errors in away]),
        "relative standard error over five machines: V100 and H200 as above, A40, RTX 6000, P100 without its scale",
        rows_of_levels + f", {len(p100)} of P100 there, 4 of calibration/data/power/zeus.json")
    put(document["errors"]["limit"], limit_error,
        "of P100 by V100's clock and V100 by P100's: error of the logarithm of a speed, over that logarithm",
        f"{len(slow)} of calibration/data/power_limits that a limit cost more than 3 %")
    if arguments.check:
        return differences(json.loads(DATA.read_text()), document) + fit_boards(arguments.tandem, True)
    lines = ["{", f'  "summary": {json.dumps(document["summary"])},']
    for key in list(document)[1:]:
        value = document[key]
        end = "" if key == list(document)[-1] else ","
        if key in ("clock", "least_limit"):
            lines.append(f'  "{key}": {json.dumps(value)}{end}')
            continue
        lines.append(f'  "{key}": {{')
        lines += [f'    "{name}": {json.dumps(entry)}' + ("," if name != list(value)[-1] else "")
                  for name, entry in value.items()]
        lines.append("  }" + end)
    DATA.write_text("\n".join(lines) + "\n}\n")
    fit_boards(arguments.tandem, False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
