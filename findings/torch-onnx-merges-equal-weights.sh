#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch 2.15.0, torch.onnx.export: two layer norms that were just made share one scale and one bias in the file.
# Expected: as many parameters in the file as in the module.
# Seen (2026-11-30): 8,448 of 8,576, since the exporter merges initializers that are equal; 8,576 with optimize=False, or
# once the weights differ. Who counts parameters of an exported model that was never trained counts too few.
# Installs torch, onnx and onnxscript in a temporary folder (some gigabytes); fails when the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 onnx==1.23.2 onnxscript==0.7.2
cat >"$folder/export.py" <<'PYTHON'
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.one = torch.nn.LayerNorm(64), torch.nn.Linear(64, 64)
        self.second, self.other = torch.nn.LayerNorm(64), torch.nn.Linear(64, 64)

    def forward(self, x):
        return self.other(self.second(self.one(self.first(x))))


def in_file(**how):
    program = torch.onnx.export(net, (torch.randn(2, 64),), dynamo=True, verbose=False, **how)
    return sum(value.const_value.size for value in program.model.graph.initializers.values())


net = Net().eval()
seen = {"module": sum(p.numel() for p in net.parameters()), "default": in_file(), "optimize=False": in_file(optimize=False)}
with torch.no_grad():
    for parameter in net.parameters():
        parameter.normal_()
seen["default, other weights"] = in_file()
print(seen)
assert seen == {"module": 8576, "default": 8448, "optimize=False": 8576, "default, other weights": 8576}, seen
PYTHON
"$folder/venv/bin/python" "$folder/export.py" 2>/dev/null
