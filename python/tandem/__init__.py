# SPDX-License-Identifier: Apache-2.0
"""Predicts how fast a model trains on a machine, how stale its gradients are and how much memory each device needs.

All of it is tandem._tandem, which is C++; docs/python.md has examples.
"""

from ._tandem import *  # noqa: F403
from ._tandem import __version__
