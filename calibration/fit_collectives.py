#!/usr/bin/env python3
"""Fits the software costs of communication libraries to published timings of collectives.

usage: fit_collectives.py path/to/dump_collectives [--fit ENTRY ...] [--write] [--leave-one-out] [--rows]

Reads calibration/data/collectives/*.csv. The predictions come from the program itself (dump_collectives), run on a
copy of calibration/profiles/links.json with trial constants; scipy's least_squares (soft L1 on log ratios, every row the
same weight) moves them. Without --fit it prints the error table only. ENTRY: nccl-2.0, nccl-2.4, nccl-2.18 ("from").
"""
import argparse
import collections
import csv
import io
import json
import math
import os
import re
import statistics
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROFILE = os.path.join(ROOT, "calibration/profiles/links.json")
DATA = os.path.join(ROOT, "calibration/data/collectives")
# Application-level timings and machines whose transport bypasses the library's own protocols: judged, never fitted.
NOT_FITTED = {"copper-k80", "p4d.24xlarge", "p5.48xlarge", "g4dn-metal.json"}
# The host of the two-card machine is not the eight-card one's.
NOT_FITTED_ROWS = re.compile(r"^4090-pcie-8x,[^,]*,[^,]*,2,")

# Constants that move, per entry: path in the entry, lowest, highest. "@name" is the protocol of that name.
SPACE = {
    "nccl-2.0": ["@simple.base", "@simple.step.pcie", "@simple.step.host", "@simple.efficiency.pcie",
                 "@simple.efficiency.host"],
    "nccl-2.4": ["@ll.base", "@ll.step.fabric", "@ll.step.host", "@ll.step.network", "@ll.efficiency.fabric",
                 "@ll.efficiency.host", "@ll.efficiency.network", "@simple.base", "@simple.step.fabric",
                 "@simple.step.host", "@simple.step.network", "@simple.efficiency.fabric",
                 "@simple.efficiency.network", "self_copy", "tree_efficiency"],
    "nccl-2.18": ["@ll.base", "@ll.step.fabric", "@ll.efficiency.fabric", "@ll128.base", "@ll128.step.fabric",
                  "@ll128.efficiency.fabric", "@simple.base", "@simple.step.fabric", "@simple.efficiency.fabric",
                  "self_copy", "exchange_efficiency", "switch_latency", "switch_efficiency.hopper", "switch_efficiency.blackwell", "latency_scale.hopper",
                  "latency_scale.blackwell"],
}


def load_profile():
    text = open(PROFILE).read()
    comment = "".join(line + "\n" for line in text.splitlines() if line.startswith("//"))
    return comment, json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.M))


def inline(value):
    return json.dumps(value)


def save_profile(comment, profile, path):
    """One line per protocol, as a person would lay it out."""
    out = [comment + "{", '  "families": {']
    families = list(profile["families"].items())
    for f, (family, entries) in enumerate(families):
        out.append(f'    "{family}": [')
        for e, entry in enumerate(entries):
            out.append("      {")
            keys = [k for k in entry if k != "protocols"]
            for k in keys:
                out.append(f"        {inline(k)}: {inline(entry[k])},")
            out.append('        "protocols": [')
            for p, protocol in enumerate(entry["protocols"]):
                comma = "," if p + 1 < len(entry["protocols"]) else ""
                head = f'"name": {inline(protocol["name"])}, "base": {inline(protocol["base"])}'
                out.append(f'          {{{head}, "step": {inline(protocol["step"])},')
                out.append(f'           "efficiency": {inline(protocol["efficiency"])}}}{comma}')
            out.append("        ]")
            out.append("      }" + ("," if e + 1 < len(entries) else ""))
        out.append("    ]" + ("," if f + 1 < len(families) else ""))
    out += ["  }", "}"]
    with open(path, "w") as file:
        file.write("\n".join(out) + "\n")


def entry_of(profile, name):
    family, version = name.split("-")
    return next(e for e in profile["families"][family] if e["from"] == version)


def place(entry, path):
    """The dict and key that a path names."""
    parts = path.split(".")
    at = entry
    if parts[0].startswith("@"):
        at = next(p for p in entry["protocols"] if p["name"] == parts[0][1:])
        parts = parts[1:]
    for part in parts[:-1]:
        at = at.setdefault(part, {})
    return at, parts[-1]


def is_time(path):
    return not any(word in path for word in ("efficiency", "self_copy", "scale"))


def get(entry, path):
    at, key = place(entry, path)
    value = at.get(key, 1.0)
    return float(value.split()[0]) if is_time(path) else float(value)


def put(entry, path, value, digits=6):
    at, key = place(entry, path)
    at[key] = f"{value:.{digits}g} us" if is_time(path) else float(f"{value:.{digits}g}")


def bounds(path):
    if is_time(path):
        return (0.02, 200.0)
    return (0.05, 4.0) if "efficiency" not in path else (0.05, 1.0)


