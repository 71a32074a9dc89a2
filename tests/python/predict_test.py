# SPDX-License-Identifier: Apache-2.0
"""The package beside the command line: the same bytes, the same words where something is wrong, from any thread."""

import collections.abc
import concurrent.futures
import json
import os
import pathlib
import pickle
import subprocess
import sys
import unittest

import tandem

PROGRAM = os.environ["TANDEM_BINARY"]
ROOT = pathlib.Path(os.environ["TANDEM_ROOT"])
QUESTIONS = json.loads((ROOT / "tests/golden/questions.json").read_text())["questions"]
SMALL = {"model": "lenet5", "system": "dgx1-v100", "devices": [1, 2], "reproducible": True}


def keywords(question):
    return {name.replace("-", "_"): value for name, value in question.items()}


def command(verb, question, *words):
    flags = []
    for name, value in question.items():
        flags += ["--" + name] if value is True else ["--" + name, str(value)]
    return subprocess.run([PROGRAM, verb, *words, *flags, "--format", "json", "--quiet"], capture_output=True, text=True)


class Bytes(unittest.TestCase):
    def test_of_golden_questions_are_the_command_lines(self):
        self.assertGreater(len(QUESTIONS), 10)
        for question in QUESTIONS:
            with self.subTest(question=question):
                asked = question | {"reproducible": True}
                self.assertEqual(tandem.predict(**keywords(asked)).json(), command("predict", asked).stdout)

    def test_without_timeline(self):
        asked = QUESTIONS[1] | {"reproducible": True, "no-timeline": True}
        self.assertEqual(tandem.predict(**keywords(asked)).json(), command("predict", asked).stdout)

    def test_of_a_question_by_any_road(self):
        expected = tandem.predict(**SMALL).json()
        question = tandem.Question(**{k: v for k, v in SMALL.items() if k != "reproducible"})
        again = [question, json.loads(question.json()), question.json(), tandem.predict(**SMALL), pickle.loads(pickle.dumps(question))]
        for one in again:
            self.assertEqual(tandem.predict(one, reproducible=True).json(), expected)
        self.assertEqual(tandem.predict(question, batch=64, reproducible=True).json(), tandem.predict(**SMALL, batch=64).json())
        self.assertEqual(question.replace(batch=64), tandem.Question.from_json(tandem.predict(**SMALL, batch="64").json()))
        self.assertNotEqual(question.replace(batch=64), question)
        self.assertEqual(hash(question.replace(batch=32)), hash(question))
        self.assertEqual(question.devices, [1, 2])

    def test_of_values_of_other_types(self):
        expected = tandem.predict(**SMALL).json()
        self.assertEqual(tandem.predict(**SMALL | {"model": tandem.Model("lenet5"), "system": tandem.System("dgx1-v100"), "devices": range(1, 3), "batch": 32.0}).json(), expected)
        self.assertEqual(tandem.predict(**SMALL, scheme=None).json(), expected)
        self.assertEqual(tandem.predict(**SMALL, staged=False).json(), expected)
        self.assertEqual(
            tandem.predict(**SMALL, with_=["2 lenet5 allreduce 16"], set=["nodes=2"]).json(),
            command("predict", {"model": "lenet5", "system": "dgx1-v100", "devices": "1,2", "reproducible": True, "with": "2 lenet5 allreduce 16", "set": "nodes=2"}).stdout,
        )

    def test_of_threads_are_those_of_one(self):
        expected = [tandem.predict(**SMALL | {"batch": 1 + n}).json() for n in range(16)]
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            got = list(threads.map(lambda n: tandem.predict(**SMALL | {"batch": 1 + n % 16}).json(), range(64)))
        self.assertEqual(got, expected * 4)

    def test_of_a_file_are_of_what_it_holds_now(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "machine.json"
            rates = []
            for name in ("dgx1-v100", "dgx-a100"):
                file.write_text(tandem.System(name).json())
                rates.append(tandem.predict(**SMALL | {"model": "resnet50", "system": file})["reports"][0]["samples_per_second"])
            self.assertNotEqual(rates[0], rates[1])


class Reports(unittest.TestCase):
    def test_are_mappings(self):
        report = tandem.predict(**SMALL)
        self.assertIsInstance(report, collections.abc.Mapping)
        self.assertEqual(dict(report), json.loads(report.json()))
        self.assertEqual(list(report), ["schema", "reports"])
        self.assertEqual(report["reports"][1]["devices"], 2)
        self.assertIn("schema", report)
        self.assertIsNone(report.get("nothing"))
        with self.assertRaises(KeyError):
            report["nothing"]
        self.assertEqual(pickle.loads(pickle.dumps(report)).json(), report.json())

    def test_have_a_table(self):
        html = tandem.predict(**SMALL)._repr_html_()
        self.assertEqual(html.count("<tr>"), 3)
        self.assertIn("<th>samples/s</th>", html)

    def test_are_frames_where_pandas_is(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        frame = tandem.predict(**SMALL).to_frame()
        self.assertEqual(list(frame["devices"]), [1, 2])
        self.assertGreater(frame["samples_per_second_interval.high"][0], frame["samples_per_second"][0])

    def test_have_less_where_less_is_asked(self):
        rate, full = (tandem.predict(**SMALL, depth=depth)["reports"][1] for depth in ("rate", "full"))
        self.assertTrue(full["timeline"])
        self.assertFalse(rate.get("timeline"))
        self.assertEqual(rate["samples_per_second"], full["samples_per_second"])
        self.assertNotIn("elasticity", rate["bottleneck"])
        self.assertIn("elasticity", full["bottleneck"])

    def test_say_what_does_not_fit(self):
        report = tandem.predict(model="llama2-7b", system="5090-2x", devices=2)["reports"][0]
        self.assertIs(report["fits"], False)
        self.assertGreater(report["needs_bytes"], report["memory_bytes_per_device"]["capacity"])


class Errors(unittest.TestCase):
    def same_text(self, kind, **question):
        with self.assertRaises(kind) as caught:
            tandem.predict(**question)
        flags = {name.rstrip("_").replace("_", "-"): value for name, value in question.items()}
        said = command("predict", flags)
        self.assertEqual(said.returncode, 2 if kind is tandem.UsageError else 3)
        self.assertEqual("tandem: " + str(caught.exception) + "\n", said.stderr)
        return caught.exception

    def test_have_the_text_of_the_command_line(self):
        wrong = self.same_text(tandem.InputError, model="vgg17", system="dgx1-v100")
        self.assertIn("Did you mean vgg16", str(wrong))
        self.same_text(tandem.InputError, model="vgg16", system="dgx1-v100", scheme="pytorch-dpp")
        self.same_text(tandem.InputError, model="vgg16", system="dgx1-v100", devices=9)
        self.same_text(tandem.UsageError, model="vgg16", system="dgx1-v100", batch="many")
        self.same_text(tandem.UsageError, model="vgg16", system="dgx1-v100", devices="1,1")
        self.same_text(tandem.UsageError, model="vgg16")
        self.same_text(tandem.UsageError, system="dgx1-v100")

    def test_have_a_place(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "q.json"
            file.write_text('{"schema": "tandem-question-1",\n "model": "vgg17", "system": "dgx1-v100"}')
            wrong = self.same_text(tandem.InputError, question=file)
            self.assertEqual((wrong.file, wrong.line, wrong.column), (str(file), 2, 11))
        self.assertIsNone(self.same_text(tandem.InputError, model="vgg17", system="dgx1-v100").line)

    def test_name_the_nearest_option(self):
        with self.assertRaisesRegex(tandem.UsageError, r'tandem.predict has no option "modle". Did you mean model'):
            tandem.predict(modle="vgg16")
        with self.assertRaisesRegex(tandem.UsageError, "no_timeline"):
            tandem.predict(no_time_line=True)

    def test_tell_types(self):
        for wrong in ({"staged": 1}, {"model": ["a", "b"]}, {"batch": b"1"}, {"batch": True}, {"devices": []}, {"batch": object()}):
            with self.assertRaises(tandem.UsageError):
                tandem.predict(**SMALL | wrong)
        with self.assertRaises(tandem.UsageError):
            tandem.predict("{}", "{}")
        with self.assertRaises(tandem.InputError):
            tandem.predict("{}")

    def test_are_value_errors(self):
        self.assertTrue(issubclass(tandem.InputError, ValueError))
        self.assertTrue(issubclass(tandem.UsageError, ValueError))
        with self.assertRaises(tandem.InputError):
            tandem.Model("vgg17")
        with self.assertRaises(tandem.InputError):
            tandem.System({"schema": "tandem-system-1"})


class Values(unittest.TestCase):
    def test_models_tell_their_size(self):
        model = tandem.Model("vgg16")
        self.assertEqual(model.parameters, 138357544)  # torchvision
        self.assertGreater(model.forward_flops, 30e9)

    def test_systems_can_be_changed(self):
        self.assertEqual(tandem.System("dgx1-v100", set=["nodes=2"]).devices, 16)
        self.assertEqual(tandem.System(tandem.System("dgx1-v100").to_dict()).devices, 8)


class Documentation(unittest.TestCase):
    def test_has_every_option_of_the_command_line(self):
        schema = json.loads(subprocess.run([PROGRAM, "help", "--format", "schema"], capture_output=True, text=True).stdout)
        stub = (pathlib.Path(tandem.__file__).parent / "_tandem.pyi").read_text()
        for name, option in schema["properties"].items():
            if name == "schema":
                continue
            keyword = {"with": "with_"}.get(name, name.replace("-", "_"))
            self.assertIn(f"    {keyword} (", tandem.predict.__doc__)
            self.assertIn(option["description"], tandem.predict.__doc__)
            self.assertIn(f" {keyword}: ", stub)
        self.assertTrue((pathlib.Path(tandem.__file__).parent / "py.typed").exists())


if __name__ == "__main__":
    unittest.main()
