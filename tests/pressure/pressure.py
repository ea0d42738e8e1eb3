"""Puts a daemon under pressure beside clients that behave, and says what these noticed of it.

pressure.py SCENARIO --pid DAEMON …    cases by the Test Anything Protocol; with --results, a line of JSON is added to that file

A run has phases: quiet; attack, in which the hostile clients are there; and gone. Everything is compared with the quiet phase of the same run.
"""
import argparse
import collections
import json
import math
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

here = pathlib.Path(__file__).parent
# What ends with this program, however that ends.
WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")


class Limits:
    """What victims may notice: as many times the 99th percentile, or less than a floor; and a share of the throughput."""

    def __init__(self, whole, lossy):
        self.p99_times, self.p99_floor_ms, self.throughput = (3, 0, 0.7) if whole else (3, 500, 0.3)
        if lossy:
            # What is lost two or three times in a row is the wire's doing, and comes in the quiet phase or does not: 0.2 s, 0.4 s, 0.8 s.
            self.p99_floor_ms = 1500
        self.recovery_s, self.memory_times = 10, 1.2


class Daemon:
    """The memory that a process has, in KiB, looked at ten times a second."""

    def __init__(self, pid):
        self.pid, self.highest = pid, 0
        threading.Thread(target=self.look, daemon=True).start()

    def now(self):
        try:
            return int(re.search(r"VmRSS:\s*(\d+)", open(f"/proc/{self.pid}/status").read())[1])
        except (OSError, TypeError):
            return 0

    def look(self):
        while True:
            self.highest = max(self.highest, self.now())
            time.sleep(0.1)


class Victims:
    """The log of clients that behave."""

    def __init__(self, command, log):
        self.log, self.process = pathlib.Path(log), subprocess.Popen([*WITH_US, *command])

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.requests = [json.loads(line) for line in self.log.read_text().splitlines()]

    def between(self, begin, end):
        """What came of the requests of a time, by path: of all that were under way in it, and how many ended in it."""
        of = {}
        for path in sorted({request[0] for request in self.requests}):
            under_way = [request for request in self.requests if request[0] == path and request[1] < end and request[2] > begin]
            times = sorted(ended - began for _, began, ended, _ in under_way) or [end - begin]
            at = lambda share: round(times[math.ceil(len(times) * share) - 1] * 1000, 2)
            done = sum(ended < end and error is None for *_, ended, error in under_way)
            errors = collections.Counter(request[3] for request in under_way if request[3])
            of[path] = {"p50_ms": at(0.5), "p99_ms": at(0.99), "per_second": round(done / (end - begin), 1), "errors": errors}
        return of


def as_before(quiet, now, limits):
    """Whether nobody notices a difference."""
    return all(
        now[path]["p99_ms"] <= max(limits.p99_times * of["p99_ms"], limits.p99_floor_ms)
        and now[path]["per_second"] >= limits.throughput * of["per_second"]
        and not now[path]["errors"]
        for path, of in quiet.items()
    )


def recovery(victims, quiet, begin, end, limits):
    """Seconds from `begin` until what is left is as before; None if not even the last two are."""
    for second in range(int(end - begin) - 1):
        if as_before(quiet, victims.between(begin + second, end), limits):
            return second
    return None


class Hostile:
    """A program with the hostile clients, in their namespace, whose lines say how far it is."""

    def __init__(self, options, *command):
        self.options, self.said = options, {}
        self.process = subprocess.Popen([*WITH_US, *there(options), *command], stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.hear, daemon=True).start()

    def hear(self):
        for line in self.process.stdout:
            self.said = json.loads(line)

    def until(self, done, seconds):
        end = time.monotonic() + seconds
        while not done(self.said) and time.monotonic() < end:
            time.sleep(0.05)
        return self.said

    def kill(self):
        self.process.kill()
        self.process.wait()


def there(options):
    return ["nsenter", f"--net=/proc/{options.there}/ns/net"]


def client(options, what, *rest):
    return [sys.executable, str(here / "clients.py"), what, options.address, str(options.port), *map(str, rest)]


def vanish(options):
    """Clients that ask and read nothing; the wire to them is cut while the answers to the second half are on it."""
    hostile = Hostile(options, *client(options, "holders", options.count, "/large", "vanish"))
    hostile.until(lambda said: said.get("connected", 0) >= options.count, options.patience)
    time.sleep(1)
    hostile.process.send_signal(signal.SIGUSR1)
    time.sleep(0.02)
    subprocess.run([*there(options), "ip", "link", "set", "c1", "down"], check=True)
    subprocess.run(["ip", "route", "add", "blackhole", "10.78.0.0/25"], check=True)
    return hostile


def slow(options):
    hostile = Hostile(options, *client(options, "holders", options.count, "/large", "slow"))
    hostile.until(lambda said: said.get("connected", 0) >= options.count, options.patience)
    return hostile


