"""`jitopt inspect`: a model at any level of its way to machine code, as text. Nothing is compiled for it.

graph    the graph, as read (--after read), after a pass (--after PASS), or optimised
groups   which nodes become one kernel
program  kernels as specs, steps with their arguments as expressions of the input shapes
plan     the program bound to the shapes of --input and --shape: pool offsets, barriers, the step table
"""

from __future__ import annotations

import argparse
import sys

from jitopt.api import load_graph
from jitopt.cli.common import add_compile_options
from jitopt.cli.feeds import add_input_options, make_feeds
from jitopt.cli.main import UsageError
from jitopt.codegen.host import choose_target, cpu_allowance
from jitopt.ir.graph import Graph
from jitopt.ir.text import print_graph
from jitopt.lower.layout import assign_layouts
from jitopt.lower.lowering import groups_of, lower
from jitopt.lower.text import print_program
from jitopt.lower.text_groups import print_groups
from jitopt.model import ModelOptions, groupings_of
from jitopt.passes.infer import infer
from jitopt.passes.optimize import PassRecord, optimize
from jitopt.passes.pipelines import PASSES
from jitopt.runtime.executor import Executor
from jitopt.runtime.text import describe_plan, print_plan
from jitopt.session import NodeArg, shape_names, type_name

LEVELS = ("graph", "groups", "program", "plan")
READ = "read"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an .onnx file")
    parser.add_argument("--level", choices=LEVELS, default="graph")
    parser.add_argument("--after", metavar="PASS", help=f"the graph as this pass left it; {READ!r}: before any pass")
    add_input_options(parser)
    add_compile_options(parser)


def run(options: argparse.Namespace) -> int:
    graph = load_graph(options.model)
    settings = ModelOptions(
        choose_target(options.target), options.precision, options.gelu, not options.no_optimize, tuple(options.disable)
    )
    if options.after is not None:
        if options.level != "graph":
            raise UsageError("--after goes with --level graph: the other levels come after all passes")
        text = after(graph, settings, options.after)
    else:
        _optimize(graph, settings)
        text = print_graph(graph) if options.level == "graph" else _lowered(graph, settings, options)
    sys.stdout.write(text)
    return 0


def after(graph: Graph, settings: ModelOptions, name: str) -> str:
    """The graph's text as the named pass left it the last time it changed something.

    Raises UsageError for an unknown pass, or one that changes nothing in this model.
    """
    infer(graph)
    if name == READ:
        return print_graph(graph)
    if name not in PASSES:
        raise UsageError(f"there is no pass {name!r}; the passes are {READ}, {', '.join(sorted(PASSES))}")
    texts: list[str] = []

    def observe(record: PassRecord) -> None:
        if record.name == name and record.changes:
            texts[:] = [print_graph(graph)]

    optimize(graph, precision=settings.precision, gelu=settings.gelu, observe=observe)
    if not texts:
        raise UsageError(f"pass {name!r} changes nothing in this model")
    return texts[0]


def _optimize(graph: Graph, settings: ModelOptions) -> None:
    infer(graph)
    if settings.optimize:
        names = [name for name in settings.disable if name in PASSES]
        optimize(graph, precision=settings.precision, gelu=settings.gelu, disable=names)


def _lowered(graph: Graph, settings: ModelOptions, options: argparse.Namespace) -> str:
    """The text of a level below the graph."""
    assign_layouts(graph, settings.target.lanes)
    infer(graph)
    groupings = groupings_of(settings)
    if options.level == "groups":
        return print_groups(groups_of(graph, groupings), graph)
    program = lower(graph, settings.target, groupings=groupings)
    if options.level == "program":
        return print_program(program)
    ports = [NodeArg(port.name, type_name(port.type), shape_names(port.type)) for port in program.inputs]
    feeds = make_feeds(ports, options)
    nowhere = dict.fromkeys(program.specs, 0)  # nothing is compiled: kernels have no address
    executor = Executor(program, nowhere, options.threads or cpu_allowance().count)
    plans = executor.plans([feeds[port.name] for port in program.inputs])
    return "".join(print_plan(describe_plan(program, plan)) for plan in plans)
