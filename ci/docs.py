"""Builds the documentation: ``bash ci/docs.sh``.

The Markdown files of the repository keep their places; a copy of them is what Sphinx reads. A link from one to another becomes a link
between pages, a link to a source file a page that shows it, and a public name in prose leads to its reference. Every warning is an error,
and afterwards every internal link of the finished site is followed.
"""

from __future__ import annotations

import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from docs_api import MODULES, Reference, page_name

import gradlib

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "docs"

TREE = {
    "Guide": {
        "gradlib/docs/start.md": "Start in five minutes",
        "gradlib/docs/from_torch.md": "For people who know torch",
        "gradlib/docs/from_numpy.md": "For people who know NumPy, CuPy or HIPS autograd",
        "gradlib/docs/with_torch.md": "In a torch model",
        "gradlib/docs/with_jax.md": "In a JAX program",
        "gradlib/docs/array_api.md": "Code written for the array API standard",
        "gradlib/docs/with_scipy.md": "With SciPy's solvers",
        "gradlib/docs/functions.md": "Functions of your own",
        "gradlib/docs/cuda.md": "CUDA: devices, streams, memory",
        "gradlib/docs/kernels.md": "CUDA kernels of your own",
        "gradlib/docs/distributed.md": "Gradients across processes",
        "gradlib/docs/trajectories.md": "Trajectories",
        "gradlib/docs/scale.md": "Beyond one machine",
        "gradlib/autograd/profiler/README.md": "Profiling",
        "gradlib/docs/engine.md": "How the engine works",
        "gradlib/docs/operations.md": "How to add an operation",
        "gradlib/docs/glossary.md": "Glossary",
    },
    "Packages": {
        "gradlib/backend/README.md": "backend: NumPy, CuPy and small kernels",
        "gradlib/core/README.md": "core: the tape",
        "gradlib/autograd/README.md": "autograd: torch's entries",
        "gradlib/ops/README.md": "ops: the operations",
        "gradlib/func/README.md": "func: vmap and transforms",
        "gradlib/cuda/README.md": "cuda: kernels and graphs",
        "gradlib/trajectory/README.md": "trajectory: the integrators",
        "gradlib/testing/hostcuda/README.md": "hostcuda: a driver on the CPU",
        "gradlib/testing/hostcuda/LIBRARIES.md": "hostcuda: CUDA's libraries",
        "benchmarks/README.md": "Benchmarks",
    },
    "Project": {"CONTRIBUTING.md": "Contributing", "CHANGELOG.md": "Changelog"},
}
"""The site's contents: headings, and the files beneath each with their short titles. Further READMEs of packages follow of themselves."""

STYLE = """\
@media (min-width: 82em) { .content { width: min(58em, max(46em, 100vw - 37em)); } }
@media (max-width: 46em) { td code, li code, p code { overflow-wrap: anywhere; } td { padding-inline: 0.3rem; } }
dl.field-list { display: grid; grid-template-columns: 6rem minmax(0, 1fr); margin-block: 0.3rem; }
@media (max-width: 46em) { dl.field-list { grid-template-columns: minmax(0, 1fr); } }
dl.field-list > dd { margin: 0; }
dl.field-list > dd > ul { margin-top: 0; }
dl.field-list p { margin-block: 0; }
div.highlight-text .highlight { background: none; border-left: 0.2rem solid var(--color-background-border); border-radius: 0; }
.highlight .nn { text-decoration: none !important; }
"""


SETTINGS = {
    "project": "gradlib",
    "version": gradlib.__version__,
    "extensions": ["myst_parser"],
    "myst_enable_extensions": ["colon_fence", "fieldlist"],
    "myst_heading_anchors": 4,
    "html_theme": "furo",
    "html_title": f"gradlib {gradlib.__version__}",
    "html_copy_source": False,
    "html_show_copyright": False,
    "html_static_path": [str(BUILD / "stage" / "_static")],
    "html_css_files": ["site.css"],
    "highlight_language": "none",
    "python_maximum_signature_line_length": 110,
    "python_use_unqualified_type_names": True,
    "toc_object_entries": False,
}

LINK = re.compile(r"(?<!\!)\]\((?!https?:|mailto:)([^)\s#]*)(#[^)\s]*)?\)")