def uploads(options):
    return Hostile(options, *client(options, "uploads", options.count, "/sink", options.bytes))


def mute(options):
    """A host that never answers the R2Ts of its writes."""
    hostile = Hostile(options, sys.executable, str(here / "nvme_host.py"), "mute", options.address, str(options.port), str(options.count))
    hostile.until(lambda said: said.get("writes", 0) >= options.count, options.patience)
    return hostile


scenarios = {"vanish": vanish, "slow": slow, "uploads": uploads, "mute": mute}


def measure(options, limits):
    daemon = Daemon(options.pid)
    command = client(options, "victims", options.log, *options.victim)
    if options.scenario == "mute":
        command = [sys.executable, str(here / "nvme_host.py"), "victim", options.address, str(options.port), options.log]
    victims = Victims(command, options.log)
    time.sleep(1)
    quiet_begins = time.monotonic()
    time.sleep(options.quiet)
    quiet_ends, before = time.monotonic(), daemon.now()
    began = time.monotonic()
    hostile = scenarios[options.scenario](options)
    if options.scenario == "vanish":
        began = time.monotonic()
    if options.scenario == "uploads":
        hostile.until(lambda said: sum(said.values()) >= options.count, options.attack)
    else:
        time.sleep(options.attack)
    outcomes, gone = dict(hostile.said), time.monotonic()
    hostile.kill()
    # A request that began in the attack ends in this phase, or has failed.
    time.sleep(max(options.gone, limits.recovery_s + 2))
    after, end = daemon.now(), time.monotonic()
    victims.stop()
    quiet, attack = victims.between(quiet_begins, quiet_ends), victims.between(began, gone)
    return {
        "scenario": options.scenario,
        "daemon": options.daemon,
        "count": options.count,
        "title": options.title,
        "hostile": outcomes,
        "quiet": quiet,
        "attack": attack,
        "p99_times": {path: round(attack[path]["p99_ms"] / of["p99_ms"], 2) for path, of in quiet.items()},
        "throughput_share": {path: round(attack[path]["per_second"] / max(of["per_second"], 0.01), 2) for path, of in quiet.items()},
        "errors": sum(sum(of["errors"].values()) for of in attack.values()),
        # Those that vanish are gone from the beginning.
        "recovery_s": recovery(victims, quiet, began if options.scenario == "vanish" else gone, end, limits),
        "rss_kib": {"before": before, "highest": daemon.highest, "after": after},
        "rss_times": round(after / max(before, 1), 2),
    }


def judge(result, limits, options):
    """Names of cases, each with what is against it, if anything."""
    name = f"{result['daemon']}, {result['count']} {options.title}"
    for path, of in result["attack"].items():
        quiet = result["quiet"][path]
        yield f"{name}: {path} without errors", of["errors"] and f"{dict(of['errors'])}"
        if result["scenario"] == "uploads":
            # They are not hostile: the link is theirs too.
            continue
        told = f"99 % within {of['p99_ms']} ms, {quiet['p99_ms']} before"
        yield f"{name}: {path} in time", of["p99_ms"] > max(limits.p99_times * quiet["p99_ms"], limits.p99_floor_ms) and told
        told = f"{of['per_second']} a second, {quiet['per_second']} before"
        yield f"{name}: {path} as often", of["per_second"] < limits.throughput * quiet["per_second"] and told
    late = result["recovery_s"]
    yield f"{name}: as before within {limits.recovery_s} s", (late is None or late > limits.recovery_s) and (
        "never" if late is None else f"after {late} s")
    if result["scenario"] == "uploads":
        missed = {status: count for status, count in result["hostile"].items() if status != "200"}
        lost = result["count"] - sum(result["hostile"].values())
        yield f"{name}: all come through", (missed or lost) and f"{missed}, {lost} have not ended"
    if options.whole:
        rss = result["rss_kib"]
        yield f"{name}: memory is given back", result["rss_times"] > limits.memory_times and (
            f"{rss['after']} KiB, {rss['before']} before, {rss['highest']} at the most")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=scenarios)
    parser.add_argument("--daemon", required=True)
    parser.add_argument("--title", required=True)
    for number in ("pid", "there", "port", "count", "bytes"):
        parser.add_argument(f"--{number}", type=int, default=0)
    for seconds, default in (("quiet", 3), ("attack", 5), ("gone", 0), ("patience", 5)):
        parser.add_argument(f"--{seconds}", type=float, default=default)
    parser.add_argument("--address", required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--results")
    parser.add_argument("--victim", action="append", default=[])
    options = parser.parse_args()
    limits = Limits(options.whole, lossy=options.scenario == "uploads")
    result = measure(options, limits)
    if options.results:
        with open(options.results, "a") as file:
            file.write(json.dumps(result) + "\n")
    failed = False
    for name, against in judge(result, limits, options):
        print(f"not ok - {name}: {against}" if against else f"ok - {name}", flush=True)
        failed = failed or bool(against)
    sys.exit(failed)


main()
