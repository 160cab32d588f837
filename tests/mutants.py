"""Plant small errors in a room and list those that its tests do not see: `python tests/mutants.py ROOM … --sample 300`.

The errors are mutmut's. mutmut's own runner leaves out every decorated function (here all properties) and all that runs at
import, and cosmic-ray's imports torch and the library anew for each mutant (ten seconds). Here one process imports and
collects everything; for each mutant a fork of it puts the changed code into the functions that are there. What runs at
import (constants, defaults, fields) is changed in a fork from before the import. Only the tests that run the changed lines
are tried, those first that saw most for their time. Rooms, their tests and equivalent mutants stand in mutants.toml.
"""

import argparse
import contextlib
import gc
import importlib
import importlib.machinery
import math
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import tomllib
import types
from collections import Counter, defaultdict
from multiprocessing.sharedctypes import RawArray
from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "regard"
QUIET = "-qq -s --disable-warnings --no-header --no-summary -p no:cacheprovider -p no:xdist"
OPTIONS = [*QUIET.split(), "--rootdir", str(ROOT)]
SURVIVED, KILLED, BROKEN = 0, 1, 70
MEMORY, SECONDS = 4 << 30, 20  # beyond what the tests take: an endless loop


class Mutant:
    """One change in one file, known by its function and by the lines before and after, not by their numbers."""

    def __init__(self, file, source, where, operator, lines, start, end, text):
        self.file, self.where, self.operator, self.lines = file, where, operator, lines
        self.edit = start, end, text.encode()
        first, last = source.rfind(b"\n", 0, start) + 1, (source + b"\n").find(b"\n", end)
        before, after = source[first:last], source[first:start] + text.encode() + source[end:last]
        before, after = ([" ".join(line.split()) for line in some.decode().splitlines()] for some in (before, after))
        while before and after and before[0] == after[0]:
            before, after = before[1:], after[1:]
        while before and after and before[-1] == after[-1]:
            before, after = before[:-1], after[:-1]
        self.before, self.after = " ".join(before), " ".join(after)

    def applied(self, source):
        start, end, text = self.edit
        return (source[:start] + text + source[end:]).decode()

    def __str__(self):
        place = f"{self.file}:{self.lines[0]}, {self.where or 'the module'}"
        return f"{place} ({self.operator})\n  - {self.before}\n  + {self.after}"


class Finder(cst.CSTVisitor):
    """All mutants of a file but those of annotations, imports, overloads, `__all__`, the texts of errors and zip's strict."""

    METADATA_DEPENDENCIES = (ByteSpanPositionProvider, PositionProvider)

    def __init__(self, file, source):
        super().__init__()
        self.file, self.source, self.names, self.raising, self.mutants = file, source, [], 0, []

    def on_visit(self, node):
        if isinstance(node, cst.Annotation | cst.Import | cst.ImportFrom):
            return False
        if isinstance(node, cst.Arg) and node.keyword and node.keyword.value == "strict":
            return False
        if isinstance(node, cst.Assign) and getattr(node.targets[0].target, "value", "") == "__all__":
            return False
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self.names.append(node.name.value)
            if any(getattr(decorator.decorator, "value", "") == "overload" for decorator in node.decorators):
                return False
        self.raising += isinstance(node, cst.Raise)
        position = self.get_metadata(PositionProvider, node, None)
        span = self.get_metadata(ByteSpanPositionProvider, node, None)
        if position and span and not (self.raising and isinstance(node, cst.BaseString)):
            lines = range(position.start.line, position.end.line + 1)
            place = span.start, span.start + span.length
            for kind, operator in mutation_operators:
                for changed in operator(node) if isinstance(node, kind) else ():
                    name, text = operator.__name__.removeprefix("operator_"), cst.Module([]).code_for_node(changed)
                    found = Mutant(self.file, self.source, ".".join(self.names), name, lines, *place, text)
                    self.mutants += [found] if found.before != found.after else []
        return True

    def on_leave(self, node):
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self.names.pop()
        self.raising -= isinstance(node, cst.Raise)


def find(file):
    """The mutants of a file, in a fixed order; a second way to the same text is no second mutant."""
    source = (SOURCES / file).read_bytes()
    finder = Finder(file, source)
    MetadataWrapper(cst.parse_module(source)).visit(finder)
    return list({(mutant.lines[0], mutant.before, mutant.after): mutant for mutant in finder.mutants}.values())


