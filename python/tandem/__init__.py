# SPDX-License-Identifier: Apache-2.0
"""Predicts how fast a model trains on a machine, how stale its gradients are and how much memory each device needs.

All of it is tandem._tandem, which is C++; docs/python.md has examples.
"""

from ._tandem import *  # noqa: F403
from ._tandem import Model, __version__


def _from_torch(module, example=(), kwargs=None, *, name=None, loss=None):
    """The Model of a torch.nn.Module: see tandem._torch.document, and docs/from-torch.md."""
    from ._torch import from_torch

    return from_torch(module, example, kwargs, name=name, loss=loss)


Model.from_torch = staticmethod(_from_torch)


def __getattr__(name):
    """record, which needs PyTorch only when it is called."""
    if name == "record":
        from ._record import record

        return record
    raise AttributeError(f"module 'tandem' has no attribute {name!r}")
