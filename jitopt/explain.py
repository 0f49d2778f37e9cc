"""What was done to a model, as data and as text: passes, groups, kernels, host steps, memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jitopt.codegen.compiler import CompiledKernel, KernelSource, kernel_assembly
from jitopt.lower.program import Step
from jitopt.model import CompiledModel
from jitopt.runtime.binding import SegmentPlan

REORDERS = frozenset({"to_blocked", "from_blocked"})


@dataclass(frozen=True)
class Kernel:
    """One compiled kernel of a model.

    `source` is the generated module's text, `path` a readable file with it (None without cache folder), `seconds` what
    compiling took, `steps` how many steps of a run call it.
    """

    key: str
    template: str
    source: str
    path: Path | None
    seconds: float
    steps: int
    _origin: tuple[CompiledKernel, Any]

    @property
    def assembly(self) -> str:
        """The machine code as text; compiled again for it."""
        kernel, target = self._origin
        return kernel_assembly(KernelSource(kernel.key, kernel.text, target), target)

    def __repr__(self) -> str:
        return f"<Kernel {self.key[:16]} {self.template}, {self.steps} steps>"


def kernels_of(model: CompiledModel) -> list[Kernel]:
    """The model's distinct kernels in order of first use."""
    uses = Counter(step.spec for step in model.program.steps)
    return [
        Kernel(k.key, spec.template, k.text, k.path_of_source, k.seconds, uses[spec], (k, model.options.target))
        for spec, k in model.kernels.items()
    ]  # fmt: skip


@dataclass(frozen=True)
class Memory:
    """Bytes of one plan: pool, the bound no pool can beat, without sharing, weights; and where each buffer lies."""

    pool_bytes: int
    lower_bound_bytes: int
    unshared_bytes: int
    weight_bytes: int
    placement: tuple[tuple[str, int, int], ...]  # (buffer, offset, bytes)

    def __str__(self) -> str:
        share = 1 - self.pool_bytes / self.unshared_bytes if self.unshared_bytes else 0.0
        return (
            f"pool {self.pool_bytes:,} bytes (bound {self.lower_bound_bytes:,}; without sharing "
            f"{self.unshared_bytes:,}, {share:.0%} saved), weights {self.weight_bytes:,}"
        )


def memory_of(model: CompiledModel, plans: list[SegmentPlan]) -> Memory:
    """Memory of the given plans; segments do not run at the same time, the largest pool counts."""
    largest = max(plans, key=lambda p: p.pool_bytes, default=None)
    weights = sum(b.array.nbytes for b in model.program.constants if b.array is not None)
    if largest is None:
        return Memory(0, 0, 0, weights, ())
    placement = tuple((b.name, offset, largest.sizes[b]) for b, offset in largest.offsets.items())
    bound = max(p.placement.lower_bound for p in plans)
    return Memory(largest.pool_bytes, bound, sum(p.unshared_bytes for p in plans), weights, placement)


@dataclass(frozen=True)
class Explanation:
    """`str(explanation)` is for reading, `as_dict()` for programs."""

    model: CompiledModel

    @property
    def groups(self) -> list[Step]:
        return self.model.program.steps

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data.

        original_ops, original_types     operators of the model, in all and by type
        optimized_ops, optimized_types   kernels (reorders apart) and host steps of a run, by their members' types
        reduction                        1 - optimized_ops / original_ops
        fused_ops                        operators that share a kernel with others
        kernels_run, reorders_run, kernels_compiled
        parts_in_place                   results that kernels store straight into that of a Concat
        groups                           in the order they run: kernel key, template, members, operators, constants
        host_steps                       node, operator and why it has no kernel
        passes                           those that changed something: name, round, changes, seconds
        verdict                          what the check against exact answers found: `jitopt.verdict.Verdict` as data
        compile_seconds                  by kernel key; seconds: by stage of this compile
        """
        report, program = self.model.report, self.model.program
        steps = program.steps
        compute = [s for s in steps if s.spec.template not in REORDERS]
        hosts = [h.node.op for h in program.host_steps]
        original = sum(self.model.original_types.values())
        optimized = len(compute) + len(program.host_steps)
        return {
            "model": program.name,
            "target": program.target,
            "precision": self.model.options.precision,
            "original_ops": original,
            "optimized_ops": optimized,
            "reduction": 1 - optimized / original if original else 0.0,
            "original_types": dict(sorted(self.model.original_types.items())),
            "optimized_types": dict(sorted(Counter([*(s.label for s in compute), *hosts]).items())),
            "fused_ops": sum(len(s.ops) for s in steps if len(s.ops) > 1),
            "kernels_run": len(compute),
            "reorders_run": len(steps) - len(compute),
            "kernels_compiled": len(self.model.kernels),
            "parts_in_place": sum(not r.whole for s in steps if "Concat" not in s.ops for r in s.writes),
            "groups": [
                {
                    "kernel": self.model.kernels[s.spec].key, "template": s.spec.template, "members": list(s.nodes),
                    "operators": list(s.ops), "constants": dict(s.spec.constants),
                }
                for s in steps
            ],
            "host_steps": [
                {"node": h.node.name, "operator": h.node.op, "reason": h.reason} for h in program.host_steps
            ],
            "passes": [
                {"name": r.name, "round": r.round, "changes": len(r.changes), "seconds": r.seconds}
                for r in report.records
                if r.changes
            ],
            "verdict": self.model.verdict.as_dict(),
            "compile_seconds": {
                self.model.kernels[s].key: self.model.kernels[s].seconds for s in program.specs
            },
            "seconds": dict(self.model.seconds),
        }  # fmt: skip

    def __str__(self) -> str:
        d = self.as_dict()
        placed = d["parts_in_place"]
        lines = [
            f"{d['model']} for {d['target']}, precision {d['precision']}",
            f"{d['original_ops']} operators became {d['optimized_ops']} steps ({d['reduction']:.0%} fewer): "
            f"{d['kernels_run']} kernels and {d['reorders_run']} reorders a run, {d['kernels_compiled']} compiled, "
            f"{len(d['host_steps'])} host steps" + (f"; {placed} results stored in a Concat's place" if placed else ""),
            *self.model.verdict.lines(),
            "",
            "passes",
        ]
        lines += [f"  {p['name']:28} {p['changes']:5} changes  {p['seconds'] * 1e3:8.1f} ms" for p in d["passes"]]
        lines += ["", "groups"]
        lines += [f"  {g['template']:14} {' + '.join(g['operators'])}  [{g['kernel'][:12]}]" for g in d["groups"]]
        if d["host_steps"]:
            lines += ["", "host steps (slow: NumPy between native segments)"]
            lines += [f"  {h['operator']:20} {h['node']}: {h['reason']}" for h in d["host_steps"]]
        slowest = sorted(d["compile_seconds"].items(), key=lambda kv: -kv[1])[:10]
        lines += ["", "slowest kernels to compile", *(f"  {k[:12]} {s:6.2f} s" for k, s in slowest)]
        return "\n".join(lines)
