"""What the programs `client_suites` of psp-redis and psp-memcached share: they run the test suites of clients against a
server of psp and against the server that it is compatible with, and compare.

Each run has a network and processes of its own (unshare), so that suites may have fixed ports, reach no other machine,
and leave nothing behind.
"""

import argparse
import collections
import dataclasses
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Suites expect that these addresses do not answer.
SILENT = ("192.168.254.254", "10.255.255.254", "10.255.255.1")


class Results(dict):
    """The tests of a run: "passed", "failed" or "skipped" by their names."""

    def add(self, name, outcome):
        """Adds a test. Of several with one name, the later have a number."""
        name = name.replace("`", "'").replace("|", "/").strip()
        names = itertools.chain([name], (f"{name} #{number}" for number in itertools.count(2)))
        self[next(name for name in names if name not in self)] = outcome

    def names(self, outcome):
        return [name for name, result in self.items() if result == outcome]


class Suite:
    """The tests of a client. Subclasses say how they are built and run, and how to read what they say."""

    package = release = ""
    # Debian's packages that a run needs.
    needs = ()
    # What is left out, and why.
    skipped = {}

    def missing(self):
        command = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *self.needs]
        found = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
        return [package for package in self.needs if f"{package} installed" not in found]

    def build(self, source):
        """Makes the unpacked source ready to run."""

    def command(self, source):
        """The command of a run in the source's folder, for a shell. `redis-server`, or `memcached`, is the server under
        test."""
        raise NotImplementedError

    def read(self, output, status):
        """The results."""
        raise NotImplementedError


class Minitest(Suite):
    """A suite of Ruby, run with --verbose."""

    # The names of tests.
    test = r"\S+#test_\S+"

    def read(self, output, status):
        results = Results()
        # What servers say may stand between.
        ended_test = re.compile(rf"({self.test}) = (?:(?!#test_).|\n)*?[\d.]+ s = ([.FES])$", re.MULTILINE)
        for name, outcome in ended_test.findall(output):
            results.add(name, {".": "passed", "S": "skipped"}.get(outcome, "failed"))
        return ended(results, status, (0, 1))


def edit(file, pattern, new, count):
    """Replaces what matches in a file of a suite, so many times."""
    text, replaced = re.subn(pattern, new, file.read_text())
    # A source that was given may be edited already.
    assert replaced in (0, count), f"{file} is not as expected: {pattern}"
    file.write_text(text)


def ended(results, status, statuses):
    """The results, and of a suite that breaks off a failure for it."""
    if status not in statuses or (status and not results.names("failed")):
        results.add("the end", "failed")
    return results


@dataclasses.dataclass
class Comparison:
    """A server of psp, and the one that it is compatible with."""

    # The names of both programs.
    psp: str
    other: str
    # The suites, by their names.
    suites: dict
    # The program that compares. Under the other server's name it stands in for the servers of `stands_in_for`, whose
    # program it finds in PROGRAM.
    script: Path
    stands_in_for: tuple
    # The page with the table of tests that fail on psp's server alone.
    page: Path
    # Where sources are kept.
    work: Path


def fetch(suite, suites, work):
    """The folder of a client's source, from Debian's source package, and its version."""
    folder = work / suite.package
    lists = work / "lists"
    sources = work / "sources.list"
    apt = ["apt-get", "-qq", "-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=/dev/null",
           "-o", f"Dir::State::lists={lists}"]
    if not lists.exists():
        (lists / "partial").mkdir(parents=True)
        releases = sorted({suite.release for suite in suites.values()})
        sources.write_text("".join(f"deb-src http://deb.debian.org/debian {release} main\n" for release in releases))
        subprocess.run([*apt, "update"], check=True)
    if not list(work.glob(f"{suite.package}_*.orig.tar.*")):
        # The archive alone: the suite is that of the client, without Debian's changes.
        package = f"{suite.package}/{suite.release}"
        done = subprocess.run([*apt, "source", "--print-uris", package], cwd=work, check=True, capture_output=True,
                              text=True)
        address, name, checksum = re.search(r"'(\S+)' (\S+\.orig\.tar\.\S+) \d+ (\S+)", done.stdout).groups()
        subprocess.run(["/usr/lib/apt/apt-helper", "-qq", "download-file", address, work / name, checksum], check=True,
                       stdout=subprocess.DEVNULL)
    (archive,) = work.glob(f"{suite.package}_*.orig.tar.*")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", folder, "--strip-components=1"], check=True)
    return folder, archive.name.split("_")[1].split(".orig")[0]


