# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/python.md print what it says."""

import doctest
import os
import pathlib
import tempfile
import unittest

PAGE = pathlib.Path(os.environ["TANDEM_ROOT"]) / "docs/python.md"


class Page(unittest.TestCase):
    def test_prints_what_it_says(self):
        with tempfile.TemporaryDirectory() as folder:
            failed, tried = doctest.testfile(str(PAGE), module_relative=False, globs={"folder": folder})
        self.assertGreater(tried, 10)
        self.assertEqual(failed, 0)


if __name__ == "__main__":
    unittest.main()