class Runner:
    """Runs dump_collectives on trial profiles."""

    def __init__(self, program, rows):
        self.program = program
        self.folder = tempfile.TemporaryDirectory()
        root = self.folder.name
        os.symlink(os.path.join(ROOT, "topologies"), os.path.join(root, "topologies"))
        os.makedirs(os.path.join(root, "calibration/profiles"))
        os.symlink(os.path.join(DATA, "systems"), os.path.join(root, "systems"))
        self.table = os.path.join(root, "rows.csv")
        with open(self.table, "w") as file:
            file.write("\n".join(rows) + "\n")

    def __call__(self, comment, profile):
        save_profile(comment, profile, os.path.join(self.folder.name, "calibration/profiles/links.json"))
        done = subprocess.run([self.program, self.table], capture_output=True, text=True,
                              env={**os.environ, "TANDEM_DATA": self.folder.name})
        if done.stderr:
            raise SystemExit(done.stderr)
        return [r for r in csv.reader(io.StringIO(done.stdout))]


def read_rows():
    """(data set, line) of every row."""
    out = []
    for name in sorted(os.listdir(DATA)):
        if name.endswith(".csv"):
            lines = open(os.path.join(DATA, name)).read().splitlines()
            out += [(name[:-4], line) for line in lines if line and not line.startswith(("#", "system,"))]
    return out


def version_of(line):
    """Of NCCL; none for machines of another library."""
    library = re.search(r"communication\.library=nccl-([0-9.]+)", line)
    return [int(x) for x in library.group(1).split(".")] if library else None


def belongs(line, name, profile):
    if version_of(line) is None:
        return False
    starts = [[int(x) for x in e["from"].split(".")] for e in profile["families"]["nccl"]]
    mine = [int(x) for x in name.split("-")[1].split(".")]
    best = max((s for s in starts if s <= version_of(line)), default=starts[0])
    return best == mine and line.split(",")[0] not in NOT_FITTED and not NOT_FITTED_ROWS.match(line)


def fit(program, name, lines, comment, profile):
    import numpy
    from scipy.optimize import least_squares
    run = Runner(program, lines)
    entry, paths = entry_of(profile, name), SPACE[name]

    # Logarithms, moved away from zero because the finite differences below are relative to |x|.
    def coordinate(value):
        return math.log(value) + 10

    def residuals(x):
        for path, value in zip(paths, x):
            put(entry, path, math.exp(value - 10))
        return numpy.array([math.log(float(r[6]) / float(r[5])) for r in run(comment, profile)])

    low, high = zip(*(map(coordinate, bounds(p)) for p in paths))
    start = numpy.clip([coordinate(get(entry, p)) for p in paths], numpy.array(low) + 1e-6, numpy.array(high) - 1e-6)
    result = least_squares(residuals, start, bounds=(low, high), loss="soft_l1", f_scale=0.1, diff_step=0.004,
                           max_nfev=10, x_scale=0.3)
    for path, value in zip(paths, result.x):
        put(entry, path, math.exp(value - 10), digits=3)


def size_class(size):
    return "up to 64 KiB" if size <= 65536 else "to 4 MiB" if size <= 4 << 20 else "above"


def report(rows, sets, per_row):
    classes = ("up to 64 KiB", "to 4 MiB", "above")
    errors = collections.defaultdict(list)
    for (name, _), r in zip(sets, rows):
        ratio = float(r[6]) / float(r[5])
        errors[name, "all", size_class(int(r[4]))].append(ratio)
        errors["all data sets", "all", size_class(int(r[4]))].append(ratio)
        errors[name, f"{r[0]} {r[2]} x{r[3]}", size_class(int(r[4]))].append(ratio)
    groups = sorted({key[:2] for key in errors}, key=lambda k: (k[0] == "all data sets", k[0], k[1] != "all", k[1]))
    print(f"{'median |error| (median predicted/measured)':60s}" + "".join(f"{c:>20s}" for c in classes))
    for data, group in groups:
        cells = []
        for c in classes:
            ratios = errors.get((data, group, c))
            cells.append(f"{statistics.median(abs(x - 1) for x in ratios):8.1%} ({statistics.median(ratios):.2f}) {len(ratios):4d}"
                         if ratios else "-")
        print(f"{data + ': ' + group:60s}" + "".join(f"{c:>20s}" for c in cells))
    if per_row:
        for r in rows:
            print(",".join(r), f"{float(r[6]) / float(r[5]):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--fit", nargs="*", default=[])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--leave-one-out", action="store_true")
    parser.add_argument("--rows", action="store_true")
    args = parser.parse_args()
    comment, profile = load_profile()
    sets = read_rows()
    for name in args.fit:
        lines = [line for _, line in sets if belongs(line, name, profile)]
        print(f"fitting {name} on {len(lines)} rows")
        if args.leave_one_out:
            for system in sorted({line.split(",")[0] for line in lines}):
                trial = json.loads(json.dumps(profile))
                fit(args.program, name, [x for x in lines if x.split(",")[0] != system], comment, trial)
                held = [x for x in lines if x.split(",")[0] == system]
                rows = Runner(args.program, held)(comment, trial)
                ratios = [float(r[6]) / float(r[5]) for r in rows]
                print(f"  without {system}: median |error| on it {statistics.median(abs(x - 1) for x in ratios):.1%}, "
                      f"median ratio {statistics.median(ratios):.2f}, {len(ratios)} rows")
        fit(args.program, name, lines, comment, profile)
        for path in SPACE[name]:
            print(f"  {path} = {get(entry_of(profile, name), path):.4g}")
    report(Runner(args.program, [line for _, line in sets])(comment, profile), sets, args.rows)
    if args.write:
        save_profile(comment, profile, PROFILE)


if __name__ == "__main__":
    main()
