# SPDX-License-Identifier: Apache-2.0
"""tandem.Model.from_torch: a PyTorch module as a model document (docs/formats/model.md, docs/from-torch.md)."""
import contextlib
import math
import sys

from ._torch_operators import CONST, LIVE, PARAM, Translator, UnknownOperator, Value, block_of, flat

__all__ = ["UnknownOperator", "document", "from_torch"]


def from_torch(module, example=(), kwargs=None, *, name=None, loss=None):
    """The tandem.Model of a torch.nn.Module; arguments and errors are those of document()."""
    from ._tandem import Model
    return Model(document(module, example, kwargs, name=name, loss=loss))


def document(module, example=(), kwargs=None, *, name=None, loss=None):
    """The model document of `module` as a dict, for samples shaped like those of `example`.

    module: a torch.nn.Module, on any device ("meta" needs no memory). One that is in evaluation mode is looked at in training
        mode, and left as it was; one that trains is taken as it is, frozen parts and all.
    example: a tensor, or a tuple of positional arguments, or a dict of named ones; the first dimension of tensors is the batch,
        of which one sample is taken.
    loss: "cross-entropy" or "mse" of the output, where the module itself returns no loss.
    Raises UnknownOperator, with the module's path and the operator's name, for what Tandem has no layer for.
    """
    import torch
    args, kwargs = arguments_of(example, kwargs)
    args, kwargs = one_sample(torch, module, args), one_sample(torch, module, kwargs)
    program = exported(torch, module, args, kwargs)
    translator, outputs = translate(torch, module, program)
    terminal = finish(translator, outputs, loss)
    layers, unused = pruned(translator, terminal)
    inputs = {n: s for n, s in translator.inputs.items() if any(n in e["from"] for e in layers)}
    name = name or type(module).__name__
    summary = "%s, by torch.export of torch %s" % (type(module).__qualname__, torch.__version__.split("+")[0])
    if unused:
        summary += "; %d of its parameters take no part" % unused
    words = all(len(s) == 1 for s in inputs.values())
    size = sum((8 if words else 4) * math.prod(s) for s in inputs.values())
    return {
        "name": name,
        "summary": summary,
        "source": type(module).__module__,
        "sample": {"unit": "sequences" if words else "images" if any(len(s) == 3 for s in inputs.values()) else "samples",
                   "stored": "%dB" % (size if words else 0), "decoded": "%dB" % size, "decode": "0s"},  # stored: unknown
        "inputs": inputs,
        "layers": grouped(layers, translator.path_of),
    }


def arguments_of(example, kwargs):
    if isinstance(example, dict):
        return (), {**example, **(kwargs or {})}
    return (tuple(example) if isinstance(example, (tuple, list)) else (example,)), dict(kwargs or {})


def one_sample(torch, module, tree):
    """The first sample of each tensor, on the module's device."""
    parameter = next(module.parameters(), None)
    device = parameter.device if parameter is not None else torch.device("cpu")

    def take(x):
        if not isinstance(x, torch.Tensor):
            return x
        x = x[:1] if x.dim() > 0 else x
        return torch.empty(x.shape, dtype=x.dtype, device=device) if device.type == "meta" else x.to(device)
    return torch.utils._pytree.tree_map(take, tree)


@contextlib.contextmanager
def training(torch, module):
    """The module in training mode; batch normalisation may see a single value, as samples are looked at one by one."""
    modes = [(m, m.training) for m in module.modules()]
    functional = torch.nn.functional
    checks, batch_norm = functional._verify_batch_size, functional.batch_norm

    def of_any_size(input, running_mean, running_var, weight=None, bias=None, training=False, *more, **named):
        single = input.dim() > 1 and input.numel() == input.shape[1] and running_mean is not None
        return batch_norm(input, running_mean, running_var, weight, bias, training and not single, *more, **named)
    if not module.training:
        module.train()
    functional._verify_batch_size, functional.batch_norm = lambda size: None, of_any_size
    try:
        yield
    finally:
        functional._verify_batch_size, functional.batch_norm = checks, batch_norm
        for m, mode in modes:
            m.training = mode


