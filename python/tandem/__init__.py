# SPDX-License-Identifier: Apache-2.0
"""Predicts how fast a model trains on a machine, how stale its gradients are and how much memory each device needs.

All of it is tandem._tandem, which is C++; docs/python.md has examples.
"""

from ._tandem import *  # noqa: F403
from ._tandem import __version__


def __getattr__(name):
    """record, which needs PyTorch only when it is called."""
    if name == "record":
        from ._record import record

        return record
    raise AttributeError(f"module 'tandem' has no attribute {name!r}")
