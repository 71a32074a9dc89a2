#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the software costs of communication libraries to published timings of collectives.

usage: fit_collectives.py path/to/dump_collectives [--fit ENTRY ...] [--write] [--leave-one-out] [--rows]

--leave-one-out fits once more without each machine or cluster, and without each generation of GPUs, and prints the
errors on what was left out: geometric means up to and above 1 MiB by operation, as VALIDATION.md has them. With it,
"spread" (nine of ten measured within that factor, up to and above 1 MiB, by what joins the devices) comes from all rows
of the machines left out, "unseen" from whole generations left out, "network" from clusters left out or never fitted,
"pcie" from a server whose own figures are kept from it; "held_out" keeps the errors for VALIDATION.md, and how many of
the rows left out lie inside.

Reads calibration/data/collectives/*.csv. The predictions come from the program itself (dump_collectives), run on a
copy of calibration/profiles/links.json with trial constants; Gauss-Newton steps (soft L1 on log ratios, every log the
same weight) move them from where they are, and hold them near NCCL's own. Without --fit it prints the error table only. ENTRY:
nccl-2.0, nccl-2.4, nccl-2.18 ("from").
"""
import argparse
import collections
import concurrent.futures
import csv
import io
import json
import math
import os
import re
import statistics
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROFILE = os.path.join(ROOT, "calibration/profiles/links.json")
DATA = os.path.join(ROOT, "calibration/data/collectives")
# Judged, never fitted: application-level timings, machines whose transport bypasses the library's own protocols (EFA,
# the TCPX of GCP's A3 under dgx-h100) or has the rate of a host's thread (sockets), two cards whose host is not the
# eight's, four GPUs of a shared server, and one thread that launches for all GPUs of a server: up to 1 MiB every
# operation takes what its launches take.
NOT_FITTED = re.compile(r"^(copper-k80|p4d\.24xlarge|p5\.48xlarge|g4dn-metal|p3dn-rings|one-gpu-tcp)|^dgx-h100,[^,]*nodes=|^hgx-h200,[^,]*nodes="
                        r"|^4090-pcie-8x,[^,]*,[^,]*,2,|^dgx-a100,[^,]*2\.20\.5;|^azure-ndv4-a100,[^,]*harness=1x[248]|^dgx-a100,[^,]*2\.18;nodes=")
# A figure of calibration/profiles/network_software.json or a constant was taken from them: no judges. The issue that a
# socket's thread has its rate from, all-gathers over TCPX and TCPXO that their steps come from, two p4de that "window"
# was set on, one thread for 2, 4 and 8 devices of Azure's that "launch" and "group_launch" were set on.
SET_ON = re.compile(r"^dgx-h100,[^,]*transport.name=tcpxo?;harness=1x1x20,all_gather|^p4d\.24xlarge,[^,]*2\.18;"
                    r"|^azure-ndv4-a100,[^,]*harness=1x[248]|^one-gpu-tcp[^,]*,device=v100")

# Constants that move, per entry: path in the entry. "@name" is the protocol of that name.
SPACE = {
    "nccl-2.0": ["@simple.base", "@simple.step.pcie", "@simple.step.host", "@simple.efficiency.pcie",
                 "@simple.efficiency.host"],
    "nccl-2.4": ["@ll.step.network", "@ll.efficiency.network", "@ll128.step.network", "@ll128.efficiency.network",
                 "@simple.step.network", "@simple.efficiency.network"],
    "nccl-2.18": ["@ll.base", "@ll.step.fabric", "@ll.step.pcie", "@ll.step.host", "@ll.efficiency.fabric",
                  "@ll.efficiency.pcie", "@ll.efficiency.host", "@ll128.base", "@ll128.step.fabric",
                  "@simple.base", "@simple.step.fabric", "@simple.step.pcie",
                  "@simple.step.host", "@simple.efficiency.fabric", "@simple.efficiency.pcie", "own_copy",
                  "exchange_efficiency", "exchange_peer", "@ll.copy", "@simple.copy",
                  "switch_step", "switch_efficiency.hopper",
                  "base_scale.hopper", "base_scale.blackwell", "step_scale.hopper", "step_scale.blackwell",
                  "turnaround"],
}
# Inside one node NCCL's protocols are the same from 2.4 on: one set of constants, fitted to the machines of both entries.
LIKE = {"nccl-2.4": "nccl-2.18"}
# But of PCIe: entries before 2.18 have what was fitted to servers of their time.
OWN = ("switch", "@simple.step.pcie", "@simple.efficiency.pcie")


# What NCCL's own model assumes (src/graph/tuning.cc of 2.28, microseconds and fractions): constants are held near
# these where the data says little. A factor of e away costs as much as PRIOR_ROWS rows that are off by a factor of e.
PRIOR = {"@ll.base": 6.6, "@ll.step.fabric": 0.6, "@ll.step.pcie": 1.0, "@ll.step.host": 1.0, "@ll.step.network": 2.7,
         "@ll128.base": 14, "@ll128.step.fabric": 1.9, "@simple.base": 8.4, "@simple.step.fabric": 3.4,
         "@simple.step.pcie": 5.7, "@simple.step.host": 5.7, "@simple.step.network": 14, "@ll.efficiency.fabric": 0.5,
         "@ll.efficiency.pcie": 0.5, "@ll.efficiency.host": 0.5, "@ll.efficiency.network": 0.5,
         "@ll128.step.network": 4, "@ll128.efficiency.network": 0.92,
         "switch_efficiency.hopper": 0.85, "tree_efficiency": 0.92, "base_scale.hopper": 1,
         "base_scale.blackwell": 1, "step_scale.hopper": 1, "step_scale.blackwell": 1,
         "@simple.efficiency.fabric": 1, "@simple.efficiency.pcie": 0.95, "@simple.efficiency.host": 0.95,
         "@simple.efficiency.network": 0.95}
PRIOR_ROWS = 1
LOG_ROWS = 21  # of the usual log
MOST_STEPS = 8  # of the search for the constants
DIFFERENCE = 0.03  # of a constant's logarithm, for derivatives
SOFT = 0.1  # residuals far above count by their size, far below by their square
SMALL = 1 << 20  # bytes; errors are told up to and above
# Machines of one generation of GPUs: left out together, nothing of their architecture's scales is known.
GENERATIONS = {"Ampere": ("dgx-a100", "azure-ndv4-a100"), "Hopper": ("dgx-h100", "hgx-h200", "h800-sxm-8x"),
               "Blackwell": ("dgx-b200", "gb200-nvl72")}
SELF_DESCRIBED = "l40s-poor-host-8x"  # its host was inferred from these very rows
ORDINARY = "l40s-pcie-8x"  # the same without them
# 120 of 128 bytes are payload, and NCCL counts 0.92. Switches reduce at the same share of their ports.
TIED = {"@ll128.efficiency.fabric": ("@simple.efficiency.fabric", 0.92),
        "switch_efficiency.blackwell": ("switch_efficiency.hopper", 1)}
# Training waits for all-reduce most.
WEIGHT = {"all_reduce": 1, "reduce_scatter": 0.5, "all_gather": 0.5, "broadcast": 0.3, "all_to_all": 0.3}


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
                head = ", ".join(f'"{k}": {inline(protocol[k])}' for k in protocol if k not in ("step", "efficiency", "copy"))
                out.append(f'          {{{head}, "step": {inline(protocol["step"])},')
                tail = "".join(f', "{k}": {inline(protocol[k])}' for k in ("copy",) if k in protocol)
                out.append(f'           "efficiency": {inline(protocol["efficiency"])}{tail}}}{comma}')
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


def tie(entry):
    for path, (other, factor) in TIED.items():
        if path.split(".")[0] in entry or any(p["name"] == path[1:].split(".")[0] for p in entry["protocols"]):
            put(entry, path, get(entry, other) * factor, digits=3)


def share(profile):
    """What is fitted for one node goes into the entries that are like it."""
    for name, other in LIKE.items():
        mine, its = entry_of(profile, name), entry_of(profile, other)
        for path in SPACE[other] + [p for p in TIED if p.startswith("@")]:
            if not path.startswith(OWN):
                put(mine, path, get(its, path))
        for path in SPACE[name]:  # between nodes the later entry has what the earlier one was fitted to
            put(its, path, get(mine, path))


def is_time(path):
    return not any(word in path for word in ("efficiency", "copy", "scale", "wire"))


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
    if path == "own_copy":  # bytes per clock
        return (1, 200)
    if path.endswith("efficiency.fabric"):
        return (0.05, 1.2)
    return (0.05, 1.0) if "efficiency" in path or "wire" in path else (0.05, 4.0)


class Runner:
    """Runs dump_collectives on trial profiles."""

    def __init__(self, program, rows):
        self.program = program
        self.folder = tempfile.TemporaryDirectory()
        root = self.folder.name
        for folder in ("topologies", "models"):
            os.symlink(os.path.join(ROOT, folder), os.path.join(root, folder))
        os.makedirs(os.path.join(root, "calibration/profiles"))
        for other in os.listdir(os.path.dirname(PROFILE)):  # what is not fitted here
            if other != os.path.basename(PROFILE):
                os.symlink(os.path.join(os.path.dirname(PROFILE), other),
                           os.path.join(root, "calibration/profiles", other))
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


def belongs(line, name, profile, fitted=True):
    if version_of(line) is None:
        return False
    starts = [[int(x) for x in e["from"].split(".")] for e in profile["families"]["nccl"]]
    mine = [int(x) for x in name.split("-")[1].split(".")]
    best = max((s for s in starts if s <= version_of(line)), default=starts[0])
    return best == mine and bool(NOT_FITTED.match(line) or SET_ON.match(line)) != fitted


def rows_of(sets, name, profile):
    """What the constants of an entry are fitted to: of entries like another, what is measured over several nodes."""
    mine = [line for _, line in sets if belongs(line, name, profile)]
    if name in LIKE:
        return [line for line in mine if over_nodes(line.split(","))]
    return mine + [line for other, one in LIKE.items() if one == name for _, line in sets
                   if belongs(line, other, profile) and not over_nodes(line.split(","))]


def row_weights(lines):
    """Every log counts the same, however many sizes it has."""
    logs = [line.rsplit(",", 2)[0] for line in lines]
    sizes = collections.Counter(logs)
    return [WEIGHT[log.split(",")[2]] * math.sqrt(LOG_ROWS / max(sizes[log], 5)) for log in logs]


class Constants:
    """The constants of an entry as logarithms, and what they predict of some rows."""

    def __init__(self, program, name, lines, comment, profile):
        self.run, self.weights = Runner(program, lines), row_weights(lines)
        self.name, self.comment, self.profile, self.paths = name, comment, profile, SPACE[name]
        self.low, self.high = ([math.log(bounds(p)[end]) for p in self.paths] for end in (0, 1))

    def now(self):
        entry = entry_of(self.profile, self.name)
        return [min(max(math.log(get(entry, p)), low), high) for p, low, high in zip(self.paths, self.low, self.high)]

    def put(self, x, digits=6):
        entry = entry_of(self.profile, self.name)
        for path, value in zip(self.paths, x):
            put(entry, path, math.exp(value), digits)
        tie(entry)
        share(self.profile)

    def residuals(self, x):
        self.put(x)
        rows = [w * math.log(float(r[6]) / float(r[5])) for w, r in zip(self.weights, self.run(self.comment, self.profile))]
        return rows + [PRIOR_ROWS * (value - math.log(PRIOR[path])) for path, value in zip(self.paths, x) if path in PRIOR]

    def derivatives(self, x, at):
        """[residual][constant]"""
        columns = []
        for i in range(len(x)):
            moved = [value + DIFFERENCE * (i == j) for j, value in enumerate(x)]
            columns.append([(b - a) / DIFFERENCE for a, b in zip(at, self.residuals(moved))])
        return list(zip(*columns))


def step(residuals, derivatives, x, low, high):
    """Gauss and Newton's, of soft L1: weights of the rows are made anew until they stand."""
    import numpy
    f, d, x = numpy.array(residuals), numpy.array(derivatives), numpy.array(x)
    out = numpy.zeros(len(x))
    for _ in range(25):
        share = (1 + ((f + d @ out) / SOFT) ** 2) ** -0.25
        a = numpy.vstack([share[:, None] * d, 0.02 * numpy.eye(len(x))])
        new = numpy.linalg.lstsq(a, numpy.concatenate([-share * f, 0 * x]), rcond=None)[0]
        new = numpy.clip(x + numpy.clip(new, -0.35, 0.35), low, high) - x
        if abs(new - out).max() < 1e-4:
            return list(x + new)
        out = new
    return list(x + out)


def cost(residuals):
    return sum(math.sqrt(1 + (r / SOFT) ** 2) - 1 for r in residuals)


def fit(program, name, lines, comment, profile, quick=False):
    """Moves the constants of an entry in `profile`, from where they are. Quick: two steps, for leaving out of what was
    fitted to all."""
    known = Constants(program, name, lines, comment, profile)
    x = known.now()
    at = known.residuals(x)
    for _ in range(2 if quick else MOST_STEPS):
        y = step(at, known.derivatives(x, at), x, known.low, known.high)
        there = known.residuals(y)
        if cost(there) > cost(at) * 0.999:
            break
        x, at = y, there
    known.put(x, digits=3)


def log_ratios(rows, kind=None, above=None):
    """ln(predicted / measured) of the rows of that kind, of one class of sizes if told."""
    return [math.log(float(r[6]) / float(r[5])) for r in rows
            if kind in (None, r[2]) and (above is None or (int(r[4]) > SMALL) == above)]


def errors_of(rows):
    """{kind: [up to 1 MiB, above]}: geometric means, null where nothing was measured."""
    def mean(ratios):
        return round(math.exp(statistics.mean(abs(x) for x in ratios)) - 1, 3) if ratios else None
    return {kind: [mean(log_ratios(rows, kind, above)) for above in (False, True)] for kind in sorted({r[2] for r in rows})}


def machine_of(line):
    return line.split(",")[0]


def without(program, name, lines, comment, profile, group, machines):
    """The rows of `machines`, predicted by a fit to the others; none where there are no others."""
    rest = [line for line in lines if machine_of(line) not in machines]
    if not rest:
        return []
    trial = json.loads(json.dumps(profile))
    for scales in ("base_scale", "step_scale"):
        if group in GENERATIONS and group.lower() in entry_of(trial, name).get(scales, {}):
            put(entry_of(trial, name), f"{scales}.{group.lower()}", PRIOR[f"{scales}.{group.lower()}"])
    fit(program, name, rest, comment, trial, quick=True)
    return Runner(program, [line for line in lines if machine_of(line) in machines])(comment, trial)


def leave_one_out(program, name, lines, comment, profile):
    """{machine or generation left out: its rows, predicted without it}."""
    single = {m: (m,) for m in sorted({machine_of(line) for line in lines})}
    groups = single | {g: m for g, m in GENERATIONS.items() if sum(x in single for x in m) > 1}
    out = {}
    with concurrent.futures.ProcessPoolExecutor() as pool:
        tasks = {g: pool.submit(without, program, name, lines, comment, profile, g, m) for g, m in groups.items()}
        for group, task in tasks.items():
            if task.result():
                out[group] = task.result()
                print(f"  without {group}: up to and above 1 MiB {errors_of(out[group])}", flush=True)
    return out


def described_by_stock(lines):
    """The PCIe servers that were described by their own measurements, as they would be without."""
    own = SELF_DESCRIBED + ","
    return [line.replace(own, ORDINARY + ",") for line in lines if line.startswith(own)]


def over_nodes(row):
    """In rows as printed; tables name one node's worth of devices too."""
    return "nodes=" in row[1] and int(row[3]) > 8 or row[0] in ("g4dn-metal.json", "p3dn-rings.json")


def cluster(row):
    """A cluster's logs, with the transport and library that tell it from others of its kind of node."""
    words = [w.split("=")[-1] for w in row[1].split(";") if "transport.name" in w or "library" in w]
    return f"{row[0].split('.json')[0]} {' '.join(words)}".strip()


def by_cluster(held, judged):
    """Errors over several nodes, a cluster left out at a time."""
    clusters = collections.defaultdict(list)
    for row in held + judged:
        if over_nodes(row) and not SET_ON.match(",".join(row)):
            clusters[cluster(row)].append(row)
    return {name: errors_of(rows) for name, rows in sorted(clusters.items())}


def inside(rows, spread):
    """{class: [rows inside the interval, rows]} of what was left out."""
    out = {}
    for name in ("fabric", "pcie", "host", "network"):
        mine = [r for r in rows if joined_by(r) == name and r[2] != "broadcast"]
        limit = [math.log(1 + spread[name][int(int(r[4]) > SMALL)]) for r in mine]
        out[name] = [sum(abs(x) <= y for x, y in zip(log_ratios(mine), limit)), len(mine)]
    return out


def joined_by(row):
    """What the devices of a row are joined by: the class of its worst hop."""
    if over_nodes(row):
        return "network"
    if "pcie" not in row[0] and row[0] != SELF_DESCRIBED:
        return "fabric"
    return "pcie" if row[0].startswith("l40s") and int(row[3]) == 2 else "host"  # two of them share a switch


def spread_of(held, unseen, judged):
    """90th percentiles of the errors, by class of hop: up to and above 1 MiB. Broadcasts do not count: what small ones
    take in a benchmark is how it calls them."""
    held, unseen, judged = ([r for r in rows if r[2] != "broadcast"] for rows in (held, unseen, judged))
    def pair(rows):
        out = []
        for above in (False, True):
            ratios = sorted(abs(x) for x in log_ratios(rows, above=above))
            out.append(round(math.exp(ratios[int(0.9 * len(ratios))]) - 1, 2) if ratios else 1)
        return out

    def no_less(pair, other):
        return [max(a, b) for a, b in zip(pair, other)]

    spread = {c: pair([r for r in held + judged if joined_by(r) == c]) for c in ("fabric", "pcie", "host", "network")}
    # What few machines or none were measured of is no better known than what many were.
    return spread | {"pcie": no_less(spread["pcie"], spread["fabric"]), "unseen": no_less(pair(unseen), spread["fabric"])}


def judge(program, name, sets, left_out, comment, profile):
    """Writes errors, spreads and coverage of what was left out, or never fitted, into an entry."""
    entry = entry_of(profile, name)
    mine = {group: [r for r in rows if belongs(",".join(r), name, profile)] for group, rows in left_out.items()}
    entry["held_out"] = {group: errors_of(rows) for group, rows in mine.items() if rows}
    held = [r for group, rows in mine.items() if group not in GENERATIONS for r in rows]
    unseen = [r for group in GENERATIONS for r in mine.get(group, [])]
    others = [line for _, line in sets if belongs(line, name, profile, fitted=False)]
    others += described_by_stock([line for _, line in sets if belongs(line, name, profile)])
    judged = Runner(program, others)(comment, profile)
    held = [r for r in held if joined_by(r) != "host" or r[0] != SELF_DESCRIBED]
    judged = [r for r in judged if not SET_ON.match(",".join(r))]
    entry["spread"] = {"of": entry["spread"]["of"]} | spread_of(held, unseen, judged)
    entry["inside"] = inside(held + judged, entry["spread"])
    print(f"{name} spread = {entry['spread']}\n  inside = {entry['inside']}")
    for group, errors in by_cluster(held, judged).items():
        entry["held_out"][group] = errors
        print(f"  without cluster {group}: {errors}")


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
            off = statistics.median(abs(x - 1) for x in ratios) if ratios else 0
            cells.append(f"{off:8.1%} ({statistics.median(ratios):.2f}) {len(ratios):4d}" if ratios else "-")
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
    left_out = {}  # by machine or generation, of all entries
    for name in args.fit:
        lines = rows_of(sets, name, profile)
        print(f"fitting {name} on {len(lines)} rows")
        fit(args.program, name, lines, comment, profile)
        for path in SPACE[name]:
            print(f"  {path} = {get(entry_of(profile, name), path):.4g}", flush=True)
        if args.leave_one_out:
            for group, rows in leave_one_out(args.program, name, lines, comment, profile).items():
                left_out.setdefault(group, []).extend(rows)
    for name in args.fit if args.leave_one_out else []:
        judge(args.program, name, sets, left_out, comment, profile)
    report(Runner(args.program, [line for _, line in sets])(comment, profile), sets, args.rows)
    if args.write:
        save_profile(comment, profile, PROFILE)


if __name__ == "__main__":
    main()
