# SPDX-License-Identifier: Apache-2.0
"""A PyTorch module as a model document (docs/formats/model.md), by way of torch.export: docs/from-torch.md.

torch.export gives ATen's operators as the module calls them. Each becomes the layer that has the same shapes, keeps the same
tensors for backward and makes the same matrix products. A tensor is a layer's output under any shape: views, reshapes and
permutations are free, and a "reshape" stands only where a layer wants another shape than its input has. Three kinds of tensors
are told apart: `LIVE` ones depend on the samples and carry gradients or data; `PARAM` ones are learned, or made of learned
ones alone, and cost nothing; `CONST` ones (masks, positions, buffers) cost nothing either.
"""
import math
import operator
from collections import Counter
from difflib import get_close_matches

LIVE, PARAM, CONST = "live", "param", "const"


class UnknownOperator(ValueError):
    """What the module does has no layer; the text names the module's path and the operator."""


class Value:
    """A tensor of the graph: its shape in PyTorch and, of LIVE ones, the layer whose output it is."""

    def __init__(self, kind, meta, layer=None, params=(), whole=False, sources=(), small=None, indices=False):
        self.kind, self.layer, self.params, self.whole, self.sources, self.small = kind, layer, tuple(params), whole, sources, small
        self.shape, self.dtype = tuple(int(d) for d in meta.shape), meta.dtype
        self.strides = tuple(int(s) for s in meta.stride()) if meta.layout.__str__() == "torch.strided" else ()
        self.floating, self.indices = meta.dtype.is_floating_point, indices
        self.numel = math.prod(self.shape)


def block_of(path):
    """A module's path up to the first number in it, "" without one: "encoder.layers.3"."""
    parts = path.split(".")
    number = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    return "" if number is None else ".".join(parts[:number + 1])


def flat(tree):
    if isinstance(tree, Value):
        yield tree
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from flat(item)
    elif isinstance(tree, dict):
        yield from flat(list(tree.values()))


def trimmed(shape):
    """Without the leading ones: the shape of one sample."""
    shape = list(shape)
    while len(shape) > 1 and shape[0] == 1:
        shape.pop(0)
    return shape or [1]


def pairs(value, count):
    return list(value) * count if isinstance(value, (list, tuple)) and len(value) == 1 else \
        list(value) if isinstance(value, (list, tuple)) else [value] * count


def same(values):
    return values[0] if len(set(values)) == 1 else list(values)