def pairs(old, new):
    """The functions of two versions of a code object, each with its counterpart, outermost first."""
    codes = [[const for const in code.co_consts if isinstance(const, types.CodeType)] for code in (old, new)]
    for a, b in zip(*codes, strict=False):
        if a.co_flags & 1 and not same(a, b):  # CO_OPTIMIZED: a function, not the body of a class
            yield a, b
        yield from pairs(a, b)


def same(a, b):
    """Whether two code objects do the same, wherever they stand."""
    if not (isinstance(a, types.CodeType) and isinstance(b, types.CodeType)):
        return type(a) is type(b) and repr(a) == repr(b)
    said = [(code.co_code, code.co_names, code.co_varnames, len(code.co_consts)) for code in (a, b)]
    return said[0] == said[1] and all(map(same, a.co_consts, b.co_consts))


class Living:
    """A file that is imported: its code, and the functions that run it."""

    def __init__(self, file):
        name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        module = importlib.import_module(f"regard.{name}")
        self.path, self.compile = module.__file__, module.__spec__.loader.source_to_code  # with the checks of shapes
        self.source = Path(self.path).read_bytes()
        self.code = self.compile(self.source, self.path)
        found = [each for each in gc.get_objects() if type(each) is types.FunctionType]
        self.functions = [each for each in found if each.__code__.co_filename == self.path]

    def swap(self, mutant):
        """Put the changed code into the functions of this process."""
        changed = pairs(self.code, self.compile(mutant.applied(self.source).encode(), self.path))
        for before, after in list(changed):
            for function in self.functions:
                if function.__code__ == before and len(before.co_freevars) == len(after.co_freevars):
                    function.__code__ = after


def substitute(mutant):
    """Let the import of its file find the changed source."""
    path = str(SOURCES / mutant.file)
    changed = mutant.applied(Path(path).read_bytes()).encode()
    loader = importlib.machinery.SourceFileLoader
    get_data, path_stats = loader.get_data, loader.path_stats

    def stats(self, name):
        if name == path:
            raise OSError  # then no bytecode is read or written
        return path_stats(self, name)

    loader.get_data = lambda self, name: changed if str(name) == path else get_data(self, name)
    loader.path_stats = stats


def quiet():
    """Send nowhere what a fork prints."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)


def limit(seconds):
    """End this process by a signal when it takes too long or too much memory."""
    with open("/proc/self/statm") as statm:
        size = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, SECONDS + 2 * seconds)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    busy = max(os.getloadavg()[0] / (os.cpu_count() or 1), 1)  # processes for each core
    signal.alarm(int(10 * busy * (SECONDS + seconds)))  # where it only waits


def forks(work, tasks, jobs):
    """Run `work(task)` in a fork each, with a folder for temporary files; yields (task, exit status or -signal)."""
    tasks, running = iter(tasks), {}
    while True:
        while len(running) < jobs and (task := next(tasks, None)) is not None:
            folder = tempfile.mkdtemp(prefix="mutant-")
            child = os.fork()
            if not child:
                code = BROKEN
                try:
                    os.setpgid(0, 0)
                    tempfile.tempdir = os.environ["TMPDIR"] = folder
                    code = work(task)
                except BaseException:
                    import traceback

                    traceback.print_exc()
                finally:
                    os._exit(code)
            running[child] = task, folder
        if not running:
            return
        child, status = os.wait()
        task, folder = running.pop(child)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what it started, too
        shutil.rmtree(folder, ignore_errors=True)
        yield task, os.waitstatus_to_exitcode(status)


class Plugin:
    """Collect a room's tests once, with few and fixed examples, and hand them to `loop(items)`."""

    def __init__(self, loop, examples):
        self.loop, self.examples, self.failed = loop, examples, None

    @pytest.hookimpl(trylast=True)  # after conftest.py has chosen its own
    def pytest_configure(self, config):
        from hypothesis import HealthCheck, Phase, settings

        settings.register_profile(
            "mutants", derandomize=True, database=None, deadline=None, max_examples=self.examples,
            phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session):
        from hypothesis import settings

        if session.testsfailed:
            raise SystemExit("a test file cannot be collected")
        for item in session.items:  # those that ask for more examples, too
            test = getattr(item.obj, "__func__", item.obj)
            if hasattr(test, "hypothesis"):
                test._hypothesis_internal_use_settings = settings.get_profile("mutants")
        self.loop(session.items)
        return True

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed = report.nodeid