@contextlib.contextmanager
def without_masks():
    """Transformers leaves a causal mask to the attention where nothing is padded, but not while it is exported."""
    masks = sys.modules.get("transformers.masking_utils")
    changes = {"is_torchdynamo_exporting": lambda: False, "find_packed_sequence_indices": lambda *args, **kwargs: None}
    before = {name: getattr(masks, name) for name in changes if hasattr(masks, name)}
    for name in before:
        setattr(masks, name, changes[name])
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(masks, name, function)


def exported(torch, module, args, kwargs):
    export = getattr(torch.export, "export_for_training", None)
    new = tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 7)
    with training(torch, module), without_masks():
        return (torch.export.export if new or export is None else export)(module, args, kwargs, strict=False)


def translate(torch, module, program):
    by_name = dict(module.named_parameters(remove_duplicate=False))
    first = {}
    for n, p in by_name.items():
        first.setdefault(id(p), n)
    t = Translator({n: by_name[n].numel() for n in first.values()})
    t.frozen = {n for n in first.values() if not by_name[n].requires_grad}
    program.graph.eliminate_dead_code()
    learned = program.graph_signature.inputs_to_parameters
    users = set(program.graph_signature.user_inputs)
    given = []
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        meta = node.meta.get("val")
        if not isinstance(meta, torch.Tensor):
            given.append(meta)
        elif node.name in learned:
            given.append(Value(PARAM, meta, params=(first[id(by_name[learned[node.name]])],), whole=True))
        elif node.name in users:
            dims = [int(d) for d in meta.shape[1:]] or [int(meta.numel())]
            if meta.numel() != math.prod(dims):
                dims = [int(d) for d in meta.shape]
            name = "".join(c if c.isalnum() or c in "_-" else "_" for c in node.name)[:60]
            t.inputs[name] = t.dims[name] = dims if len(dims) <= 8 else [math.prod(dims)]
            given.append(Value(LIVE, meta, name) if meta.dtype.is_floating_point else Value(CONST, meta, sources=(name,)))
        else:
            given.append(Value(CONST, meta))
    results = t.run(program.graph_module, given, None)
    kinds = [str(s.kind).rsplit(".", 1)[-1] for s in program.graph_signature.output_specs]
    if isinstance(results, (list, tuple)) and len(results) == len(kinds):
        results = [r for r, kind in zip(results, kinds) if kind in ("USER_OUTPUT", "LOSS_OUTPUT")]
    return t, [v for v in flat(results) if v.kind == LIVE and v.floating and v.layer not in t.inputs]


