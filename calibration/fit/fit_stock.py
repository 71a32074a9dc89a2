#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the stock efficiency curves (calibration/profiles/stock.json) to published measurements.

Needs numpy and scipy, and the program dump_kernels of this build (what the product itself lowers models to):
    ninja -C build dump_kernels && python3 calibration/fit/fit_stock.py --dump build/dump_kernels [--check]

Data (calibration/data/kernels, every row with its source):
    devices.csv  datasheet and best products kernels.csv  single kernels, seconds
    sources.csv  where rows come from        steps.csv    passes of whole models, seconds
--only ARCHITECTURE fits its curves alone, --only RECIPE its factors: all else stays as the files have it.
Recipes (schemes/recipes) give the host's time as a figure, which is not fitted; a step takes the longer of host and
chip. Factors of recipes whose kernels differ (layout, fusion) are fitted, common to all architectures, and
written to their files. The formula is that of sim/cost/kernel_cost.h. Every curve (architecture x arithmetic) is a vector of
logarithms, fitted by robust least squares on log(predicted / measured) and drawn towards the mean of all
curves of the same arithmetic, which is itself drawn towards PRIOR: an architecture with few measurements
stays near its relatives. --check leaves out one device, one model and one architecture at a time.
"""
import argparse
import csv
import json
import pathlib
import subprocess
from collections import Counter, defaultdict

import numpy as np
from scipy.optimize import least_squares

HOME = pathlib.Path(__file__).resolve().parents[1]
DATA = HOME / "data" / "kernels"
TERMS = ("gemm point point-data point-weights conv conv-data conv-weights attention winograd grouped odd edge depth fill "
         "scores traffic depthwise depthwise-data depthwise-weights norm norm-data softmax pool pool-data "
         "elementwise elementwise-data embedding update stream feed").split()
INDEX = {name: i for i, name in enumerate(TERMS)}
# Where a curve starts from without any data, and how far (natural log) measurements may easily move it.
PRIOR = dict(gemm=.85, point=.6, conv=.6, attention=.4, winograd=1.7, grouped=.6, odd=.5, edge=8, depth=50, fill=.2, scores=8,
             traffic=.7, depthwise=.3, norm=.7, softmax=.5, pool=.6, elementwise=.8, embedding=.3, update=.7, stream=60e9, feed=1.5e12)
PRIOR.update({"point-data": .55, "point-weights": .45, "conv-data": .5, "conv-weights": .45, "depthwise-data": .2,
              "depthwise-weights": .15, "norm-data": .6, "pool-data": .4, "elementwise-data": .8})
MATRIX = dict(gemm=.75, point=.45, conv=.45, attention=.3, winograd=1, depth=150)
MATRIX.update({"point-data": .4, "point-weights": .35, "conv-data": .4, "conv-weights": .35})
# Direct convolutions that are compiled at run time for AVX reach most of a processor's peak (Georganas et al., Anatomy
# of High-Performance Deep Learning Convolutions on SIMD Architectures, SC 2018), as oneDNN's do: no less of it than GPUs'.
CPU = dict(attention=.6 * PRIOR["attention"], winograd=1.3)
# TPUs have few, huge cores: limits per unit do not bind.
TPU = dict(MATRIX, stream=2e12, feed=100e12, elementwise=.95)
SIGMA_PRIOR, SIGMA_CURVE, SIGMA_GROUP, SIGMA_SIZE, SIGMA_RECIPE = 0.5, 0.15, 0.3, 0.4, 0.3

# Most devices asked for are among those measured, and met better than those left out: of the latter's error, set so
# that the rates of VALIDATION.md that nothing was set on lie inside their 90 % interval about as often as stated.
KNOWN = 0.8

LOW = np.full(len(TERMS), np.log(1e-2))
HIGH = np.zeros(len(TERMS))
for name, (low, high) in dict(winograd=(1, 2.25), edge=(1, 100), depth=(5, 1000), fill=(.01, 5), scores=(.5, 40),
                              stream=(5e9, 4e12), feed=(1e11, 2e14)).items():
    LOW[INDEX[name]], HIGH[INDEX[name]] = np.log(low), np.log(high)




def whitening():
    """Inverse of the Cholesky factor of how curves vary around their centre: terms of a group move together
    (a library or a clock is better or worse at all of them), sizes more freely than efficiencies."""
    sigma = np.full(len(TERMS), SIGMA_CURVE)
    for t in ("odd", "edge", "depth", "fill", "grouped", "scores", "stream", "feed"): sigma[INDEX[t]] = SIGMA_SIZE
    covariance = np.diag(sigma ** 2)
    products = [t for t in TERMS if t == "attention" or t.startswith(("point", "conv"))]
    streams = TERMS[INDEX["depthwise"]:INDEX["stream"]] + ["traffic"]
    passes = [[t for t in products if t.endswith(end)] for end in ("-data", "-weights")]
    for group in [products, streams] + passes + [["norm", "norm-data"], ["pool", "pool-data"], ["elementwise", "elementwise-data"]]:
        v = np.array([t in group for t in TERMS], float)
        covariance += (SIGMA_GROUP if group is products or group is streams else SIGMA_GROUP / 2) ** 2 * np.outer(v, v)
    return np.linalg.inv(np.linalg.cholesky(covariance))


def rows(name):
    with open(DATA / name) as f:
        return list(csv.DictReader(f))


WHITE = whitening()


class Device:
    def __init__(self, row):
        self.architecture = row["architecture"]
        self.peak = {"fp32": float(row["fp32_tflops"]), "tf32": float(row["tf32_tflops"]), "fp16": float(row["fp16_tflops"])}
        self.peak["bf16"] = self.peak["fp16"]
        self.best = {p: float(row[f"best_{p}_tflops"] or "inf") * 1e12 for p in ("fp32", "tf32", "fp16")}
        self.best["bf16"] = self.best["fp16"]
        self.bandwidth = float(row["bandwidth_gbs"]) * 1e9
        self.units = int(row["units"])
        self.launch = float(row["launch_us"]) * 1e-6

    def arithmetic(self, precision):
        """The curve and the peak that a precision runs on: matrix units where there are any, else fp32."""
        matrix = self.architecture not in WITHOUT_MATRIX and self.peak[precision] > self.peak["fp32"]
        if self.architecture in CPUS: return "cpu", self.peak["fp32"] * 1e12
        if self.architecture.startswith("tpu"): return "tpu", self.peak[precision] * 1e12
        return ("matrix", self.peak[precision] * 1e12) if matrix else ("fp32", self.peak["fp32"] * 1e12)

    def best_product(self, precision):
        """The fastest that was measured with the units that a precision runs on; infinite where nobody looked."""
        return self.best[precision if precision == "tf32" or self.arithmetic(precision)[0] in ("matrix", "tpu") else "fp32"]


CPUS = set("ivybridge haswell broadwell skylake cascadelake sapphirerapids zen1 zen2 zen4 neoverse-v2".split())
WITHOUT_MATRIX = {"kepler", "maxwell", "pascal", "gcn5"} | CPUS
# Whose multiprocessors are nearly those of an older chip is drawn to its curve, not to the mean of all.
NEAREST = {"ada": "ampere-ga10x"}


def conv_features(pass_, s, element):
    """Features of a convolution {batch, in, out, groups, in[3], out[3], kernel[3], stride[3], dilation[3], pad[3], transposed}."""
    n, c, k, g = s[:4]
    volume = lambda at: s[at] * s[at + 1] * s[at + 2]
    inside, outside, taps = volume(4), volume(7), volume(10)
    transposed = len(s) > 22 and s[22]
    macs = n * k * (c / g) * taps * (inside if transposed else outside)
    if transposed: macs = n * c * (k / g) * taps * inside
    p = ("forward", "backward-data", "backward-weights").index(pass_)
    if g > 1 and g == c: return INDEX["depthwise"] + p, 1, 1, 1, 1, 0, 0
    ci, co = c / g, k / g
    if p == 2: m, q, depth = co, ci * taps, macs / g / (co * ci * taps)
    else:
        m, q = n * (inside if p == 1 else outside), (ci if (p == 1) != bool(transposed) else co)
        depth = macs / g / (m * q)
    one = s[10:13] == [1, 1, 1]
    fast = s[10:13] == [1, 3, 3] and s[13:16] == [1, 1, 1] and s[16:19] == [1, 1, 1]
    return INDEX["point" if one else "conv"] + p, g, m, q, depth, int(fast), int(g > 1)


STREAM = {"norm": ("norm", "norm-data"), "softmax": ("softmax", "softmax"), "pool": ("pool", "pool-data"),
          "elementwise": ("elementwise", "elementwise-data"), "embedding": ("embedding", "embedding"),
          "optimizer": ("update", "update")}


def features(kind, pass_, shape, flops, bytes_, repeat, element):
    """[term, flops, bytes, groups, m, n, k, winograd, scores bytes, grouped, odd, repeat] of one kernel."""
    scores, grouped, odd = 0, 0, 0
    if kind == "gemm":
        term, (g, m, n, k), fast = INDEX["gemm"], shape, 0
        odd = int(element == 2 and (n % 8 != 0 or (m if pass_ == "backward-weights" else k) % 8 != 0))
    elif kind == "conv":
        term, g, m, n, k, fast, grouped = conv_features(pass_, shape, element)
        odd = int(element == 2 and shape[3] == 1 and (shape[1] % 8 != 0 or shape[2] % 8 != 0))
    elif kind == "attention":
        term, g, m, n, k, fast = INDEX["attention"], shape[0] * shape[1], shape[3], shape[4], shape[5], 0
        scores = 0 if shape[7] else g * m * n * element
        if not shape[7]: bytes_ *= 3   # operands and results change between heads and tokens: a copy of each
    else: term, g, m, n, k, fast = INDEX[STREAM[kind][pass_ != "forward"]], 1, 1, 1, 1, 0
    return [term, flops, bytes_, g, m, n, k, fast, scores, grouped, odd, repeat]


OF_KIND = {"conv": [INDEX[t] for t in TERMS if t.startswith(("conv", "point", "depthwise"))], "gemm": [INDEX["gemm"]],
           "norm": [INDEX["norm"], INDEX["norm-data"]], "pool": [INDEX["pool"], INDEX["pool-data"]],
           "elementwise": [INDEX["elementwise"], INDEX["elementwise-data"]]}


# Tables whose products lie column by column, so that other sizes are innermost: their columns, which are even.
COLUMNS = {"1", "2", "3"}
OWN = "91"  # measured by gpu_visit.py
# Recipes whose convolutions have their operands copied to channels last, in formats of 2 bytes.
COPIES = {f.stem for f in (HOME.parent / "schemes" / "recipes").glob("*.json") if "copied_convolution" in json.loads(f.read_text())}
# Recipes that pad products for matrix units' sake.
PADS = {f.stem for f in (HOME.parent / "schemes" / "recipes").glob("*.json") if json.loads(f.read_text()).get("pads_products")}


def together(f):
    """Equal kernels as one with their repeats added: evaluation is per distinct kernel."""
    distinct, which = np.unique(f[:, :-1], axis=0, return_inverse=True)
    return np.column_stack([distinct, np.bincount(which.ravel(), f[:, -1], len(distinct))])


def single_kernels(devices):
    """Measurements of kernels.csv: a list of dicts with features."""
    out = []
    for r in rows("kernels.csv"):
        s = [int(x) for x in r["shape"].split()]
        e = 4 if r["precision"] in ("fp32", "tf32") else 2
        if r["kind"] == "gemm":
            g, m, n, k = s
            f = features("gemm", r["pass"], s, 2 * g * m * n * k, e * g * (m * k + k * n + m * n), 1, e)
            if r["source"] in COLUMNS: f[-2] = 0
        elif r["kind"] == "attention":   # fused, as many heads of keys as of queries
            batch, heads, _, query, key, width, causal, _ = s
            pairs, rows_ = batch * heads * query * key / (2 if causal else 1), batch * heads * (query + key)
            forward = r["pass"] == "forward"
            f = features("attention", r["pass"], s, (4 if forward else 10) * pairs * width,
                         e * rows_ * width * (2 if forward else 4), 1, e)
        else:
            n, c, h, w, k, kh, kw, ph, pw, sh, sw = s
            oh, ow = (h + 2 * ph - kh) // sh + 1, (w + 2 * pw - kw) // sw + 1
            shape = [n, c, k, 1, 1, h, w, 1, oh, ow, 1, kh, kw, 1, sh, sw, 1, 1, 1, 0, ph, pw, 0]
            f = features("conv", r["pass"], shape, 2 * n * k * oh * ow * c * kh * kw,
                         e * (n * c * h * w + n * k * oh * ow + c * k * kh * kw), 1, e)
        out.append(dict(r, kernels=np.array([f], float), seconds=float(r["seconds"]), model=None, framework="",
                        weight=0.0, what=r["kind"], host=0.0,
                        recipe="pytorch-channels-last" if r["source"] == OWN else ""))  # the layout
    # A table counts as much as a single figure from another source: the best rate that a long run reaches.
    sizes = Counter((r["device"], r["precision"], r["kind"], r["source"]) for r in out)
    for r in out: r["weight"] = np.sqrt(25 / sizes[r["device"], r["precision"], r["kind"], r["source"]]) * .5
    return out


def whole_steps(devices, dump):
    """Measurements of steps.csv, lowered by the product's own models."""
    table = rows("steps.csv")
    keys = sorted({tuple(r[c] for c in ("model", "batch", "precision", "optimizer", "recipe")) for r in table})
    text = "".join(" ".join(key) + "\n" for key in keys)
    lines = subprocess.run([dump], input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    lowered = {}
    for key, line in zip(keys, lines):
        e = 4 if key[2] in ("fp32", "tf32") else 2
        step = json.loads(line)
        if isinstance(step, str): print("no model:", step); continue
        ks = step["kernels"]
        f = [features(k, p, s, fl, by, rep, e) for k, p, s, fl, by, rep in ks]
        p = np.array([("forward", "backward-data", "backward-weights", "update").index(k[1]) for k in ks])
        lowered[key] = np.array(f, float), p, step["host"]
    out = []
    for r in table:
        key = tuple(r[c] for c in ("model", "batch", "precision", "optimizer", "recipe"))
        if key not in lowered: continue
        f, p, host = lowered[key]
        what, _, kind = r["what"].partition(":")   # "backward:norm" is the sum over one kind of kernels
        passes = {"forward": "forward", "backward": "backward", "forward+backward": "forward backward", "train": "forward backward update"}[what].split()
        use = ((p == 0) & ("forward" in passes)) | (((p == 1) | (p == 2)) & ("backward" in passes)) | ((p == 3) & ("update" in passes))
        if kind: use = use & np.isin(f[:, 0], OF_KIND[kind])
        issued = 0 if kind or devices[r["device"]].architecture in CPUS else sum(host[p] for p in passes) / float(r["core_speed"])
        out.append(dict(r, kernels=together(f[use]), seconds=float(r["seconds"]), weight=.5 if kind else 1.0, host=issued))
    sizes = Counter((r["device"], r["precision"], r["model"], r["what"], r["framework"]) for r in out)
    for r in out:
        r["weight"] /= np.sqrt(sizes[r["device"], r["precision"], r["model"], r["what"], r["framework"]])
        # Small batches and steps near their host's time say more of hosts, which this fit takes as given.
        if int(r["batch"]) < 8 or r["host"] > .4 * r["seconds"]: r["weight"] *= .3
    return out


# Recipes whose kernels differ from those of the stock curves (NCHW, cuDNN, nothing fused), by arithmetic.
FACTORS = {k: i for i, k in enumerate((r, a) for r in ("nvidia-pytorch", "tensorflow", "tensorflow-xla", "mlperf") for a in ("fp32", "matrix"))}
CHANNELS_LAST = "nvidia-pytorch"
ALIASES = {"pytorch-channels-last": "nvidia-pytorch"}   # the same kernels
SMOOTH = 8
LARGE = 0.97   # used of the products that boards are measured by, 4,096 and more


class Problem:
    """The measurements of one curve, as flat arrays for fast evaluation."""

    def __init__(self, measured, devices):
        self.measured = measured
        k = np.concatenate([r["kernels"] for r in measured])
        self.row = np.repeat(np.arange(len(measured)), [len(r["kernels"]) for r in measured])
        self.term = k[:, 0].astype(int)
        self.flops, self.bytes, self.g, self.m, self.n, self.k, self.fast, self.scores, self.grouped, self.odd, self.repeat = k[:, 1:].T
        self.host = np.array([r["host"] for r in measured])
        pads = np.array([r["recipe"] in PADS for r in measured])[self.row]
        of = [devices[r["device"]] for r in measured]
        arithmetic = [d.arithmetic(r["precision"])[0] not in ("matrix", "tpu") for d, r in zip(of, measured)]
        self.arithmetic = np.array(arithmetic)[self.row]
        self.peak = np.array([d.arithmetic(r["precision"])[1] for d, r in zip(of, measured)])[self.row]
        self.best = np.array([d.best_product(r["precision"]) for d, r in zip(of, measured)])[self.row]
        self.bandwidth = np.array([d.bandwidth for d in of])[self.row]
        self.units = np.array([d.units for d in of])[self.row]
        self.launch = np.array([d.launch for d in of])[self.row]
        self.tiles = self.g * self.m * self.n / 16384 / self.units * np.sqrt(self.k / 512)
        self.fast = self.fast * self.arithmetic
        self.odd = self.odd * ~self.arithmetic * ~pads
        element = np.array([4 if r["precision"] in ("fp32", "tf32") else 2 for r in measured])[self.row]
        convolution = (self.term >= INDEX["point"]) & (self.term <= INDEX["conv-weights"]) & ~self.arithmetic
        self.gathered = np.where(convolution, self.flops / self.units * element / 2, 0)
        copies = np.array([r["recipe"] in COPIES for r in measured])[self.row] & (element == 2) & convolution & (self.grouped == 0)
        self.copied = np.where(copies, 2 * (self.bytes - element * self.g * self.m * self.n), 0)   # all but the result
        self.matrix = self.term <= INDEX["attention"]
        self.log_seconds = np.log([r["seconds"] for r in measured])
        self.weight = np.array([r["weight"] for r in measured])
        self.conv = ((self.term >= INDEX["point"]) & (self.term <= INDEX["conv-weights"]))
        self.streams = (self.term >= INDEX["norm"]) & (self.term < INDEX["embedding"]) & (self.term != INDEX["softmax"])
        self.update = self.term == INDEX["update"]
        # Which recipe's factors hold: [row of kernels] -> index into FACTORS, -1 = none.
        of = [FACTORS.get((ALIASES.get(r["recipe"], r["recipe"]), "fp32" if a else "matrix"), -1) for r, a in zip(measured, arithmetic)]
        self.recipe = np.array(of)[self.row]
        self.recipe[copies] = FACTORS[CHANNELS_LAST, "matrix"]   # only kernels of convolutions
        self.factors = np.zeros((len(FACTORS) + 1, 2))   # logarithms of (convolution, stream); the last is none

    def predict(self, log_curve):
        c = np.exp(log_curve)
        factor = np.exp(self.factors[self.recipe])
        e = c[self.term] * np.where(self.conv, factor[:, 0], 1)
        fused = np.where(self.streams, factor[:, 1], 1)
        edge, depth, fill = c[INDEX["edge"]], c[INDEX["depth"]], c[INDEX["fill"]]
        used = self.m / (self.m + edge) * self.n / (self.n + edge) * self.k / (self.k + depth) * self.tiles / (self.tiles + fill)
        gain = np.where(self.fast > 0, c[INDEX["winograd"]], 1) * np.where(self.grouped > 0, c[INDEX["grouped"]], 1) * np.where(self.odd > 0, c[INDEX["odd"]], 1)
        peak = np.minimum(self.peak, self.best / (c[INDEX["gemm"]] * LARGE))   # of boards short of power
        compute = np.where(self.matrix, self.flops / (peak * e * used * gain), 0) + self.gathered / c[INDEX["feed"]]
        moved = self.bytes / fused + c[INDEX["scores"]] * self.scores
        memory = moved * (1 / (self.bandwidth * np.where(self.matrix, c[INDEX["traffic"]], e)) + 1 / (self.units * c[INDEX["stream"]]))
        work = np.sqrt(np.sqrt(compute ** 4 + memory ** 4))
        floor = np.maximum(self.flops / self.peak / np.where(self.fast > 0, 2.25, 1), self.bytes / fused / self.bandwidth)
        launches = np.where(self.update, self.launch / self.repeat, self.launch)   # all tensors of an update at once
        copying = self.copied * (1 / (self.bandwidth * c[INDEX["elementwise"]]) + 1 / (self.units * c[INDEX["stream"]]))
        each = self.repeat * np.maximum(floor, launches + work + copying)
        chip = np.bincount(self.row, each, minlength=len(self.measured))
        return (chip ** SMOOTH + self.host ** SMOOTH) ** (1 / SMOOTH)   # max(chip, host), smoothed to be fitted

    def fit(self, centre, start=None, evaluations=40):
        """The log curve nearest the measurements, drawn to `centre`."""

        def residual(x):
            error = (np.log(self.predict(x)) - self.log_seconds) / .15
            robust = np.sign(error) * np.sqrt(2 * (np.sqrt(1 + error ** 2) - 1))   # pseudo-Huber
            return np.concatenate([self.weight * robust, WHITE @ (x - centre)])

        x0 = np.clip(centre if start is None else start, LOW + 1e-6, HIGH - 1e-6)
        return least_squares(residual, x0, bounds=(LOW, HIGH), max_nfev=evaluations, x_scale=.3).x


def prior(arithmetic):
    p = dict(PRIOR, **{"fp32": {}, "matrix": MATRIX, "cpu": CPU, "tpu": TPU}[arithmetic])
    return np.log([p[t] for t in TERMS])


def curve_of(r, devices):
    d = devices[r["device"]]
    return d.architecture, d.arithmetic(r["precision"])[0]


def fit_factors(problems, curves, only=None):
    """Logarithms of the recipes' factors, or of one recipe's, common to all architectures, with the curves held."""
    mine = [i for (recipe, _), i in FACTORS.items() if only in (None, recipe)]
    touched = [(p, curves[c]) for c, p in problems.items() if np.isin(p.recipe, mine).any()]

    def put(x):
        for p in problems.values(): p.factors[mine] = x.reshape(len(mine), 2)

    def residual(x):
        put(x)
        out = [x / SIGMA_RECIPE]
        for p, curve in touched:
            error = (np.log(p.predict(curve)) - p.log_seconds) / .15
            out.append(p.weight * np.sign(error) * np.sqrt(2 * (np.sqrt(1 + error ** 2) - 1)))
        return np.concatenate(out)

    start = next(iter(problems.values())).factors[mine].ravel().copy()
    x = least_squares(residual, start, bounds=(np.log(.25), np.log(4)), max_nfev=10).x
    put(x)
    return next(iter(problems.values())).factors[:-1].copy()


def centre_of(curves, arithmetic):
    of = [x for (_, a), x in curves.items() if a == arithmetic]
    tie = (SIGMA_CURVE / SIGMA_PRIOR) ** 2
    return (np.sum(of, axis=0) + tie * prior(arithmetic)) / (len(of) + tie) if of else prior(arithmetic)


def drawn_to(c, curves, centre):
    """What the curve `c` stays near without measurements."""
    return curves.get((NEAREST.get(c[0]), c[1]), centre)


def fit_all(measured, devices, rounds=4, start=None):
    """{curve: log curve}, {arithmetic: centre}. Gauss-Seidel between curves, their centres and recipes' factors."""
    groups = defaultdict(list)
    for r in measured: groups[curve_of(r, devices)].append(r)
    problems = {c: Problem(rs, devices) for c, rs in sorted(groups.items())}
    centres = {a: prior(a) for a in ("fp32", "matrix", "cpu", "tpu")} if start is None else dict(start[1])
    curves = {} if start is None else dict(start[0])
    for step in range(rounds):
        for c, p in problems.items():
            curves[c] = p.fit(drawn_to(c, curves, centres[c[1]]), curves.get(c), 25 if step == 0 else 12)
        for a in ("fp32", "matrix"):   # the only CPU measured ran no vendor library: other CPUs keep the prior
            centres[a] = centre_of({c: curves[c] for c in problems}, a)
        factors = fit_factors(problems, curves)
    for (recipe, arithmetic), i in FACTORS.items():
        print(f"recipe {recipe:16} {arithmetic:7} convolution {np.exp(factors[i, 0]):.3f}  stream {np.exp(factors[i, 1]):.3f}")
    return curves, centres, problems, factors


def write_factors(factors, only=None):
    """Into the recipes' files, or one recipe's, which hold the host's costs too."""
    for name in {only} if only else {r for r, _ in FACTORS} | set(ALIASES):
        path = HOME.parent / "schemes" / "recipes" / f"{name}.json"
        recipe = json.loads(path.read_text())
        for arithmetic in ("fp32", "matrix"):
            i = FACTORS[ALIASES.get(name, name), arithmetic]
            recipe[arithmetic] = dict(convolution=round(float(np.exp(factors[i, 0])), 3), stream=round(float(np.exp(factors[i, 1])), 3))
        recipe["source"] = recipe.pop("source")   # last
        path.write_text(json.dumps(recipe, indent=2) + "\n")
    for name in set() if only else COPIES:
        path = HOME.parent / "schemes" / "recipes" / f"{name}.json"
        recipe = json.loads(path.read_text())
        recipe["copied_convolution"] = round(float(np.exp(factors[FACTORS[CHANNELS_LAST, "matrix"], 0])), 3)
        path.write_text(json.dumps(recipe, indent=2) + "\n")


def throughput_errors(problem, log_curve):
    """Relative error of predicted throughput for every measurement."""
    return np.exp(problem.log_seconds) / problem.predict(log_curve) - 1


def families(model):
    """A model's relatives, which are left out with it; None for a single kernel."""
    if model is None: return None
    base = model.split(":")[0]
    for f in ("wide-resnet", "resnext", "resnet", "vgg", "inception", "bert", "gpt"):
        if base.startswith(f): return f
    return base


def is_transformer(r):
    return families(r["model"]) in ("bert", "gpt", "vit", "transformer")


def left_out(measured, devices, fitted, key):
    """Errors of whole steps predicted from a fit without the measurements that share key(r) with them."""
    curves, centres, problems, _ = fitted
    errors = {}
    whole = [r for r in measured if r["model"]]
    for value in sorted({key(r) for r in whole}):
        test = defaultdict(list)
        for r in whole:
            if key(r) == value: test[curve_of(r, devices)].append(r)
        for c, rs in test.items():
            centre = drawn_to(c, curves, centre_of({o: curves[o] for o in problems if o != c}, c[1]))
            rest = [r for r in problems[c].measured if key(r) != value]
            if rest:
                problem = Problem(rest, devices)
                problem.factors = problems[c].factors
            got = problem.fit(centre, curves[c], 12) if rest else centre
            test_problem = Problem(rs, devices)
            test_problem.factors = problems[c].factors
            for r, e in zip(rs, throughput_errors(test_problem, got)): errors[id(r)] = e
    return errors


def table(title, measured, errors, by):
    """Mean absolute error (percent) per group; CNN and transformer rows apart."""
    print(title)
    for kind in ("cnn", "transformer"):
        rs = [r for r in measured if id(r) in errors and (":" not in r["what"]) and is_transformer(r) == (kind == "transformer")]
        if not rs: continue
        groups = defaultdict(list)
        for r in rs: groups[by(r)].append(errors[id(r)])
        for g, e in sorted(groups.items()):
            print(f"  {kind:12} {str(g):38} {len(e):4} rows  mean |error| {100 * np.mean(np.abs(e)):5.1f} %  bias {100 * np.median(e):+5.1f} %")
        e = [errors[id(r)] for r in rs]
        print(f"  {kind:12} {'all':38} {len(e):4} rows  mean |error| {100 * np.mean(np.abs(e)):5.1f} %  median {100 * np.median(np.abs(e)):5.1f} %")


# Architectures without measurements of their own still get an entry, so that the product can name the assumption.
ARCHITECTURES = ("kepler maxwell pascal volta turing ampere ampere-ga10x ada hopper blackwell gcn5 cdna1 cdna2 cdna3 tpu-v3 "
                 "generic").split() + sorted(CPUS)


def profile(fitted, outside, strange, unknown_error, architectures=ARCHITECTURES):
    """What stock.json holds. Errors of a curve: with each device left out, or each model where it has one device."""
    curves, centres, problems, _ = fitted

    def rounded(v): return float(f"{v:.4g}")

    def curve(a, arithmetic):
        if a in CPUS: arithmetic = "cpu"
        if a.startswith("tpu"): arithmetic = "tpu"
        c = (a, arithmetic)
        x = curves[c] if c in curves else centres[arithmetic]
        out = {t: rounded(np.exp(v)) for t, v in zip(TERMS, x) if t not in ("stream", "feed")}
        out["feed_tflops"] = rounded(np.exp(x[INDEX["feed"]]) * 1e-12)
        out["stream_gbs"] = rounded(np.exp(x[INDEX["stream"]]) * 1e-9)
        whole = [r for r in problems[c].measured if r["model"] and ":" not in r["what"]] if c in problems else []
        errors = outside if len({r["device"] for r in whole}) > 1 else strange
        e = [errors[id(r)] for r in whole] if len(whole) >= 10 else list(outside.values())
        out["relative_error"] = rounded(min(1, max(.05, 1.4826 * np.median(np.abs(e)))))
        out["relative_error"] = rounded(out["relative_error"] * (KNOWN if c in curves else 1.5))
        out["measurements"] = len(problems[c].measured) if c in problems else 0
        return out

    return dict(summary="Achieved efficiencies of kernels per architecture and arithmetic; see sim/cost/kernel_cost.h",
                written_by="calibration/fit/fit_stock.py", unknown=dict(gpu="generic", cpu="skylake", tpu="tpu-v3", relative_error=rounded(unknown_error)),
                architectures={a: dict(matrix_units=a not in WITHOUT_MATRIX, fp32=curve(a, "fp32"),
                                       matrix=curve(a, "matrix")) for a in architectures})


def known(path, devices, measured):
    """What fit_all() gives, with the curves of a file and the factors of the recipes' files."""
    architectures = json.loads(pathlib.Path(path).read_text())["architectures"]
    groups = defaultdict(list)
    for r in measured: groups[curve_of(r, devices)].append(r)
    factors = np.zeros((len(FACTORS), 2))
    for (recipe, arithmetic), i in FACTORS.items():
        said = json.loads((HOME.parent / "schemes" / "recipes" / f"{recipe}.json").read_text())[arithmetic]
        factors[i] = np.log([said["convolution"], said["stream"]])
    curves, problems = {}, {}
    for c, rs in sorted(groups.items()):
        held = architectures[c[0]][{"cpu": "fp32", "tpu": "matrix"}.get(c[1], c[1])]
        figures = dict(held, feed=held["feed_tflops"] * 1e12, stream=held["stream_gbs"] * 1e9)
        curves[c] = np.log([figures.get(t, PRIOR[t]) for t in TERMS])
        problems[c] = Problem(rs, devices)
        problems[c].factors[:-1] = factors
    return curves, {a: centre_of(curves, a) for a in ("fp32", "matrix", "cpu", "tpu")}, problems, factors


def fit_one(architecture, measured, devices, path):
    """Fits this architecture's curves alone; all others, and what recipes hold, stay as they are."""
    fitted = known(path, devices, measured)
    curves, _, problems, _ = fitted
    held = json.loads(pathlib.Path(path).read_text())
    for c, p in problems.items():
        if c[0] != architecture: continue
        before = throughput_errors(p, curves[c])
        curves[c] = p.fit(drawn_to(c, curves, centre_of({o: x for o, x in curves.items() if o != c}, c[1])), curves[c], 60)
        after = throughput_errors(p, curves[c])
        for r, b, a in zip(p.measured, before, after):
            if r["model"] or r["source"] == OWN:
                print(f"{100 * b:+7.1f} % -> {100 * a:+7.1f} %  {r['device']:12} {r['precision']} {r['model'] or r['shape']} {r.get('batch', '')} {r['what']} {r['recipe']}")
    mine = [r for c, p in problems.items() if c[0] == architecture for r in p.measured]
    outside = left_out(mine, devices, fitted, lambda r: r["device"])
    strange = left_out(mine, devices, fitted, lambda r: families(r["model"]))
    table("device left out, per curve", [r for r in mine if r["model"]], outside, lambda r: curve_of(r, devices))
    table("model left out, per curve", [r for r in mine if r["model"]], strange, lambda r: curve_of(r, devices))
    held["architectures"][architecture] = profile(fitted, outside, strange, 0, [architecture])["architectures"][architecture]
    return held


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dump", required=True, help="the program dump_kernels")
    parser.add_argument("--check", action="store_true", help="print all the tables of held-out errors")
    parser.add_argument("--rows", action="store_true", help="print every measurement")
    parser.add_argument("--quick", action="store_true", help="stop after the errors in sample; write nothing")
    parser.add_argument("--only", metavar="ARCHITECTURE", help="fit its curves alone, the others as --out has them; or of a recipe its factors")
    parser.add_argument("--out", default=str(HOME / "profiles" / "stock.json"))
    options = parser.parse_args()
    devices = {r["device"]: Device(r) for r in rows("devices.csv")}
    measured = single_kernels(devices) + whole_steps(devices, options.dump)
    if options.only in {r for r, _ in FACTORS}:
        curves, _, problems, _ = known(options.out, devices, measured)
        write_factors(fit_factors(problems, curves, options.only), options.only)
        for c, p in problems.items():
            for r, e in zip(p.measured, throughput_errors(p, curves[c])):
                if r["recipe"] == options.only: print(f"{100 * e:+7.1f} %  {r['device']:12} {r['precision']} {r['model']} {r['batch']} {r['framework']}")
        return
    if options.only:
        held = fit_one(options.only, measured, devices, options.out)
        if not options.quick: pathlib.Path(options.out).write_text(json.dumps(held, indent=1) + "\n")
        return
    fitted = fit_all(measured, devices)
    inside = {}
    for c, p in fitted[2].items():
        for r, e in zip(p.measured, throughput_errors(p, fitted[0][c])): inside[id(r)] = e
    whole = [r for r in measured if r["model"]]
    if options.rows:
        for r in whole:
            print(f"{100 * inside[id(r)]:+7.1f} %  {r['device']:16} {r['precision']} {r['model']:34} {r['batch']:>5} {r['what']:18} "
                  f"{r['seconds']:.4g} {r['recipe']} {r['host']:.4g} {r['framework']}")
    table("in sample, per curve", whole, inside, lambda r: curve_of(r, devices))
    if options.quick: return
    outside = left_out(measured, devices, fitted, lambda r: r["device"])
    strange = left_out(measured, devices, fitted, lambda r: families(r["model"]))
    table("device left out, per curve", whole, outside, lambda r: curve_of(r, devices))
    alone = left_out(measured, devices, fitted, lambda r: curve_of(r, devices)[0])
    if options.check:
        table("in sample, per model", whole, inside, lambda r: r["model"])
        table("in sample, per framework", whole, inside, lambda r: r["framework"])
        table("device left out, per device", whole, outside, lambda r: (r["device"], r["precision"]))
        table("model left out, per model", whole, strange, lambda r: r["model"])
        table("architecture left out, per curve", whole, alone, lambda r: curve_of(r, devices))
    write_factors(fitted[3])
    with open(options.out, "w") as f:
        json.dump(profile(fitted, outside, strange, 1.4826 * np.median(np.abs(list(alone.values())))), f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
