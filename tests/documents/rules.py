"""What readers rely on beside blocks: that pages are found, that links lead somewhere, that README.md stays short."""

import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pages

README_LINES, README_WIDTH = 150, 100
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def cases(root, wanted):
    """Names of rules, each with what is against it, if anything."""
    for page in wanted:
        name = page.relative_to(root)
        yield f"{name}: blocks say what they are", unnamed_blocks(page, root)
        yield f"{name}: links lead to files", dead_links(page, root)
    if root / "README.md" in wanted:
        yield f"README.md has at most {README_LINES} lines of {README_WIDTH} characters", too_long(root)
    if len(wanted) > 1:
        yield "every page is in the book's summary", missing_pages(root)
        yield "every command has a page", missing_commands(root)
        yield from book(root)


def unnamed_blocks(page, root):
    for block in pages.blocks(page, root):
        if not block.language:
            return f"line {block.line}: a block without a language"
        if block.not_run is True:
            return f"line {block.line}: `not run` without a reason"
    return None


def dead_links(page, root):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            continue
        if not (page.parent / target.split("#")[0]).exists():
            return f"{target} does not exist"
    return None


def too_long(root):
    lines = (root / "README.md").read_text().splitlines()
    if len(lines) > README_LINES:
        return f"{len(lines)} lines"
    wide = [number for number, line in enumerate(lines, 1) if len(line) > README_WIDTH]
    return f"wider: lines {', '.join(map(str, wide))}" if wide else None


def missing_pages(root):
    docs = root / "docs"
    listed = {(docs / target).resolve() for target in LINK.findall((docs / "SUMMARY.md").read_text())}
    there = {page for page in docs.rglob("*.md") if page.name != "SUMMARY.md"}
    lost = sorted(str(page.relative_to(root)) for page in there - listed)
    return f"not listed: {', '.join(lost)}" if lost else None


def missing_commands(root):
    longshore = os.environ.get("LONGSHORE", str(root / "target/debug/longshore"))
    told = subprocess.run([longshore, "--help"], check=True, capture_output=True, text=True).stdout
    listed = re.search(r"^Commands:\n(.*?)\n\n", told, flags=re.M | re.S)[1]
    commands = [name for name in re.findall(r"^  ([a-z-]+)", listed, flags=re.M) if name != "help"]
    text = "\n".join(page.read_text() for page in (root / "docs/commands").glob("*.md"))
    lost = [name for name in commands if not re.search(rf"^# .*\b{name}\b", text, flags=re.M)]
    return f"no page has {', '.join(lost)} in its title" if lost else None


def book(root):
    """The book as mdBook builds it, and its links."""
    tools = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", root / "target")) / "tools/bin"
    mdbook = shutil.which("mdbook") or shutil.which("mdbook", path=tools)
    if not mdbook:
        yield "the book # SKIP no mdbook: `cargo install mdbook` brings it", None
        return
    with tempfile.TemporaryDirectory() as built:
        done = subprocess.run([mdbook, "build", root / "docs", "--dest-dir", built], capture_output=True, text=True)
        told = done.stdout + done.stderr
        yield "the book is built without a warning", told if done.returncode or "WARN" in told else None
        yield "the book has no broken link", broken_link(pathlib.Path(built).resolve())


class Page(html.parser.HTMLParser):
    """The places and the links of a page."""

    def __init__(self, text):
        super().__init__()
        self.places, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.places.update(value for key, value in attributes if key in ("id", "name"))
        self.links += [named[key] for key in ("href", "src") if named.get(key)]


def broken_link(built):
    read = {path: Page(path.read_text()) for path in built.rglob("*.html")}
    for path, page in read.items():
        # Its links are relative to wherever it is shown.
        if path.name == "404.html":
            continue
        for link in page.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            file, _, place = link.partition("#")
            target = (path.parent / file).resolve() if file else path
            if not target.exists():
                return f"{path.relative_to(built)}: {link}"
            if place and target in read and place not in read[target].places:
                return f"{path.relative_to(built)}: no place {link}"
    return None
