# SPDX-License-Identifier: Apache-2.0
"""python -m tandem.record SCRIPT: records the training step of a script. See tandem.record."""
import sys

from ._record import main, record

__all__ = ["record"]

if __name__ == "__main__":
    sys.exit(main())
