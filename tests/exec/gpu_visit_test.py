# SPDX-License-Identifier: Apache-2.0
"""What a visit to a GPU takes for sound, and what not."""
import pathlib
import subprocess
import sys
import types
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "calibration"))
import gpu_visit  # noqa: E402

GOOD = """[==========] Running 2 tests from 1 test suite.
[ RUN      ] A.one
[       OK ] A.one (3 ms)
[ RUN      ] Layers/B.two/norm_1
[       OK ] Layers/B.two/norm_1 (4 ms)
[  PASSED  ] 2 tests.
"""
BAD = """[ RUN      ] A.one
[  SKIPPED ] A.one (0 ms)
[ RUN      ] A.two
[  FAILED  ] A.two, where GetParam() = 3 (5 ms)
[ RUN      ] A.three
[  FAILED  ] 1 test, listed below:
"""


class Judged(unittest.TestCase):
    def problems(self, text, code):
        return gpu_visit.problems({"case": {"exit": code, **gpu_visit.parse_tests(text)}}, "stage")

    def test_a_good_run_is_sound(self):
        self.assertEqual(self.problems(GOOD, 0), [])

    def test_an_exit_code_is_a_problem(self):
        self.assertEqual(self.problems(GOOD, 1), ["stage case: exit code 1"])
        self.assertEqual(self.problems(GOOD, None), ["stage case: out of time"])

    def test_no_test_is_a_problem(self):
        self.assertEqual(self.problems("", 0), ["stage case: no test ran"])

    def test_what_did_not_pass_is_named(self):
        found = gpu_visit.parse_tests(BAD)
        self.assertEqual((found["skipped"], found["failed"], found["unfinished"]), (["A.one"], ["A.two"], ["A.three"]))
        self.assertEqual(len(self.problems(BAD, 0)), 3)

    def test_words_within_results_are_none(self):
        self.assertEqual(gpu_visit.problems({"exit": 0, "result": {"problem": "a model's"}}), [])


class Cut(unittest.TestCase):
    def test_a_program_out_of_time_leaves_what_it_printed(self):
        words = [sys.executable, "-uc", "import time; print('begun'); time.sleep(60)"]
        child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        import time
        code, text, _ = gpu_visit.Visit.end_of(types.SimpleNamespace(), child, time.monotonic() + 2)
        self.assertIsNone(code)
        self.assertEqual(text, "begun\n")

    def test_every_stage_is_in_one_call(self):
        stages = [name for call in gpu_visit.CALLS.values() for name in call if name != "doctor"]
        self.assertEqual(len(stages), len(set(stages)))


if __name__ == "__main__":
    unittest.main()