def run(comparison, suite, source, server, program, silence_s, log):
    """The results of a suite with a server."""
    silent = "; ".join(f"ip route add {address} dev lo" for address in SILENT)
    isolate = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid():
        isolate.insert(1, "--map-root-user")
    start = f"ip link set lo up; {silent}; "
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / comparison.other
        place.symlink_to(comparison.script if server in comparison.stands_in_for else program)
        environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "PROGRAM": str(program), "RUN": folder}
        with log.open("wb") as output:
            command = [*isolate, "sh", "-c", start + suite.command(source)]
            child = subprocess.Popen(command, cwd=source, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                     stderr=subprocess.STDOUT)
            try:
                status = child.wait(silence_s)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                child.kill()
                child.wait()
    return suite.read(log.read_text(errors="replace"), status)


def known(page):
    """The tests that fail on psp's server alone, by suite, as the page has them."""
    section = page.read_text().split("## The suites of clients")[1].split("\n## ")[0]
    tests = collections.defaultdict(set)
    for line in section.splitlines():
        if row := re.match(r"\| ([\w-]+) \| (`.+`) \| .+ \|$", line):
            tests[row[1]].update(re.findall(r"`([^`]+)`", row[2]))
    return tests


def built(program):
    """A program of a debug build."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return Path(json.loads(done.stdout)["target_directory"]) / "debug" / program


def main(comparison, description):
    psp, other, suites = comparison.psp, comparison.other, comparison.suites
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(f"--{psp}", dest="psp", metavar="PROGRAM", type=Path)
    parser.add_argument(f"--{other}", dest="other", metavar="PROGRAM", type=Path, default=shutil.which(other))
    parser.add_argument("--source", metavar="NAME=FOLDER", action="append", default=[])
    parser.add_argument("--work", metavar="FOLDER", type=Path, default=comparison.work)
    parser.add_argument("--silence", metavar="SECONDS", type=float, default=600)
    parser.add_argument("names", metavar="NAME", nargs="*")
    options = parser.parse_args()
    if unknown := set(options.names) - set(suites):
        parser.error(f"no suite is called {', '.join(sorted(unknown))}: there are {', '.join(suites)}")
    if not options.other:
        parser.error(f"there is no {other} to compare with")
    servers = {psp: (options.psp or built(psp)).resolve(), other: options.other.resolve()}
    sources = dict(source.split("=", 1) for source in options.source)
    options.work.mkdir(parents=True, exist_ok=True)
    expected = known(comparison.page)
    wrong = incomplete = False
    lines = []
    for name in options.names or suites:
        suite = suites[name]
        if missing := suite.missing():
            print(f"{name} does not run: apt-get install {' '.join(missing)}", flush=True)
            incomplete = True
            continue
        try:
            source, version = (Path(sources[name]), "given") if name in sources else fetch(suite, suites, options.work)
            suite.build(source)
        except subprocess.CalledProcessError as error:
            print(f"{name} does not run: {' '.join(map(str, error.cmd[:3]))} .. fails", flush=True)
            incomplete = True
            continue
        results = {}
        for server, program in servers.items():
            log = options.work / f"{name}.{server}.log"
            results[server] = run(comparison, suite, source, server, program, options.silence, log)
            counts = " | ".join(str(len(results[server].names(outcome))) for outcome in ("passed", "failed", "skipped"))
            print(f"| {name} | {version} | {server} | {counts} |", flush=True)
        for what, why in suite.skipped.items():
            lines.append(f"{name} leaves out {what}: {why}")
        found = results[psp].names("failed")
        if "the end" not in found:
            # A test may be skipped on one server, or not be there.
            found += [test for test in results[other].names("passed") if results[psp].get(test) in (None, "skipped")]
        for test in found:
            outcome = results[psp].get(test, "missing")
            if results[other].get(test) == outcome:
                word = "both"
            else:
                word = "known" if test in expected[name] else "WRONG"
            wrong = wrong or word == "WRONG"
            lines.append(f"{word:5} {name} `{test}` {outcome}")
        # Then nothing was compared.
        incomplete = incomplete or not results[other].names("passed")
        for test in expected[name] & set(results[psp].names("passed")):
            lines.append(f"{name} `{test}` passes, though the table has it")
    print("\n".join(lines))
    return 1 if wrong else 2 if incomplete else 0
