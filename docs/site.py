#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the documents as a web site with a search: python3 docs/site.py --out site

Needs MkDocs 1.6 (pip install mkdocs). The pages are the files of this repository as they are; a link that leads
nowhere ends the build with exit code 1.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")
PAGES = [
    ("Start", ["README.md", "docs/questions.md", "docs/glossary.md"]),
    ("Notebooks", ["notebooks"]),
    ("Answers", ["docs/plan.md", "docs/sweep.md", "docs/page.md", "docs/boards.md", "docs/progress.md", "docs/stories"]),
    ("Running", ["docs/running.md", "docs/executor.md", "docs/gpu.md", "docs/own-device.md"]),
    ("How it predicts", ["docs/simulator.md", "docs/schemes.md", "schemes/semantics.md"]),
    ("How true it is", ["VALIDATION.md", "docs/accuracy.md", "docs/conformance.md", "docs/validation"]),
    ("Files", ["docs/formats", "docs/exit-codes.md"]),
    ("Code", ["ARCHITECTURE.md", "docs/reading.md", "docs/library.md", "docs/testing.md", "CONTRIBUTING.md", "CHANGELOG.md"]),
]


PAGE = (".md", ".ipynb")


def page_of(name):
    return name.removesuffix(".ipynb") + ".md" if name.endswith(".ipynb") else name


def tracked():
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], check=True, capture_output=True, text=True)
    return set(listed.stdout.split("\n")) - {""}


class Site:
    """Copies pages with what they link to; a folder becomes a page that lists its files."""

    def __init__(self, to):
        self.files, self.to, self.copied = tracked(), to, set()

    def put(self, name, text):
        (self.to / name).parent.mkdir(parents=True, exist_ok=True)
        (self.to / name).write_text(text, encoding="utf-8")

    def page(self, name):
        if name in self.copied:
            return
        self.copied.add(name)
        text = self.text(name)
        text = re.sub(r"^```(\w+) .*$", r"```\1", text, flags=re.M)  # what a fence says further is for our tests
        self.put(page_of(name), LINK.sub(lambda match: self.link(name, match), text))

    def text(self, name):
        """Of a notebook its cells, which have no outputs."""
        text = (ROOT / name).read_text(encoding="utf-8")
        if not name.endswith(".ipynb"):
            return text
        cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
        return "\n\n".join(words if kind == "markdown" else f"```python\n{words}\n```" for kind, words in cells) + "\n"

    def link(self, page, match):
        link, place = match.group(1), match.group(2) or ""
        target = (ROOT / page).parent.joinpath(link).resolve()
        if re.match(r"[a-z]+:", link) or not target.is_relative_to(ROOT):
            return match.group(0)
        name = target.relative_to(ROOT).as_posix()
        if target.is_dir():
            return f"]({link.rstrip('/')}/{self.folder(name)})"
        if name.endswith(PAGE) and name in self.files:
            self.page(name)
            link = page_of(link)
        elif name in self.files:
            (self.to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, self.to / name)
        return f"]({link}{place})"

    def folder(self, name):
        if name + "/README.md" in self.files:
            self.page(name + "/README.md")
            return "README.md"
        inside = sorted({f[len(name) + 1:].split("/")[0] for f in self.files if f.startswith(name + "/")})
        self.put(name + "/index.md", f"# {name}\n\n" + "".join(f"- {one}\n" for one in inside))
        return "index.md"

    def chapter(self, name):
        """The pages of a folder, or the one page."""
        pages = [name] if name.endswith(PAGE) else sorted(
            f for f in self.files if f.startswith(name + "/") and f.endswith(PAGE))
        for page in pages:
            self.page(page)
        return [page_of(page) for page in pages]


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--out", default="site", help="folder of the site; default site")
    out = pathlib.Path(options.parse_args().out).resolve()
    with tempfile.TemporaryDirectory() as folder:
        site = Site(pathlib.Path(folder) / "pages")
        nav = "".join(f"  - {title}:\n" + "".join(f"      - {page}\n" for one in pages for page in site.chapter(one))
                      for title, pages in PAGES)
        config = pathlib.Path(folder) / "mkdocs.yml"
        config.write_text("site_name: Tandem\ntheme: readthedocs\ndocs_dir: pages\nuse_directory_urls: false\n"
                          "not_in_nav: '**/*.md'\nvalidation: {links: {anchors: warn, not_found: warn}}\nnav:\n" + nav)
        return subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(out)]
                              ).returncode


if __name__ == "__main__":
    sys.exit(main())
