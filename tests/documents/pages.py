"""Pages of the documentation, their blocks, and the shells that blocks run in."""

import dataclasses
import pathlib
import re
import shlex

FENCE = re.compile(r"^(```+)([\w-]*)\s*$")
COMMENT = re.compile(r"^<!-- *([\w ]+?)(?:: *(.*?))? *-->$")


def all_of(root):
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


@dataclasses.dataclass
class Block:
    """A fenced block with what the comments before it say."""

    page: str
    line: int
    language: str
    text: str
    said: dict
    outputs: list = dataclasses.field(default_factory=list)
    files: list = dataclasses.field(default_factory=list)

    @property
    def name(self):
        first = next((line for line in self.text.splitlines() if line and not line.startswith("#")), "")
        return f"{self.page}:{self.line} {first[:60]}"

    @property
    def not_run(self):
        return self.said.get("not run")

    def fault(self, place, world):
        """Why it failed, if it did. `world` is what was printed beside the blocks."""
        output = place / f"{self.line}.out"
        if not output.exists():
            return "not reached: " + last_line(world)
        printed = output.read_text(errors="replace")
        if not (place / f"{self.line}.done").exists():
            return "it failed: " + last_line(printed + world)
        for expected in self.outputs:
            if not matches(expected, printed):
                return f"prints something else than the page says:\n{indented(printed)}"
        return None


@dataclasses.dataclass
class Session:
    """Blocks that run in one shell, one after the other."""

    world: str
    blocks: list

    def script(self, place):
        parts = ["set -eo pipefail"]
        for block in self.blocks:
            for name, text in block.files:
                kept = place / f"{block.line}.{pathlib.Path(name).name}"
                kept.write_text(text)
                parts.append(f"cp {shlex.quote(str(kept))} {shlex.quote(name)}")
            pasted = place / f"{block.line}.sh"
            pasted.write_text(block.text)
            output = shlex.quote(str(place / f"{block.line}.out"))
            parts.append(f"exec >{output} 2>&1")
            parts.append(f". {shlex.quote(str(pasted))}")
            parts.append(f"touch {shlex.quote(str(place / f'{block.line}.done'))}")
        return "\n".join(parts) + "\n"


def blocks(page, root):
    """Every fenced block of a page, in order."""
    name = str(page.relative_to(root))
    said, fence, content, began = {}, None, [], 0
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if fence is None:
            comment, opened = COMMENT.match(line.strip()), FENCE.match(line.strip())
            if comment:
                said[comment[1]] = comment[2] or True
            elif opened:
                fence, content, began = opened, [], number
            elif line.strip():
                said = {}
        elif line.strip() == fence[1]:
            yield Block(name, began, fence[2], "\n".join(content) + "\n", said)
            fence, said = None, {}
        else:
            content.append(line)
    if fence is not None:
        raise SystemExit(f"{name}:{began}: a block without an end")


def sessions(page, root):
    """The shells of a page, and its blocks that run in none."""
    found, left_out, files, last = [], [], [], None
    for block in blocks(page, root):
        if "file" in block.said:
            files.append((block.said["file"], block.text))
        elif "output" in block.said:
            if last is None:
                raise SystemExit(f"{block.page}:{block.line}: an output without a block before it")
            last.outputs.append(block.text)
        elif block.language == "sh":
            last = block
            if block.not_run:
                left_out.append(block)
                continue
            block.files, files = files, []
            if "continues" in block.said and found:
                found[-1].blocks.append(block)
            else:
                found.append(Session(block.said.get("world", "plain"), [block]))
    return found, left_out


def matches(expected, printed):
    """Whether `printed` is what a page shows, where … stands for anything, and a line of it alone for any lines."""
    lines = [re.escape(line.rstrip()).replace("…", ".*") for line in expected.strip().splitlines()]
    pattern = ""
    for line in lines:
        pattern += r"(?:.*\n)*?" if line == ".*" else line + r"[ \t]*\n"
    printed = "".join(line.rstrip() + "\n" for line in printed.strip().splitlines())
    return re.fullmatch(pattern, printed) is not None


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-3:]) or "nothing was printed"


def indented(text):
    return "".join(f"    # {line}\n" for line in text.splitlines()).rstrip()
