#!/usr/bin/env python3
"""Cache lines that pass from one core of a machine to the other, by a trace of memory accesses.

Usage: lines.py [--where] SHARED_LINES ARGUMENT…: the example of that name (crates/sim/examples), run under valgrind's lackey.

Whose turn it is says the last store to a mark of the example's. A line passes when a core touches it that another core of its machine has
written since, or writes it while the other one has it. What belongs to no core is left out: the wires' own work, the marks, and the
stack of the one thread that plays all cores.
"""
import collections
import os
import subprocess
import sys
import threading

MACHINES, WORKERS, LINE = 2, 2, 6
NOBODY, BEGIN = MACHINES * WORKERS, MACHINES * WORKERS + 1
# Where valgrind puts the stack of a program's first thread.
STACK = range(0x1FFE000000, 0x2000000000)


class Machine:
    """The caches of a machine's cores."""

    def __init__(self):
        self.owners = {}
        self.written = set()

    def access(self, core, line, writes):
        """Whether a line passes to a core that reads or writes it."""
        owners = self.owners.setdefault(line, set())
        others = owners - {core}
        passes = bool(others) and (writes or (line in self.written and core not in owners))
        if writes:
            self.owners[line] = {core}
            self.written.add(line)
        else:
            owners.add(core)
        return passes


class Count:
    """What a trace came to."""

    def __init__(self):
        self.machines = [Machine() for _ in range(MACHINES)]
        self.whose, self.begun = NOBODY, False
        self.accesses = 0
        self.passes = collections.Counter()
        self.code = collections.Counter()

    def take(self, trace, told):
        """Reads a trace to its end."""
        instruction = ""
        for text in trace:
            if text[0] == "I":
                instruction = text
            elif text[0] == " ":
                address, _, size = text[3:].partition(",")
                if len(told) >= 2:
                    places = tuple(int(told[name], 16) for name in ("marks", "asked"))
                    self.access(int(address, 16), int(size), text[1] != "L", places, instruction)

    def access(self, address, size, writes, told, instruction):
        marks, asked = told
        mark = (address >> LINE) - (marks >> LINE)
        if 0 <= mark <= BEGIN:
            self.begun |= mark == BEGIN
            self.whose = mark if mark != BEGIN else self.whose
            return
        if self.whose == NOBODY or address in STACK or address == asked:
            return
        machine = self.whose % MACHINES
        self.accesses += self.begun
        for line in {address >> LINE, (address + size - 1) >> LINE}:
            if self.machines[machine].access(self.whose, line, writes) and self.begun:
                self.passes[(machine, line)] += 1
                self.code[instruction.split(",")[0].split()[-1]] += 1


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--where"]
    trace, log = os.pipe()
    program = subprocess.Popen(
        ["valgrind", "--tool=lackey", "--trace-mem=yes", "--basic-counts=no", f"--log-fd={log}", *arguments],
        stdout=subprocess.PIPE, text=True, pass_fds=[log])
    os.close(log)
    told = {}

    def listen():
        for line in program.stdout:
            name, _, value = line.strip().partition(": ")
            told[name] = value

    listener = threading.Thread(target=listen)
    listener.start()
    count = Count()
    with open(trace, errors="replace") as lines:
        count.take(lines, told)
    listener.join()
    if program.wait() or not count.begun:
        sys.exit("the program has not ended well")
    transactions, passes = int(told["transactions"]), sum(count.passes.values())
    print(f"{transactions} transactions, {count.accesses} accesses, {passes} passes of {len(count.passes)} lines: {passes / transactions:.3f} per transaction")
    if "--where" in sys.argv:
        for (machine, line), times in count.passes.most_common(20):
            print(f"  line {line << LINE:#x} of machine {machine}: {times}")
        for at, times in count.code.most_common(30):
            print(f"  instruction {at}: {times}")


main()