class Translator:
    def __init__(self, sizes):
        self.layers = []          # entries in order, with "name" and "from"
        self.dims = {}            # of a layer's output, by name
        self.path_of = {}         # the module that made a layer
        self.sizes = sizes        # elements of each parameter
        self.owned = Counter()    # of these, how many a layer has by now
        self.frozen = set()
        self.inputs = {}
        self.names = Counter()
        self.reshaped = {}
        self.users = {}
        self.losses = []
        self.tables = {}          # rows and width of embeddings, by their parameter
        self.owners = {}          # of layers: what they own
        self.env = {}
        self.path = self.operator = ""
        self.taken = []           # owned by the layer that is emitted next

    # ---- layers

    def emit(self, type_, sources, dims, **attributes):
        base = (self.path + "." + type_ if self.path else type_)
        self.names[base] += 1
        name = base if self.names[base] == 1 else "%s-%d" % (base, self.names[base])
        entry = {"type": type_, "name": name, "from": [s if isinstance(s, str) else s.layer for s in sources]}
        entry.update((k, v) for k, v in attributes.items() if v is not None)
        self.layers.append(entry)
        self.dims[name] = [int(d) for d in dims]
        self.path_of[name] = self.path
        self.owners[name], self.taken = self.taken, []
        return name

    def live(self, meta, layer, **more):
        return Value(LIVE, meta, layer, **more)

    def size(self, layer):
        return math.prod(self.dims[layer])

    def as_shape(self, value, shape):
        """The layer whose output holds `value` under that shape."""
        value = self.materialised(value)
        shape = [int(d) for d in shape]
        if self.dims[value.layer] == shape:
            return value.layer
        if math.prod(shape) != self.size(value.layer):
            self.refuse("its input has %s elements, not %s" % (self.size(value.layer), shape))
        key = (value.layer, tuple(shape), block_of(self.path))
        if key not in self.reshaped:
            self.reshaped[key] = self.emit("reshape", [value], shape, shape=shape)
        return self.reshaped[key]

    def materialised(self, value):
        """What PyTorch repeats only by its strides, repeated."""
        if value.small is None:
            return value
        small, full = value.small
        while len(small) < len(full):
            small = [1] + list(small)
        out = Value(LIVE, _Meta(value), value.layer)
        pending = [1] + list(small), [1] + [f // s for s, f in zip(small, full)]
        merged = [[1], []]
        for d, factor in zip(pending[0][1:], pending[1][1:]):  # neighbours that stay as they are become one
            if factor == 1 and merged[1] and merged[1][-1] == 1:
                merged[0][-1] *= d
            else:
                merged[0].append(d)
                merged[1].append(factor)
        source = self.as_shape(Value(LIVE, _Meta(value, small), value.layer), merged[0])
        value.layer = out.layer = self.emit("upsample", [source], [1] + [a * b for a, b in zip(merged[0][1:], merged[1])],
                                            factor=merged[1])
        value.small = None
        return value

    def take(self, param, count):
        self.owned[param] += count
        self.taken.append((param, count))

    def own(self, params, count):
        """Whether a layer may have `count` elements of these parameters; otherwise an earlier one has them."""
        for p in params:
            if self.sizes[p] - self.owned[p] >= count:
                self.take(p, count)
                return {"frozen": True} if p in self.frozen else {}
        return {"shared": True}

    def own_bias(self, bias, count, attributes):
        """Whether the layer that has these attributes has that bias; one made of several parameters, or of fewer elements, stands
        beside it (with_weights)."""
        if bias is None or bias.kind != PARAM:
            return False
        return "shared" in attributes or "shared" not in self.own(bias.params, count)

    def with_weights(self, value, params):
        """`value` after what is left of these parameters stands beside it."""
        for frozen in (False, True):
            left = sum(self.sizes[p] - self.owned[p] for p in params if (p in self.frozen) == frozen)
            if left:
                value = self.materialised(value)
                for p in params:
                    if (p in self.frozen) == frozen:
                        self.take(p, self.sizes[p] - self.owned[p])
                name = self.emit("weights", [value], self.dims[value.layer], elements=left, frozen=frozen or None)
                value = Value(LIVE, _Meta(value), name)
        return value

    def filler(self, like, count):
        """Some tensor of `count` elements, in place of learned or constant ones that enter among live ones."""
        size = self.size(like.layer)
        source, parts = self.as_shape(like, [size]), []
        while count:
            n = min(count, size)
            parts.append(self.emit("slice", [source], [n], axis=0, begin=0, end=n) if n < size else source)
            count -= n
        return parts[0] if len(parts) == 1 else self.emit("concat", parts, [sum(self.size(p) for p in parts)], axis=0)

    def as_live(self, value, like):
        if value.kind == LIVE:
            return value
        out = Value(LIVE, _Meta(value), self.filler(self.materialised(like), value.numel))
        return self.with_weights(out, value.params)

    def each(self, value, keeps="none", flops=1):
        """One operation of each element by itself."""
        value = self.materialised(value)
        return self.emit("elementwise", [value], self.dims[value.layer], keeps=None if keeps == "none" else keeps,
                         flops=None if flops == 1 else flops)

    def copy(self, value):
        return self.each(value, flops=0)

    def refuse(self, why=None):
        where = "the module itself" if not self.path else '"%s"' % self.path
        raise UnknownOperator("%s: the operator %s %s" % (where, self.operator, why or "has no layer in Tandem"))

    # ---- the graph

    def run(self, graph_module, arguments, types):
        """Walks a graph; gives what it returns."""
        env, given = {}, iter(arguments)
        for node in graph_module.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(given)
                continue
            if node.op == "get_attr":
                env[node] = getattr_path(graph_module, node.target)
                if hasattr(env[node], "shape"):
                    env[node] = Value(CONST, env[node])
                continue
            look = lambda tree: _map(tree, env)
            if node.op == "output":
                return look(node.args[0])
            stack = list((node.meta.get("nn_module_stack") or {}).values())
            self.path = stack[-1][0] if stack else self.path
            self.path = module_path(self.path)
            env[node] = self.call(node, look(node.args), look(node.kwargs), env)
        return None

    def call(self, node, args, kwargs, env):
        target = node.target
        if target is operator.getitem:
            self.operator = "getitem"
            return args[0][args[1]]
        if not hasattr(target, "_schema"):
            return self.call_other(node, target, args, kwargs)
        self.operator = str(target)
        name = target._schema.name.split("::")
        name = name[1] if name[0] == "aten" else "::".join(name)
        inplace = name.endswith("_") and not name.endswith("__")
        metas = node.meta.get("val")
        values = list(flat([args, kwargs]))
        self.node = node
        if not any(v.kind == LIVE for v in values) and not self.begins(name, args):
            out = self.aside(name, metas, values)
        elif name in IGNORED:
            out = None
        else:
            if name in MAKERS or tensors(metas) and not any(m.dtype.is_floating_point for m in tensors(metas)):
                out = rebuilt(metas, lambda m: Value(CONST, m, sources=sources_of(values)))
            else:
                handler = HANDLERS.get(name) or HANDLERS.get(name.rstrip("_"))
                if handler is None:
                    near = get_close_matches(name, HANDLERS, 1)
                    self.refuse("has no layer in Tandem" + ("; the nearest that has one is aten.%s" % near[0] if near else ""))
                bound = {a.name: a.default_value for a in target._schema.arguments if a.has_default_value()}
                bound.update(zip((a.name for a in target._schema.arguments), args))
                bound.update(kwargs)
                out = handler(self, _Call(name.rstrip("_"), bound, metas, inplace, lambda x: target(x, *args[1:], **kwargs)))
        if inplace and node.args and isinstance(out, Value):
            env[node.args[0]] = out
        return out

    def call_other(self, node, target, args, kwargs):
        """Regions without gradients or with autocast, and arithmetic of sizes."""
        name = getattr(target, "__name__", str(target))
        if name in ("wrap_with_set_grad_enabled", "wrap_with_autocast", "_enter_autocast", "_exit_autocast", "_set_grad_enabled"):
            modules = [i for i, a in enumerate(args) if hasattr(a, "graph")]
            if not modules:
                return None
            out = self.run(args[modules[0]], args[modules[0] + 1:], None)
            return out
        if not list(flat([args, kwargs])):
            return target(*args, **kwargs)
        self.operator = name
        self.refuse()

    def begins(self, name, args):
        """Whether words become vectors here."""
        return name == "embedding" and args[0].kind == PARAM and bool(args[1].sources)

    def aside(self, name, metas, values):
        params = {p: None for v in values for p in v.params if v.kind == PARAM}
        if not params:
            return rebuilt(metas, lambda m: Value(CONST, m, sources=sources_of(values)))
        whole = len(params) == 1 and (name in VIEWS or name in ("to", "_to_copy", "contiguous", "clone")) and \
            all(v.whole for v in values if v.kind == PARAM)
        return rebuilt(metas, lambda m: Value(PARAM if m.dtype.is_floating_point else CONST, m, params=params, whole=whole))

    def used_once(self):
        node = self.node.args[0]
        return len(node.users) <= 1


class _Call:
    """The bound arguments of an operator."""

    def __init__(self, name, bound, metas, inplace=False, again=None):
        self.name, self.bound, self.meta, self.inplace, self.again = name, bound, metas, inplace, again

    def __getattr__(self, key):
        if key.startswith("__"):
            raise AttributeError(key)
        return self.bound.get(key)


class _Meta:
    """Shape and type of a value, as Value reads them."""
    layout = "torch.strided"

    def __init__(self, value, shape=None):
        self.shape, self.dtype, self._strides = tuple(shape or value.shape), value.dtype, value.strides

    def stride(self):
        return self._strides


def _map(tree, env):
    import torch.fx
    return torch.fx.node.map_aggregate(tree, lambda a: env[a] if isinstance(a, torch.fx.Node) else a)


def tensors(metas):
    if metas is None:
        return []
    if isinstance(metas, (list, tuple)):
        return [t for m in metas for t in tensors(m)]
    return [metas] if hasattr(metas, "shape") else []


def rebuilt(metas, make):
    if isinstance(metas, (list, tuple)):
        return [rebuilt(m, make) for m in metas]
    return make(metas) if hasattr(metas, "shape") else metas


def sources_of(values):
    return tuple(dict.fromkeys(s for v in values for s in v.sources))


def getattr_path(root, path):
    for part in path.split("."):
        root = getattr(root, part)
    return root


def module_path(text):
    """"L['self'].layer1[0].conv1" and "layer1.0.conv1" alike."""
    text = text.replace("L['self']", "").replace("L['s']", "").replace("['", ".").replace("']", "")
    text = text.replace("[", ".").replace("]", "").replace("slice(None, None, None)", "")
    return ".".join(part for part in text.split(".") if part and part != "_modules")


# ---- operators. Each takes the translator and a call, and gives a Value or a list of them.

HANDLERS = {}
IGNORED = {"_assert_tensor_metadata", "_assert_async", "sym_constrain_range", "_assert_scalar", "sym_constrain_range_for_size"}
MAKERS = {"new_zeros", "new_ones", "new_empty", "new_full", "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like",
          "new_empty_strided", "bernoulli"}
VIEWS = {"view", "_unsafe_view", "reshape", "flatten", "unflatten", "transpose", "permute", "t", "numpy_T", "mT", "movedim",
         "swapaxes", "swapdims", "squeeze", "unsqueeze", "detach", "alias", "view_as", "reshape_as", "lift_fresh_copy", "lift_fresh",
         "lift", "moveaxis", "adjoint", "ravel", "_reshape_alias", "expand", "expand_as", "broadcast_to"}


def operators(*names):
    def add(function):
        HANDLERS.update((name, function) for name in names)
        return function
    return add


def laid_out(x, c):
    """Strides of the result of moving `x` about, and whether that copies it. PyTorch's own strides are those of the device where
    the module was looked at, and attention in one kernel leaves others."""
    import torch
    if not x.strides or not x.numel:
        return tuple(int(s) for s in c.meta.stride()), False
    before = torch.empty_strided(x.shape, x.strides, device="meta", dtype=x.dtype)
    after = c.again(before)
    return tuple(after.stride()), after.untyped_storage()._cdata != before.untyped_storage()._cdata


@operators(*(VIEWS - {"expand", "expand_as", "broadcast_to"}), "contiguous", "clone")
def view(t, c):
    x = c.self if c.self is not None else c.input
    if x.small is not None:
        return t.live(c.meta, t.materialised(x).layer)
    simple = c.again is not None and c.other is None
    strides, copies = laid_out(x, c) if simple else (tuple(c.meta.stride()), False)
    out = t.live(c.meta, t.copy(x) if copies else x.layer)
    out.strides = strides
    return out


@operators("expand", "expand_as", "broadcast_to")
def expand(t, c):
    x = c.self
    if math.prod(c.meta.shape) == x.numel:
        return t.live(c.meta, x.layer, small=x.small)
    t.materialised(x)
    return t.live(c.meta, x.layer, small=(list(x.shape), [int(d) for d in c.meta.shape]))


@operators("to", "_to_copy", "type_as", "float", "half", "bfloat16")
def cast(t, c):
    x = c.self
    if c.meta.dtype == x.dtype:
        return t.live(c.meta, x.layer, small=x.small)
    return t.live(c.meta, t.copy(x))


def cut(t, x, dim, begin, count, meta):
    """`count` places of one dimension from `begin` on."""
    x = t.materialised(x)
    n = x.shape[dim]
    if count == n:
        return t.live(meta, x.layer)
    outer, inner = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1:])
    shape, axis = ([n], 0) if outer == inner == 1 else ([n, inner], 0) if outer == 1 else \
        ([outer, n], 1) if inner == 1 else ([outer, n, inner], 1)
    source = t.as_shape(x, shape)
    shape[axis] = count
    return t.live(meta, t.emit("slice", [source], shape, axis=axis, begin=begin, end=begin + count))