class Room:
    """The files of a room and its tests; `run` imports the library, so that a process can run one room only."""

    def __init__(self, name, spec, options):
        self.name, self.options = name, options
        files = {path for pattern in spec["files"] for path in SOURCES.glob(pattern)}
        self.files = sorted(str(path.relative_to(SOURCES)) for path in files)
        self.arguments = [*OPTIONS, "-m", spec.get("marks", "not slow and not gpu"), *(options.tests or spec["tests"])]
        self.times, self.reached, self.kills, self.plans = {}, {}, Counter(), {}

    def pytest(self, loop):
        """Collect the tests, and call `loop(plugin, items by name)`."""
        plugin = Plugin(lambda items: loop(plugin, {item.nodeid: item for item in items}), self.options.examples)
        return pytest.main(self.arguments, plugins=[plugin])

    def measure(self, output):
        """Run all tests, and write which lines each runs and how long it takes; those that fail are left out."""
        paths = {str(SOURCES / name): name for name in self.files}
        lines, times, reached = set(), {}, defaultdict(set)

        def local(frame, event, _):
            if event == "line":
                lines.add((paths[frame.f_code.co_filename], frame.f_lineno))
            return local

        def start(frame, event, _):
            return local(frame, "line", _) if frame.f_code.co_filename in paths else None

        def loop(plugin, items):
            for name, item in items.items():
                lines.clear()
                plugin.failed, began = None, time.process_time()
                threading.settrace(start)
                sys.settrace(start)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                sys.settrace(None)
                threading.settrace(None)
                if plugin.failed:
                    print(f"left out, since it fails here: {name}", flush=True)
                    continue
                times[name] = time.process_time() - began
                for line in lines:
                    reached[line].add(name)

        self.pytest(loop)
        Path(output).write_bytes(pickle.dumps((times, dict(reached))))
        return 0

    def choose(self, mutant):
        """The tests that run the changed lines: the likeliest to see it for their time first."""
        tests = set(self.times)
        if mutant is not None and not mutant.at_import:
            tests = set().union(*(self.reached.get((mutant.file, line), set()) for line in mutant.lines))
        return sorted(tests, key=lambda test: (-(self.kills[test] + 0.1) / (self.times[test] + 0.02), test))

    def attempt(self, task, plugin, items):
        """Run the tests of one mutant up to the first that fails, and end this process."""
        items = [items[test] for test in self.plans[task]]
        limit(sum(self.times[item.nodeid] for item in items))
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if plugin.failed:
                self.killers[task] = self.numbers.get(plugin.failed, -1) + 1
                os._exit(KILLED)
        os._exit(SURVIVED)

    def run(self, mutants, report):
        """Try each mutant; `report(mutant, status, test)`."""
        with tempfile.TemporaryDirectory() as folder:
            list(forks(self.measure, [f"{folder}/measured"], 1))
            self.times, self.reached = pickle.loads(Path(folder, "measured").read_bytes())
        print(f"{self.name}: {len(self.times)} tests, {sum(self.times.values()):.0f} s with lines followed", flush=True)
        if self.options.verbose:
            slowest = sorted(self.times, key=self.times.get)[-20:]
            print(*(f"  {self.times[test]:6.2f} s {test}" for test in slowest), sep="\n")
        self.numbers = {test: i for i, test in enumerate(self.times)}
        self.killers = RawArray("i", len(mutants) + 1)
        codes = {file: compile((SOURCES / file).read_bytes(), file, "exec") for file in self.files}
        mutants = [*mutants, None]
        early, late = ([len(mutants) - 1] for _ in range(2))  # the last is none: then all tests must pass, both ways
        for i, mutant in enumerate(mutants[:-1]):
            try:
                code = compile(mutant.applied((SOURCES / mutant.file).read_bytes()), mutant.file, "exec")
            except SyntaxError:
                continue
            if same(codes[mutant.file], code):  # as 1e30 and 1e+30
                continue
            mutant.at_import = not any(pairs(codes[mutant.file], code))
            (early if mutant.at_import else late).append(i)

        def planned(tasks):
            for i in tasks:
                self.plans[i] = self.choose(mutants[i])
                if self.plans[i]:
                    yield i
                else:
                    report(mutants[i], SURVIVED, "no test runs it")

        def follow(work, tasks):
            for i, status in forks(work, planned(tasks), self.options.jobs):
                test = list(self.times)[self.killers[i] - 1] if self.killers[i] else ""
                if mutants[i] is None and status != SURVIVED:
                    raise SystemExit(f"{self.name}: fails without any change: {test or status}")
                if status == BROKEN:
                    raise SystemExit(f"cannot be tried: {mutants[i]}")
                self.kills[test] += 1
                if mutants[i] is not None:
                    report(mutants[i], status, test)

        def at_import(i):
            quiet()
            if mutants[i] is not None:
                substitute(mutants[i])
            self.pytest(lambda plugin, items: self.attempt(i, plugin, items))
            return KILLED  # it cannot be imported

        def in_place(plugin, items):
            living = {file: Living(file) for file in self.files}
            gc.collect()
            gc.freeze()  # else a fork's collections would copy all memory

            def work(i):
                quiet()
                if mutants[i] is not None:
                    living[mutants[i].file].swap(mutants[i])
                self.attempt(i, plugin, items)

            follow(work, late)

        if len(early) > 1:
            follow(at_import, early)
        if self.pytest(in_place) == pytest.ExitCode.INTERNAL_ERROR:
            raise SystemExit(f"{self.name}: stopped before all mutants were tried")


