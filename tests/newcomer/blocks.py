"""Prints the blocks of one shell of a page: blocks.py CLONE PAGE NUMBER. Exits with 3 when there are no more."""

import pathlib
import shlex
import sys

import pages

root = pathlib.Path(sys.argv[1])
sessions, _ = pages.sessions(root / sys.argv[2], root)
if int(sys.argv[3]) >= len(sessions):
    sys.exit(3)
print(f"# world: {sessions[int(sys.argv[3])].world}")
for block in sessions[int(sys.argv[3])].blocks:
    for name, text in block.files:
        print(f"printf %s {shlex.quote(text)} >{shlex.quote(name)}")
    print(block.text)