@operators("select", "slice", "narrow")
def take(t, c):
    x = c.self
    dim = (c.dim or 0) % len(x.shape)
    n = x.shape[dim]
    if c.name == "select":
        return cut(t, x, dim, c.index % n, 1, c.meta)
    begin = min(max((c.start or 0) + (n if (c.start or 0) < 0 else 0), 0), n)
    count = int(c.meta.shape[dim])
    return cut(t, x, dim, min(begin, n - count), count, c.meta)


@operators("split", "split_with_sizes", "chunk", "unbind", "tensor_split", "unsafe_split", "unsafe_chunk", "hsplit")
def split(t, c):
    x = c.self
    dim = (c.dim or 0) % len(x.shape)
    out, begin = [], 0
    for meta in c.meta:
        count = 1 if c.name == "unbind" else int(meta.shape[dim])
        out.append(cut(t, x, dim, begin, count, meta))
        begin += count
    return out


@operators("cat", "concat", "concatenate", "stack")
def concat(t, c):
    parts = [p for p in c.tensors if p.numel]
    like = next(p for p in parts if p.kind == LIVE)
    dim = c.dim or 0
    shape = [int(d) for d in c.meta.shape]
    dim %= len(shape)
    outer, inner = math.prod(shape[:dim]), math.prod(shape[dim + 1:])
    learned = [p for p in parts if p.kind == PARAM]
    if len(parts) == 2 and len(learned) == 1 and learned[0] is parts[0] and outer == 1 and parts[0].numel == inner and \
            len(learned[0].params) == 1 and t.owned[learned[0].params[0]] == 0 and t.sizes[learned[0].params[0]] == inner:
        source = t.as_shape(like, [like.numel // inner, inner])
        t.take(learned[0].params[0], inner)
        return t.live(c.meta, t.emit("cls-token", [source], [like.numel // inner + 1, inner]))
    parts = [t.as_live(p, like) for p in parts]
    if len(parts) == 1:
        return t.live(c.meta, t.copy(parts[0]))
    dims = lambda n: [n // (outer * inner), inner] if outer == 1 else [outer, n // outer] if inner == 1 else \
        [outer, n // (outer * inner), inner]
    sources = [t.as_shape(p, dims(p.numel)) for p in parts]
    return t.live(c.meta, t.emit("concat", sources, dims(math.prod(shape)), axis=0 if outer == 1 else 1))


@operators("dropout", "native_dropout", "alpha_dropout", "feature_dropout")
def dropout(t, c):
    x = c.input if c.input is not None else c.self
    meta = tensors(c.meta)[0]
    if not c.p or not c.train:
        return t.live(meta, x.layer, small=x.small)
    x = t.materialised(x)
    if c.name == "feature_dropout":
        out = t.live(meta, t.each(x))
    else:
        out = t.live(meta, t.emit("dropout", [x], t.dims[x.layer], p=min(c.p, 0.999)))
    return [out, None] if c.name == "native_dropout" else out


NAMED = {"sigmoid": ("sigmoid", {}), "tanh": ("tanh", {}), "gelu": ("gelu", {}), "silu": ("swish", {}), "hardswish": ("hard-swish", {}),
         "hardsigmoid": ("hard-sigmoid", {}), "softplus": ("softplus", {}), "relu6": ("relu6", {})}


@operators(*NAMED)
def named(t, c):
    type_, attributes = NAMED[c.name]
    x = t.materialised(c.self)
    if c.inplace and type_ in ("swish", "hard-swish"):
        attributes = {"in_place": True}
    return t.live(c.meta, t.emit(type_, [x], t.dims[x.layer], **attributes))


@operators("relu", "leaky_relu", "hardtanh", "clamp", "clamp_min", "clamp_max", "threshold")
def rectified(t, c):
    x = t.materialised(c.self)
    if c.name == "relu" and (c.inplace or t.used_once()):
        return t.live(c.meta, t.emit("relu", [x], t.dims[x.layer]))
    if c.name == "relu":
        return t.live(c.meta, t.each(x, "output"))
    if c.name == "leaky_relu" and c.inplace:
        return t.live(c.meta, t.emit("leaky-relu", [x], t.dims[x.layer], slope=c.negative_slope))
    if c.name == "hardtanh" and c.inplace:
        return t.live(c.meta, t.emit("relu6" if (c.min_val, c.max_val) == (0, 6) else "clip", [x], t.dims[x.layer]))
    return t.live(c.meta, t.each(x, "input", 2))


UNARY = {"neg": "none", "exp": "output", "expm1": "output", "sqrt": "output", "rsqrt": "output", "reciprocal": "output", "abs": "input",
         "sin": "input", "cos": "input", "log": "input", "log1p": "input", "log2": "input", "erf": "input", "square": "input",
         "elu": "input", "selu": "output", "celu": "input", "mish": "input", "softsign": "input", "log_sigmoid": "input",
         "logit": "input", "atan": "input", "sign": "none", "nan_to_num": "input", "masked_fill": "none", "floor": "none",
         "round": "none", "flip": "none", "tril": "none", "triu": "none", "cumsum": "none", "_cast_Float": "none", "softshrink": "input",
         "hardshrink": "input", "sinh": "input", "cosh": "input", "renorm": "input", "cumprod": "input", "trunc": "none",
         "index_fill": "none", "copy": "none", "frac": "none"}


@operators(*UNARY)
def unary(t, c):
    x = c.self
    if x.kind != LIVE:
        x = next(v for v in flat(list(c.bound.values())) if v.kind == LIVE)
    x = broadcast(t, x, c.meta.shape)
    keeps = UNARY[c.name]
    return t.live(c.meta, t.each(x, keeps, 1 if keeps == "none" else 4 if c.name not in ("abs", "square", "masked_fill") else 1))


@operators("prelu", "rrelu")
def prelu(t, c):
    x = t.with_weights(c.self, c.weight.params if c.weight is not None else ())
    return t.live(c.meta, t.each(x, "input", 2))


@operators("glu")
def glu(t, c):
    dim = c.dim % len(c.self.shape)
    n = c.self.shape[dim] // 2
    a, b = cut(t, c.self, dim, 0, n, c.meta), cut(t, c.self, dim, n, n, c.meta)
    gate = t.live(c.meta, t.emit("sigmoid", [b], t.dims[b.layer]))
    return t.live(c.meta, t.emit("mul", [a, t.as_shape(gate, t.dims[a.layer])], t.dims[a.layer]))


def broadcast(t, x, shape):
    """A live value as large as the result."""
    shape = [int(d) for d in shape]
    if x.small is not None:
        t.materialised(x)
    if math.prod(shape) == x.numel:
        return x
    x = Value(LIVE, _Meta(x), x.layer)
    x.small = (list(x.shape), shape)
    x.shape, x.numel, x.strides = tuple(shape), math.prod(shape), ()
    return t.materialised(x)


def meet(t, type_, values, meta):
    """The sum or product of live values, the smaller ones broadcast over the first."""
    shape = [int(d) for d in meta.shape]
    total = math.prod(shape)
    extent = lambda v: v.numel
    values = sorted(values, key=lambda v: -extent(v))
    if values[0].numel < total:
        values[0] = broadcast(t, values[0], shape)
    first = t.materialised(values[0])
    if all(v.numel == total for v in values):
        sources = [first.layer] + [t.as_shape(v, t.dims[first.layer]) for v in values[1:]]
        return t.live(meta, t.emit(type_, sources, t.dims[first.layer]))
    padded = [[1] * (len(shape) - len(v.shape)) + list(v.shape if v.small is None else v.small[0]) for v in values]
    padded = [[1] * (len(shape) - len(p)) + p for p in padded]
    merged = [[] for _ in values]  # neighbours that are broadcast alike become one dimension
    before = None
    for d in range(len(shape)):
        alike = tuple(p[d] == shape[d] for p in padded)
        if shape[d] == 1:
            continue
        for m, p in zip(merged, padded):
            if alike == before:
                m[-1] *= p[d]
            else:
                m.append(p[d])
        before = alike
    source = t.as_shape(first, merged[0])
    others = [t.as_shape(Value(LIVE, _Meta(v), v.layer), m) for v, m in zip(values[1:], merged[1:])]
    return t.live(meta, t.emit(type_, [source] + others, merged[0]))


@operators("add", "sub", "rsub", "mul", "div", "true_divide", "divide", "multiply", "pow", "maximum", "minimum", "where", "lerp", "addcmul",
           "addcdiv", "remainder", "fmod", "atan2", "hypot", "floor_divide", "xlogy", "logaddexp", "special_xlog1py")
def binary(t, c):
    operands = [v for v in flat(list(c.bound.values())) if not (c.name == "where" and v.dtype.__str__() == "torch.bool")]
    lives = [v for v in operands if v.kind == LIVE]
    learned = [v for v in operands if v.kind == PARAM]
    if len(lives) == 2 and lives[0] is lives[1] and c.name in ("mul", "multiply", "div"):
        return t.live(c.meta, t.each(lives[0], "input"))
    if all(v.numel == 1 for v in lives) and math.prod(c.meta.shape) == 1 and not learned and len(lives) == 1:
        return t.live(c.meta, lives[0].layer)  # of a loss
    if len(lives) > 1:
        if all(v.layer in t.losses for v in lives):
            return t.live(c.meta, lives[0].layer)
        type_ = "add" if c.name in ("add", "sub", "rsub", "where", "maximum", "minimum") else "mul"
        out = meet(t, type_, lives, c.meta)
        if c.name in ("maximum", "minimum", "where"):
            out = t.live(c.meta, t.each(out, "mask"))
        return t.live(c.meta, t.with_weights(out, [p for v in learned for p in v.params]).layer) if learned else out
    x = broadcast(t, lives[0], c.meta.shape)
    by_live = operands and operands[-1] is lives[0] and (len(operands) > 1 or not isinstance(c.self, Value))
    if learned:
        return with_learned(t, c, x, learned[0])
    keeps = "none"
    if c.name in ("pow",):
        keeps = "output" if by_live and not isinstance(c.self, Value) else "input"
    elif c.name in ("div", "true_divide", "divide") and by_live and operands[0] is not lives[0]:
        keeps = "input"
    elif c.name in ("maximum", "minimum"):
        keeps = "input"
    return t.live(c.meta, t.each(x, keeps))


def with_learned(t, c, x, w):
    """A live value and a learned one, added or multiplied."""
    params, total = w.params, x.numel
    free = len(params) == 1 and t.owned[params[0]] == 0 and params[0] not in t.frozen
    shape = trimmed(x.shape)
    if c.name in ("mul", "multiply") and free and w.numel == t.sizes[params[0]]:
        inside = [1] * (len(x.shape) - len(w.shape)) + list(w.shape)
        wide = [d for d, n in enumerate(inside) if n > 1]
        if len(wide) == 1:
            d, after = wide[0], math.prod(x.shape[wide[0] + 1:])
            n = inside[d]
            dims = [total // n, n] if after == 1 else [n, total // n, 1] if math.prod(x.shape[:d]) == 1 else None
            if dims is not None:
                source = t.as_shape(x, [n] if dims == [1, n] else dims)
                t.take(params[0], n)
                return t.live(c.meta, t.emit("scale", [source], t.dims[source], axis=0 if after > 1 else None))
    if c.name == "add" and free and w.numel == total and len(shape) > 1:
        width = total // shape[0]
        if t.sizes[params[0]] % width == 0 and t.sizes[params[0]] >= total:
            length = t.sizes[params[0]] // width
            source = t.as_shape(x, shape)
            t.take(params[0], t.sizes[params[0]])
            return t.live(c.meta, t.emit("position-embedding", [source], shape, length=length if length != shape[0] else None))
    x = t.with_weights(x, params)
    return t.live(c.meta, t.each(x, "none" if c.name in ("add", "sub", "rsub", "where") else "input"))


# ---- reductions, softmax, norms

def reduce(t, x, dims, meta):
    """Means of blocks of neighbouring dimensions, from the last to the first."""
    x = t.materialised(x)
    shape, layer = list(x.shape), x.layer
    dims = sorted({d % len(shape) for d in dims})
    dims = [d for d in dims if shape[d] > 1]
    value = Value(LIVE, _Meta(x), layer)
    while dims:
        last = first = dims.pop()
        while dims and dims[-1] == first - 1:
            first = dims.pop()
        outer, n, inner = math.prod(shape[:first]), math.prod(shape[first:last + 1]), math.prod(shape[last + 1:])
        channels = [d for d in shape[:first] if d > 1]
        if inner == 1 and len(channels) == 1 and last > first:
            source = t.as_shape(value, [outer] + shape[first:last + 1])
            layer = t.emit("global-pool", [source], [outer])
        else:
            form = [outer, n, inner] if outer > 1 and inner > 1 else [n, inner] if inner > 1 else [outer, n] if outer > 1 else [n]
            layer = t.emit("mean", [t.as_shape(value, form)], [d for i, d in enumerate(form) if i != (1 if outer > 1 else 0)],
                           axis=1 if outer > 1 else 0)
            if not t.dims[layer]:
                t.dims[layer] = []
        shape[first:last + 1] = [1] * (last - first + 1)
        value = Value(LIVE, _Meta(x, shape), layer)
    return t.live(meta, layer)


@operators("mean", "sum", "amax", "amin", "max", "min", "var", "std", "logsumexp", "linalg_vector_norm", "norm", "var_mean", "std_mean", "prod",
           "nansum")
def reduction(t, c):
    x = c.self
    if c.other is not None:
        return binary(t, _Call("maximum", {"self": c.self, "other": c.other}, c.meta))
    if x.layer in t.losses:
        return t.live(c.meta, x.layer)
    dims = c.dim if c.dim is not None and c.dim != [] else list(range(len(x.shape)))
    dims = dims if isinstance(dims, (list, tuple)) else [dims]
    metas = tensors(c.meta)
    if c.name not in ("mean", "sum", "nansum"):
        x = t.live(_Meta(x), t.each(x, "none" if c.name in ("max", "min") else "input", 2))
    out = reduce(t, x, dims, metas[0])
    if not isinstance(c.meta, (list, tuple)):
        return out
    return [out] + [t.live(m, out.layer) if m.dtype.is_floating_point else Value(CONST, m, sources=("?",)) for m in metas[1:]]


@operators("softmax", "_softmax", "log_softmax", "_log_softmax", "special_softmax", "softmin")
def softmax(t, c):
    x = t.materialised(c.self)
    n = x.shape[c.dim % len(x.shape)]
    source = t.as_shape(x, [x.numel // n, n])
    return t.live(c.meta, t.emit("softmax", [source], t.dims[source]))


def affine(t, *values):
    """Of a norm's scale and shift: attributes that say which of them the layer has, and what it does not own."""
    have = [v for v in values if v is not None and v.kind == PARAM]
    attributes = {}
    for v in have:
        attributes.update(t.own(v.params, v.numel))
    return attributes


@operators("batch_norm", "_native_batch_norm_legit", "instance_norm", "native_batch_norm", "cudnn_batch_norm", "sync_batch_norm")
def batch_norm(t, c):
    x = t.materialised(c.input)
    n = x.shape[0] if len(x.shape) > 1 else 1
    channels = x.shape[1] if len(x.shape) > 1 else x.shape[0]
    has = c.weight is not None
    if c.name == "instance_norm":
        if has:
            source = t.as_shape(x, [channels, x.numel // channels, 1])
            return t.live(c.meta, t.emit("group-norm", [source], t.dims[source], groups=channels, **affine(t, c.weight, c.bias)))
        source = t.as_shape(x, [channels * n, x.numel // (channels * n)])
        return t.live(c.meta, t.emit("layer-norm", [source], t.dims[source], affine=False))
    shape = [channels] + list(x.shape[2:]) if n == 1 else [channels, x.numel // channels]
    source = t.as_shape(x, shape)
    if has and c.weight.kind == LIVE:
        t.refuse("has a scale that depends on the sample")
    if c.training is False:  # its statistics are constants: a scale and a shift
        name = t.emit("batch-norm", [source], shape, affine=None if has else False, **affine(t, c.weight, c.bias))
        return t.live(c.meta, name)
    out = t.live(tensors(c.meta)[0], t.emit("batch-norm", [source], shape, affine=None if has else False, **affine(t, c.weight, c.bias)))
    return [out, None, None] if isinstance(c.meta, (list, tuple)) else out


@operators("layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm")
def layer_norm(t, c):
    x = t.materialised(c.input)
    width = math.prod(c.normalized_shape)
    source = t.as_shape(x, [width] if x.numel == width else [x.numel // width, width])
    attributes = {}
    if c.weight is None:
        attributes["affine"] = False
    elif "rms" not in c.name and c.bias is None:
        attributes["bias"] = False
    name = t.emit("rms-norm" if "rms" in c.name else "layer-norm", [source], t.dims[source], **attributes, **affine(t, c.weight, c.bias))
    out = t.live(tensors(c.meta)[0], name)
    return [out, None, None] if isinstance(c.meta, (list, tuple)) else out


@operators("group_norm", "native_group_norm")
def group_norm(t, c):
    x = t.materialised(c.input)
    channels = x.shape[1]
    source = t.as_shape(x, trimmed([channels] + list(x.shape[2:])) if x.shape[0] == 1 else [channels, x.numel // channels])
    if c.weight is None:
        source = t.as_shape(x, [c.num_groups, x.numel // c.num_groups])
        return t.live(c.meta, t.emit("layer-norm", [source], t.dims[source], affine=False))
    return t.live(c.meta, t.emit("group-norm", [source], t.dims[source], groups=c.num_groups, **affine(t, c.weight, c.bias)))


@operators("local_response_norm")
def lrn(t, c):
    return t.live(c.meta, t.emit("lrn", [c.input], t.dims[c.input.layer], window=c.size))


# ---- products

def learned_product(t, x, w, bias, width, features, meta):
    """x {rows, width} times a learned matrix."""
    x = in_one_row(t, t.materialised(x), [width])
    rows = x.numel // width
    source = t.as_shape(x, [width] if rows == 1 else [rows, width])
    dims = [features] if rows == 1 else [rows, features]
    attributes = t.own(w.params, width * features) if w.params else {"shared": True}
    learned_bias = bias is not None and bias.kind == PARAM
    if attributes.get("shared") and not learned_bias and t.tables.get(w.params[:1]) == (features, width):
        return t.live(meta, t.emit("tied-linear", [source], dims, vocabulary=features))
    biased = t.own_bias(bias, features, attributes)
    out = t.live(meta, t.emit("linear", [source], dims, features=features, bias=None if biased else False, **attributes))
    if learned_bias and not biased:
        out = t.with_weights(out, bias.params)
    more = w.whole and w.numel > width * features  # a stack of matrices, of which each row meets one
    return t.with_weights(out, w.params) if more else out


@operators("transformers::grouped_mm_fallback", "_grouped_mm")
def grouped_product(t, c):
    x = c.input if c.input is not None else c.self
    w = next(v for v in (c.weight, c.mat2) if v is not None)
    if x.kind != LIVE or w.kind != PARAM or len(x.shape) != 2:
        t.refuse("is understood of rows, each with one matrix of a learned stack")
    return learned_product(t, x, w, None, w.shape[-2], w.shape[-1], c.meta)


def in_one_row(t, x, matrix):
    """An operand of a product of stacks of these matrices or rows, which PyTorch copies where no strides put them into one row."""
    import torch
    if len(x.shape) < 2 + len(matrix) or not x.strides or not x.numel:
        return x
    shape, strides = list(x.shape), list(x.strides)
    if shape[0] == 1:  # one sample of several
        shape[0], strides[0] = 2, x.numel
    before = torch.empty_strided(shape, strides, device="meta")
    after = before.reshape(-1, *matrix)
    return x if after.untyped_storage()._cdata == before.untyped_storage()._cdata else t.live(_Meta(x), t.copy(x))


@operators("linear", "addmm", "mm", "matmul", "bmm", "baddbmm", "mv", "dot")
def product(t, c):
    if c.name == "linear":
        x, w, bias = c.input, c.weight, c.bias
        if w.kind == PARAM and x.kind == LIVE:
            return learned_product(t, x, w, bias, w.shape[-1], w.shape[0] if len(w.shape) > 1 else 1, c.meta)
        self_, other, turned = x, w, True
    else:
        self_ = c.mat1 if c.mat1 is not None else c.batch1 if c.batch1 is not None else c.self
        other = next(v for v in (c.mat2, c.batch2, c.other, c.vec, c.tensor) if v is not None)
        bias, turned = c.self if c.name in ("addmm", "baddbmm") else None, False
    a, b = list(self_.shape), list(other.shape)
    if turned:
        b[-2:] = [b[-1], b[-2]]
    inner = a[-1]
    m, n = a[-2] if len(a) > 1 else 1, b[-1] if len(b) > 1 else 1
    stack_a, stack_b = math.prod(a[:-2]), math.prod(b[:-2])
    if self_.kind == LIVE and other.kind == PARAM:
        out = learned_product(t, self_, other, bias, inner, n, c.meta)
    elif self_.kind == PARAM and other.kind == LIVE:
        out = learned_product(t, other, self_, bias, inner, m, c.meta)
    else:
        like = self_ if self_.kind == LIVE else other
        self_, other = t.as_live(self_, like), t.as_live(other, like)
        stack = max(stack_a, stack_b)
        full = [int(d) for d in c.meta.shape][:-2] if len(c.meta.shape) > 2 else []
        if stack_b == 1 and stack_a > 1:
            m, stack = m * stack_a, 1
        elif len(a) > 2 and stack_a < stack:
            self_ = broadcast(t, self_, full + a[-2:])
        elif len(b) > 2 and stack_b < stack:
            other = broadcast(t, other, full + (list(other.shape[-2:])))
        self_, other = (in_one_row(t, v, v.shape[-2:]) for v in (self_, other))
        left = t.as_shape(self_, [stack, m, inner] if stack > 1 else [m, inner])
        right = t.as_shape(other, [stack, inner, n] if stack > 1 else [inner, n])
        out = t.live(c.meta, t.emit("matmul", [left, right], [stack, m, n] if stack > 1 else [m, n]))
    if bias is not None and bias.kind == LIVE:
        out = meet(t, "add", [out, bias], c.meta)
    return out


@operators("einsum")
def einsum(t, c):
    left, right = c.equation.replace(" ", "").split("->")
    terms = left.split(",")
    if len(terms) != 2 or "." in left:
        t.refuse("is understood of two tensors, without dots, not of %r" % c.equation)
    values = list(c.tensors)
    sizes = {}
    for term, v in zip(terms, values):
        sizes.update(zip(term, v.shape))
    both = [d for d in terms[0] if d in terms[1]]
    count = lambda letters: math.prod(sizes[d] for d in letters)
    stack = count(d for d in both if d in right)
    inner = count(d for d in both if d not in right)
    m, n = (count(d for d in term if d not in both) for term in terms)
    if values[0].kind == PARAM:
        values, m, n = values[::-1], n, m
    if values[1].kind == PARAM and stack == 1:
        return learned_product(t, values[0], values[1], None, inner, n, c.meta)
    if values[1].kind == PARAM:  # a matrix for each of the stack
        out = learned_product(t, values[0], values[1], None, inner, n, c.meta)
        return out
    like = values[0] if values[0].kind == LIVE else values[1]
    values = [t.as_live(v, like) for v in values]
    dims = ([stack] if stack > 1 else [])
    sources = [t.as_shape(values[0], dims + [m, inner]), t.as_shape(values[1], dims + [inner, n])]
    return t.live(c.meta, t.emit("matmul", sources, dims + [m, n]))


@operators("scaled_dot_product_attention")
def attention(t, c):
    like = next(v for v in (c.query, c.key, c.value) if v.kind == LIVE)
    q, k, v = (t.as_live(x, like) for x in (c.query, c.key, c.value))
    if c.attn_mask is not None and c.attn_mask.kind == PARAM:
        q = t.with_weights(q, c.attn_mask.params)
    q, k, v = (t.materialised(x) for x in (q, k, v))
    if len(q.shape) != 4:  # no kernel takes it
        return composed_attention(t, c, t.live(_Meta(q), t.each(q)), t.live(_Meta(k), t.each(k)), v, math.prod(q.shape[:-2]))
    grouped = len(q.shape) > 3
    heads, kv_heads = (q.shape[-3], k.shape[-3]) if grouped else (1, 1)
    parts = math.prod(q.shape[:-3]) if grouped else math.prod(q.shape[:-2])
    queries, keys, dim, vdim = q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1]
    dims = [parts * queries, heads * vdim]
    if parts > 1 and (queries != keys or q.numel == 1):
        return composed_attention(t, c, q, k, v, parts * heads)
    sources = [t.as_shape(q, [parts * queries, heads * dim]), t.as_shape(k, [parts * keys, kv_heads * dim]),
               t.as_shape(v, [parts * keys, kv_heads * vdim])]
    out = t.live(c.meta, t.emit("attention", sources, dims, heads=heads, kv_heads=kv_heads if kv_heads != heads else None,
                                v_head_dim=vdim if vdim != dim else None, causal=True if c.is_causal else None,
                                parts=parts if parts > 1 else None))
    if q.strides and vdim == dim:  # laid out as the queries are
        import torch
        out.strides = tuple(torch.empty_like(torch.empty_strided(q.shape, q.strides, device="meta")).stride())
    return out


def composed_attention(t, c, q, k, v, stack):
    scores = t.emit("matmul", [t.as_shape(q, [stack, q.shape[-2], q.shape[-1]]), t.as_shape(k, [stack, k.shape[-1], k.shape[-2]])],
                    [stack, q.shape[-2], k.shape[-2]])
    rows = Value(LIVE, _Meta(q, [stack * q.shape[-2], k.shape[-2]]), scores)
    weights = Value(LIVE, _Meta(rows), t.emit("softmax", [t.as_shape(rows, rows.shape)], rows.shape))
    return t.live(c.meta, t.emit("matmul", [t.as_shape(weights, t.dims[scores]), t.as_shape(v, [stack, v.shape[-2], v.shape[-1]])],
                                 [stack, q.shape[-2], v.shape[-1]]))


@operators("conv1d", "conv2d", "conv3d", "convolution", "_convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv(t, c):
    x, w = t.materialised(c.input), c.weight
    if w.kind != PARAM:
        t.refuse("has a kernel that depends on the sample")
    dims = len(w.shape) - 2
    turned = "transpose" in c.name or bool(c.transposed)
    batch = math.prod(x.shape[:-dims - 1])
    channels, space = x.shape[-dims - 1], list(x.shape[-dims:])
    kernel = list(w.shape[2:])
    stride, dilation = pairs(c.stride, dims) or [1] * dims, pairs(c.dilation, dims) or [1] * dims
    pad = c.padding if c.padding is not None else 0
    if isinstance(pad, str):
        total = [d * (k - 1) for d, k in zip(dilation, kernel)] if pad == "same" else [0] * dims
        pad = [n // 2 for n in total] if all(n % 2 == 0 for n in total) else "same"
    else:
        pad = pairs(pad, dims)
    filters, groups = int(c.meta.shape[-dims - 1]), c.groups or 1
    frames = []
    if batch > 1:  # pictures of one sample
        if dims > 2:
            t.refuse("is of several volumes of one sample")
        frames = [1]
        space = [batch] + space
        pad = pad if isinstance(pad, str) else [0] + pad
    kernel, stride, dilation = frames + kernel, frames + stride, frames + dilation
    source = t.as_shape(x, [channels] + space)
    out = [filters] + ([batch] if frames else []) + [int(d) for d in c.meta.shape[-dims:]]
    attributes = t.own(w.params, w.numel)
    biased = t.own_bias(c.bias, filters, attributes)
    attributes.update(kernel=same(kernel), bias=None if biased else False)
    attributes["stride"] = same(stride) if set(stride) != {1} else None
    attributes["pad"] = pad if isinstance(pad, str) else same(pad) if set(pad) != {0} else None
    if not turned:
        attributes["dilation"] = same(dilation) if set(dilation) != {1} else None
    if turned:
        if set(dilation) != {1}:
            t.refuse("is transposed and dilated")
        more = pairs(c.output_padding, dims)
        attributes["output_pad"] = ([0] * len(frames) + more) if any(more) else None
    if groups == channels and channels > 1 and not turned:
        attributes["multiplier"] = filters // channels if filters != channels else None
        return t.live(c.meta, t.emit("depthwise-conv", [source], out, **attributes))
    attributes["groups"] = groups if groups > 1 else None
    return t.live(c.meta, t.emit("conv-transpose" if turned else "conv", [source], out, filters=filters, **attributes))


# ---- windows and sizes

@operators("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d_with_indices")
def pool(t, c):
    x = t.materialised(c.self)
    dims = int(c.name.split("pool")[1][0])
    metas = tensors(c.meta)
    batch = math.prod(x.shape[:-dims])
    kernel = pairs(c.kernel_size, dims)
    stride = pairs(c.stride, dims) if c.stride not in (None, []) else kernel
    pad, dilation = pairs(c.padding or 0, dims), pairs(c.dilation or 1, dims)
    if set(dilation) != {1}:
        t.refuse("is dilated")
    source = t.as_shape(x, [batch] + list(x.shape[-dims:]))
    name = t.emit("max-pool" if c.name.startswith("max") else "avg-pool", [source], [batch] + [int(d) for d in metas[0].shape[-dims:]],
                  kernel=same(kernel), stride=same(stride), pad=same(pad) if set(pad) != {0} else None, ceil=True if c.ceil_mode else None)
    out = t.live(metas[0], name)
    return [out] + [Value(CONST, m) for m in metas[1:]] if isinstance(c.meta, (list, tuple)) else out


@operators("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d", "adaptive_max_pool2d", "adaptive_max_pool1d",
           "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_linear1d",
           "upsample_trilinear3d", "_upsample_nearest_exact2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "grid_sampler")
def resize(t, c):
    x = t.materialised(next(v for v in (c.self, c.input) if v is not None))
    metas = tensors(c.meta)
    dims = len(x.shape) - 2 if len(x.shape) > 2 else 1
    before, after = list(x.shape[-dims:]), [int(d) for d in metas[0].shape[-dims:]]
    planes = x.numel // math.prod(before)
    if before == after and "adaptive" in c.name:
        return t.live(metas[0], x.layer)
    if set(after) == {1} and "avg" in c.name:
        return reduce(t, x, range(len(x.shape) - dims, len(x.shape)), metas[0])
    if "max" in c.name:
        x = t.live(_Meta(x), t.each(x, "input"))
    source = t.as_shape(x, [planes] + before)
    if "upsample" in c.name and all(a % b == 0 for a, b in zip(after, before)):
        name = t.emit("upsample", [source], [planes] + after, factor=[a // b for a, b in zip(after, before)])
    else:
        name = t.emit("adaptive-pool", [source], [planes] + after, size=after)
    out = t.live(metas[0], name)
    return [out] + [Value(CONST, m) for m in metas[1:]] if isinstance(c.meta, (list, tuple)) else out


@operators("pad", "constant_pad_nd", "reflection_pad2d", "replication_pad2d", "reflection_pad1d", "replication_pad1d")
def pad(t, c):
    x = t.materialised(c.self)
    before, after = list(x.shape), [int(d) for d in c.meta.shape]
    wider = [(a - b) for a, b in zip(after, before)]
    if all(n == 0 for n in wider):
        return t.live(c.meta, t.copy(x))
    changed = [d for d, n in enumerate(wider) if n]
    if all(n >= 0 and n % 2 == 0 for n in wider) and changed[0] > 0:
        first = changed[0]
        source = t.as_shape(x, [math.prod(before[:first])] + before[first:])
        return t.live(c.meta, t.emit("pad", [source], [math.prod(before[:first])] + after[first:], amount=[n // 2 for n in wider[first:]]))
    value = x
    for d in changed:
        shape = list(value.shape)
        if wider[d] < 0:
            shape[d] = after[d]
            value = cut(t, value, d, 0, after[d], _Meta(value, shape))
            continue
        shape[d] = wider[d]
        size = math.prod(shape)
        more = Value(LIVE, _Meta(value, shape), t.filler(value, size))
        shape[d] = after[d]
        meta = _Meta(value, shape)
        value = concat(t, _Call("cat", {"tensors": [value, more], "dim": d}, meta))
    return t.live(c.meta, value.layer)


@operators("roll")
def roll(t, c):
    x = t.materialised(c.self)
    dims = c.dims if isinstance(c.dims, (list, tuple)) else [c.dims]
    for d, by in zip(dims or [0], pairs(c.shifts, 1)):
        outer, n, inner = math.prod(x.shape[:d % len(x.shape)]), x.shape[d], math.prod(x.shape[d % len(x.shape):]) // x.shape[d]
        source = t.as_shape(x, [outer, n, inner])
        x = t.live(c.meta, t.emit("roll", [source], [outer, n, inner], axis=1, by=by % n or None))
    return x


@operators("index", "gather", "index_select", "take_along_dim", "unfold", "im2col", "repeat", "repeat_interleave", "as_strided", "masked_select", "tile",
           "pixel_shuffle", "pixel_unshuffle", "scatter", "scatter_add", "index_put", "index_add", "index_copy", "topk", "sort",
           "masked_scatter", "slice_scatter", "select_scatter", "channel_shuffle", "diagonal", "rot90", "fold", "col2im", "scatter_reduce", "to_dense")
def moved(t, c):
    """Elements at other places, fewer or more of them: a copy."""
    metas = tensors(c.meta)
    values = [v for v in flat(list(c.bound.values())) if v.kind == LIVE and v.floating]
    x = t.materialised(values[0])
    size = math.prod(metas[0].shape)
    if size == 0:
        t.refuse("gives an empty tensor")
    if size == x.numel:
        name = t.copy(x)
    elif size > x.numel and size % x.numel == 0:
        name = t.emit("upsample", [t.as_shape(x, [1, x.numel, 1])], [1, x.numel, size // x.numel], factor=[1, size // x.numel])
    else:
        name = t.filler(x, size)
        name = t.emit("elementwise", [name], t.dims[name], flops=0)
    out = t.live(metas[0], name)
    learned = [p for v in flat(list(c.bound.values())) if v.kind == PARAM for p in v.params]
    out = t.live(metas[0], t.with_weights(out, learned).layer) if learned else out
    return [out] + [Value(CONST, m, sources=("?",)) for m in metas[1:]] if isinstance(c.meta, (list, tuple)) else out


@operators("embedding")
def embedding(t, c):
    w, ids = c.weight, c.indices
    width, tokens = w.shape[-1], ids.numel
    source = next((s for s in ids.sources if math.prod(t.inputs.get(s, [0])) == tokens), None)
    if source is None:
        source = "indices"
        while source in t.inputs and math.prod(t.inputs[source]) != tokens:
            source += "2"
        t.inputs[source] = t.dims[source] = [tokens]
    if t.dims[source] != [tokens]:
        source = t.as_shape(Value(LIVE, _Meta(ids), source), [tokens])
    attributes = t.own(w.params, w.numel)
    t.tables.setdefault(w.params[:1], (w.shape[0], width))
    return t.live(c.meta, t.emit("embedding", [source], [tokens, width], vocabulary=w.shape[0], width=width, **attributes))


@operators("lstm", "gru", "rnn_tanh", "rnn_relu")
def recurrent(t, c):
    x = t.materialised(c.input if c.input is not None else c.data)
    gates = {"lstm": 4, "gru": 3}.get(c.name, 1)
    params = [v for v in flat(c.params)]
    metas = tensors(c.meta)
    directions = 2 if c.bidirectional else 1
    hidden, features = params[1].shape[-1], x.shape[-1]
    steps = x.numel // features
    source = t.as_shape(x, [steps, features])
    count, width = 0, features
    for _ in range(c.num_layers):
        count += directions * gates * hidden * (width + hidden + (2 if c.has_biases else 0))
        width = hidden * directions
    for v in params:
        t.own(v.params, v.numel)
    if count != sum(v.numel for v in params):
        t.refuse("projects its state")
    name = t.emit(c.name if gates > 1 else "rnn", [source], [steps, width], hidden=hidden, layers=c.num_layers if c.num_layers > 1 else None,
                  bidirectional=True if c.bidirectional else None, bias=None if c.has_biases else False)
    out = [t.live(metas[0], name)]
    last = out[0]
    for m in metas[1:]:
        out.append(t.live(m, t.filler(last, math.prod(m.shape))))
    return out


# ---- losses

@operators("cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss2d", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
           "binary_cross_entropy_with_logits", "binary_cross_entropy", "kl_div")
def loss(t, c):
    x = t.materialised(c.self if c.self is not None else c.input)
    if c.name == "cross_entropy_loss":
        classes = x.shape[1] if len(x.shape) > 1 else x.shape[0]
        source = t.as_shape(x, [x.numel // classes, classes])
        name = t.emit("cross-entropy", [source], [])
    elif c.name.startswith("nll"):
        name = t.emit("mean", [t.as_shape(x, [x.numel])], [], axis=0)
    else:
        name = t.emit("mse", [x], [])
    t.losses.append(name)
    return t.live(tensors(c.meta)[0], name)