class Stage:
    """The folder that Sphinx reads, laid out as the repository is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.faults: list[str] = []
        self.pages = [ROOT / "README.md", *(ROOT / name for names in tree().values() for name in names)]
        self.sources: set[Path] = set()

    def place(self, path: Path) -> Path:
        """Where a file of the repository stands in the stage."""
        if path == ROOT / "README.md":
            return self.folder / "index.md"
        relative = path.relative_to(ROOT)
        return self.folder / relative if path in self.pages else self.folder / "source" / f"{relative}.md"

    def fill(self) -> None:
        (self.folder / "_static").mkdir(parents=True)
        (self.folder / "_static" / "site.css").write_text(STYLE, encoding="utf-8")
        reference = Reference()
        for page in self.pages:
            text = reference.linked(self.relinked(page, page.read_text(encoding="utf-8")))
            self.write(page, text + (contents() if page == self.pages[0] else ""))
        for source in sorted(self.sources):
            language = {".py": "python", ".cu": "c++", ".cuh": "c++", ".sh": "bash"}.get(source.suffix, "none")
            code = source.read_text(encoding="utf-8")
            self.write(source, f"---\norphan: true\n---\n# {source.relative_to(ROOT)}\n\n````{{code-block}} {language}\n{code}\n````\n")
        for name, text in reference.pages():
            path = self.folder / "api" / f"{name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")

    def write(self, path: Path, text: str) -> None:
        place = self.place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    def relinked(self, page: Path, text: str) -> str:
        """The text of a page with its links as they are in the stage."""

        def replaced(found: re.Match[str]) -> str:
            if not found[1]:
                return found[0]
            target = (page.parent / found[1]).resolve()
            if not target.is_file():
                self.faults.append(f"{page.relative_to(ROOT)}: the link {found[1]} leads to no file")
                return found[0]
            if target not in self.pages:
                self.sources.add(target)
            ups = "../" * (len(self.place(page).relative_to(self.folder).parts) - 1)
            return f"]({ups}{self.place(target).relative_to(self.folder)}{found[2] or ''})"

        return LINK.sub(replaced, text)


def tree() -> dict[str, dict[str, str]]:
    """``TREE`` with the Markdown files of the package that it does not name, under their place as the title."""
    listed = {name for names in TREE.values() for name in names}
    found = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "gradlib").rglob("*.md"))]
    further = {name: name.removeprefix("gradlib/").removesuffix("/README.md") for name in found if name not in listed}
    return {**TREE, "Packages": {**TREE["Packages"], **further}}


def contents() -> str:
    """The tables of contents that the first page ends with, shown at the side only."""
    shown = {heading: [f"{title} <{name}>" for name, title in files.items()] for heading, files in tree().items()}
    api = [f"api/{name}.md" for name in ("gradlib", "tensor", *(page_name(each) for each in MODULES), "command")]
    shown = {"Guide": shown.pop("Guide"), "Reference": api, **shown}
    tables = [["```{toctree}", ":hidden:", f":caption: {heading}", "", *pages, "```"] for heading, pages in shown.items()]
    return "".join("\n" + "\n".join(lines) + "\n" for lines in tables)


class Links(HTMLParser):
    """The links of a page, and the places in it that a link can name."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places = {""}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.targets += [each for name in ("href", "src") if (each := given.get(name)) is not None]
        self.places |= {each for name in ("id", "name") if (each := given.get(name)) is not None}


def broken(site: Path) -> list[str]:
    """The internal links of a site that lead nowhere."""
    pages = {}
    for path in site.rglob("*.html"):
        pages[path] = parser = Links()
        parser.feed(path.read_text(encoding="utf-8"))
    faults = []
    for path, page in pages.items():
        for link in page.targets:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages[target].places if target in pages else {""}
            if not target.exists() or (target in pages and unquote(parts.fragment) not in known):
                faults.append(f"{path.relative_to(site)}: the link {link} leads nowhere")
    return faults


def main() -> int:
    from sphinx.application import Sphinx

    shutil.rmtree(BUILD, ignore_errors=True)
    stage = Stage(BUILD / "stage")
    stage.fill()
    if stage.faults:
        print(*stage.faults, sep="\n")
        return 1
    site = BUILD / "html"
    made = Sphinx(stage.folder, None, site, BUILD / "doctrees", "html", confoverrides=SETTINGS, status=None, warningiserror=True)
    made.build()
    faults = broken(site)
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{site}/index.html: {len(list(site.rglob('*.html')))} pages, {len(faults)} links that lead nowhere")
    return 1 if made.statuscode or faults else 0


if __name__ == "__main__":
    sys.exit(main())
