# SPDX-License-Identifier: Apache-2.0
"""What a PyTorch module becomes: layers, shared and unused weights, repeated blocks, refusals. Without torch these are skipped."""

import importlib.util
import os
import sys
import unittest

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python/tandem")
HAVE = importlib.util.find_spec("torch") is not None

if HAVE:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    package = importlib.util.module_from_spec(importlib.machinery.ModuleSpec("tandem_reader", None, is_package=True))
    package.__path__ = [FOLDER]
    sys.modules["tandem_reader"] = package
    reader = importlib.import_module("tandem_reader._torch")

    class Block(nn.Module):
        def __init__(self, width=32, heads=4):
            super().__init__()
            self.heads = heads
            self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width, bias=False)

        def forward(self, x):
            batch, time, width = x.shape
            q, k, v = (y.view(batch, time, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return x + self.out(y.transpose(1, 2).reshape(batch, time, width))

    class Decoder(nn.Module):
        def __init__(self, width=32, words=100, length=16):
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList(Block(width) for _ in range(3))
            self.head = nn.Linear(width, words, bias=False)
            self.head.weight = self.words.weight

        def forward(self, tokens, targets):
            x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            x = self.head(x)
            return F.cross_entropy(x.view(-1, x.shape[-1]), targets.view(-1))


def types(document):
    return [layer.get("type", "group") for layer in document["layers"]]


@unittest.skipUnless(HAVE, "torch is not installed")
class FromTorch(unittest.TestCase):
    def test_a_decoder_is_an_embedding_equal_blocks_and_a_tied_output(self):
        words = torch.zeros(2, 16, dtype=torch.long)
        document = reader.document(Decoder(), (words, words))
        self.assertEqual(types(document), ["embedding", "position-embedding", "group", "tied-linear", "cross-entropy"])
        self.assertEqual(document["inputs"], {"tokens": [16]})
        self.assertEqual(document["sample"]["stored"], "128B")
        block = document["layers"][2]
        self.assertEqual(block["repeat"], 3)
        self.assertEqual([layer["type"] for layer in block["layers"]],
                         ["layer-norm", "linear", "slice", "slice", "slice", "attention", "linear", "add"])
        self.assertEqual(block["layers"][5]["heads"], 4)
        self.assertTrue(block["layers"][5]["causal"])
        self.assertEqual(block["layers"][6]["bias"], False)

    def test_one_sample_is_read_whatever_the_batch(self):
        net = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
                            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
        one, many = (reader.document(net, torch.zeros(n, 3, 32, 32), loss="cross-entropy") for n in (1, 5))
        self.assertEqual(one, many)
        self.assertEqual((one["sample"]["stored"], one["sample"]["decoded"]), ("0B", "12288B"))  # how it is stored is not known
        self.assertEqual(types(one)[:3], ["group"] * 3)
        self.assertEqual([e["type"] for g in one["layers"] for e in g.get("layers", [g])],
                         ["conv", "batch-norm", "relu", "global-pool", "linear", "cross-entropy"])
        conv = one["layers"][0]["layers"][0]
        self.assertEqual((conv["filters"], conv["kernel"], conv["stride"], conv["pad"]), (8, 3, 2, 1))

    def test_the_module_stays_as_it_was(self):
        net = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 4)).eval()
        document = reader.document(net, torch.zeros(2, 4))
        self.assertFalse(any(part.training for part in net.modules()))
        self.assertIn("dropout", str(document))

    def test_unused_and_frozen_parameters_are_held(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.used, self.other, self.still = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 8)
                self.still.requires_grad_(False)

            def forward(self, x):
                return self.still(torch.tanh(self.used(x)))
        document = reader.document(Net(), torch.zeros(2, 8))
        last = document["layers"][-1]
        self.assertEqual((last["type"], last["elements"]), ("weights", 27))
        self.assertIn("27 of its parameters take no part", document["summary"])
        self.assertTrue(document["layers"][-2]["frozen"])

    def test_a_copy_is_told_from_a_view(self):
        class Net(nn.Module):
            def forward(self, x):
                return (x.transpose(1, 2).reshape(x.shape[0], -1) if self.copies else x.reshape(x.shape[0], -1)).exp()
        for copies in (False, True):
            net = Net()
            net.copies, net.weight = copies, nn.Parameter(torch.zeros(1))
            steps = [e for e in reader.document(net, torch.zeros(2, 4, 6))["layers"] if e["type"] == "elementwise"]
            self.assertEqual([e.get("flops") for e in steps], [0, 4] if copies else [4])

    def test_rows_that_no_strides_give_are_copied(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.mix = nn.Linear(4, 4)

            def forward(self, x):  # of one sample these rows are a view, of several they are not
                return self.mix(x.exp().permute(0, 2, 3, 1))
        self.assertEqual(types(reader.document(Net(), torch.zeros(2, 4, 6, 6)))[:2], ["elementwise", "elementwise"])

    def test_a_bias_of_several_parameters_is_counted_once(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight, self.q, self.v = (nn.Parameter(torch.zeros(s)) for s in ((12, 4), (4,), (4,)))

            def forward(self, x):
                return F.linear(x, self.weight, torch.cat((self.q, torch.zeros(4), self.v)))
        linear, beside = reader.document(Net(), torch.zeros(2, 3, 4))["layers"]
        self.assertIs(linear["bias"], False)
        self.assertEqual((beside["type"], beside["elements"]), ("weights", 8))

    def test_attention_of_windows_has_no_kernel(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv = nn.Linear(8, 24)

            def forward(self, x):  # batch, windows, places, width
                q, k, v = self.qkv(x).unsqueeze(1).chunk(3, -1)
                return F.scaled_dot_product_attention(q, k, v)
        kinds = types(reader.document(Net(), torch.zeros(2, 3, 5, 8)))
        self.assertEqual([k for k in kinds if k in ("attention", "matmul", "softmax")], ["matmul", "softmax", "matmul"])

    def test_a_single_value_is_normalised(self):
        net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.assertIn("batch-norm", str(reader.document(net, torch.zeros(2, 4))))

    def test_what_has_no_layer_is_refused_by_path_and_operator(self):
        class Inner(nn.Module):
            def forward(self, x):
                return torch.linalg.inv(x)

        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.deep = nn.Linear(4, 4), nn.ModuleDict({"inner": Inner()})

            def forward(self, x):
                return self.deep["inner"](self.first(x))
        with self.assertRaises(reader.UnknownOperator) as caught:
            reader.document(Outer(), torch.zeros(2, 4, 4))
        self.assertIn('"deep.inner": the operator aten.linalg_inv', str(caught.exception))

    def test_nothing_to_learn_from_is_refused(self):
        class Net(nn.Module):
            def forward(self, x):
                return x.argmax(-1)
        with self.assertRaisesRegex(reader.UnknownOperator, "returns nothing that depends on its input"):
            reader.document(Net(), torch.zeros(2, 4))


if __name__ == "__main__":
    unittest.main()