def finish(t, outputs, loss):
    """The layers that nothing reads: losses, or one that ends in all outputs."""
    t.path = ""
    above = ancestors(t)
    layers = list(dict.fromkeys([v.layer for v in outputs] + t.losses))
    ends = [a for a in layers if not any(a in above[b] for b in layers if b != a)]
    losses = [e for e in ends if e in t.losses]
    if losses:
        return losses
    if not ends:
        raise UnknownOperator("the module returns nothing that depends on its input and has gradients")
    if len(ends) > 1:
        parts = [t.as_shape(next(v for v in outputs if v.layer == e), [t.size(e)]) for e in ends]
        ends = [t.emit("concat", parts, [sum(t.size(p) for p in parts)], axis=0)]
    elif loss is not None:
        value = next(v for v in outputs if v.layer == ends[0])
        classes = value.shape[1] if len(value.shape) > 3 else value.shape[-1]
        source = t.as_shape(value, [t.size(value.layer) // classes, classes]) if loss == "cross-entropy" and \
            t.size(value.layer) != classes else value
        ends = [t.emit(loss, [source], [])]
        t.losses += ends
    return ends


def ancestors(t):
    above = {}
    for e in t.layers:
        above[e["name"]] = set().union(*[above.get(f, set()) | {f} for f in e["from"]]) if e["from"] else set()
    return above


def pruned(t, ends):
    """The layers that the ends need, and what parameters take no part: these are held too."""
    needed, kept = set(ends), []
    for e in reversed(t.layers):
        if e["name"] in needed:
            needed.update(e["from"])
            kept.append(e)
    kept.reverse()
    owned = {}
    for e in kept:
        for p, n in t.owners[e["name"]]:
            owned[p] = owned.get(p, 0) + n
    unused = 0
    for frozen in (False, True):
        left = sum(n - owned.get(p, 0) for p, n in t.sizes.items() if (p in t.frozen) == frozen)
        if left <= 0:
            continue
        unused += left
        last = next(e for e in reversed(kept) if e["name"] == ends[0])
        t.path = ""
        at = kept.index(last)
        if last["name"] in t.losses:
            name = t.emit("weights", [last["from"][0]], t.dims.get(last["from"][0], []), elements=left, frozen=frozen or None)
            last["from"] = [name] + last["from"][1:]
            kept.insert(at, t.layers[-1])
        else:
            t.emit("weights", [last["name"]], t.dims[last["name"]], elements=left, frozen=frozen or None)
            kept.append(t.layers[-1])
            ends = [t.layers[-1]["name"]]
    return kept, unused


# ---- names and blocks

def short(path, used):
    """A name without dots, of at most 64 characters, that no other has."""
    base = path.replace(".", "-")[-58:].lstrip("-") or "layer"
    name, n = base, 1
    while name in used:
        n += 1
        name = "%s-%d" % (base, n)
    used.add(name)
    return name


def grouped(layers, path_of):
    """Layers of a numbered module ("layers.3") that stand together and give one tensor are a group, and equal groups one after
    another a repeated one."""
    position = {e["name"]: i for i, e in enumerate(layers)}
    readers = {}
    for i, e in enumerate(layers):
        for f in e["from"]:
            readers.setdefault(f, []).append(i)
    runs, begin = [], 0
    while begin < len(layers):
        block, end = block_of(path_of[layers[begin]["name"]]), begin + 1
        while end < len(layers) and block_of(path_of[layers[end]["name"]]) == block:
            end += 1
        outside = [e["name"] for e in layers[begin:end] if any(not begin <= r < end for r in readers.get(e["name"], [])) or
                   not readers.get(e["name"])]
        runs.append((block if len(outside) == 1 else "", begin, end, outside))
        begin = end
    used, final, out = set(), {}, []
    for block, begin, end, outside in runs:
        if not block:
            for e in layers[begin:end]:
                final[e["name"]] = short(e["name"], used)
                out.append({**e, "name": final[e["name"]], "from": [final.get(f, f) for f in e["from"]]})
            continue
        inner, own, previous = {}, set(), out[-1]["name"] if out else None
        outer = []
        for e in layers[begin:end]:
            outer += [final.get(f, f) for f in e["from"] if not begin <= position.get(f, -1) < end]
        outer = sorted(dict.fromkeys(outer), key=lambda f: (f != previous))
        inside = {f: "in" if i == 0 else "in%d" % (i + 1) for i, f in enumerate(outer)}
        entries = []
        for e in layers[begin:end]:
            rest = e["name"][len(block):].lstrip(".") if e["name"].startswith(block) else e["name"]
            inner[e["name"]] = short(rest, own)
            entries.append({**e, "name": inner[e["name"]],
                            "from": [inner[f] if f in inner else inside[final.get(f, f)] for f in e["from"]]})
        group = {"name": None, "repeat": 1, "layers": entries, "output": inner[outside[0]], "from": outer}
        last = out[-1] if out else {}
        alike = "repeat" in last and last.get("_block") == block.rpartition(".")[0] and outer and outer[0] == last["name"] and \
            all(begin <= r < end for r in readers[last["_outside"]]) and outer[1:] == last["from"][1:] and entries == last["layers"] and group["output"] == last["output"]
        if alike:
            last["repeat"] += 1
            last["_outside"] = outside[0]
            final[outside[0]] = last["name"]
            continue
        group["name"] = short(block.rpartition(".")[0] or "layers", used)
        group["_block"], group["_outside"] = block.rpartition(".")[0], outside[0]
        final[outside[0]] = group["name"]
        out.append(group)
    for e in out:
        e.pop("_block", None)
        e.pop("_outside", None)
    return [tidy(e) for e in out]


def tidy(entry):
    entry = dict(entry)
    if "layers" in entry:
        entry["layers"] = [tidy(e) for e in entry["layers"]]
    if len(entry["from"]) == 1:
        entry["from"] = entry["from"][0]
    return {k: entry[k] for k in ("type", "name", "repeat", "from", *entry) if k in entry}