def interval(part, whole):
    """Wilson's 95 % interval of a share."""
    if not whole:
        return 0.0, 1.0
    share, z = part / whole, 1.96
    middle = (share + z * z / (2 * whole)) / (1 + z * z / whole)
    half = z * math.sqrt(share * (1 - share) / whole + z * z / (4 * whole * whole)) / (1 + z * z / whole)
    return middle - half, middle + half


def go(name, spec, equivalent, options):
    """Run one room and print its survivors; true where at most a tenth survives."""
    room, began = Room(name, spec, options), time.monotonic()
    every = [mutant for file in room.files for mutant in find(file) if options.match in str(mutant)]
    mutants, known = [], set()
    for mutant in every:
        keys = {(mutant.file, mutant.where, mutant.before, after) for after in (mutant.after, "")} & equivalent
        known |= keys
        mutants += [] if keys else [mutant]
    left_out = len(every) - len(mutants)
    chosen = random.Random(options.seed).sample(mutants, min(options.sample or len(mutants), len(mutants)))
    results = Counter()

    def report(mutant, status, test):
        results["survived" if status == SURVIVED else "killed" if status == KILLED else "stopped"] += 1
        if status == SURVIVED:
            print(f"{mutant}{f'  ({test})' if test else ''}", flush=True)
        elif options.verbose:
            print(f"{mutant}\n  {status} {test}", flush=True)

    room.run(chosen, report)
    tried = sum(results.values())
    low, high = interval(results["survived"], tried)
    print(
        f"{name}: {len(every)} mutants, {left_out} of them equivalent; tried {tried} (seed {options.seed}): "
        f"{results['killed']} killed, {results['stopped']} stopped, {results['survived']} survived = "
        f"{results['survived'] / max(tried, 1):.1%} (95 %: {low:.1%} to {high:.1%}), "
        f"{time.monotonic() - began:.0f} s",
        flush=True,
    )
    for file, where, before, after in sorted(equivalent):
        if file in room.files and (file, where, before, after) not in known and not options.match:
            print(f"{name}: an equivalent mutant that is no longer there: {file}, {where}: {before} → {after}")
    return results["survived"] <= 0.1 * tried


def main():
    specs = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rooms", nargs="*", default=list(specs["rooms"]), metavar="ROOM")
    parser.add_argument("--sample", type=int, default=300, help="mutants of each room; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--examples", type=int, default=20, help="of each property test")
    parser.add_argument("--match", default="", help="only mutants with this in their file, function or lines")
    parser.add_argument("--tests", nargs="*", help="try these only")
    parser.add_argument("--verbose", action="store_true", help="list the killed ones, too")
    options = parser.parse_args()
    equivalent = {
        (file, where, before, after)
        for file, entries in specs.get("equivalent", {}).items()
        for where, before, after, _ in entries
    }
    os.chdir(ROOT)
    os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
    import hypothesis  # noqa: F401  what is imported here, no mutant imports again
    import torch

    torch.set_num_threads(1)
    good = True
    if "questions" in options.rooms:
        import transformers  # noqa: F401
    for name in options.rooms:  # in a process each: `run` imports the library
        statuses = forks(lambda name: int(not go(name, specs["rooms"][name], equivalent, options)), [name], 1)
        good &= all(status == 0 for _, status in statuses)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
