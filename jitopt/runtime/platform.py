"""What depends on the operating system or the instruction set, as functions in LLVM IR for the native driver.

    void @platform_wait(ptr word, i32 seen)  sleep while *word is seen; may return for no reason
    void @platform_wake(ptr word, i32 count) wake up to count sleepers on word
    void @platform_pause()                   a short rest inside a spin loop
    i64  @platform_clock()                   a steady counter, quick to read; `ticks_per_second` measures its rate
    i32  @platform_float_enter(i64 flush)    set the default floating-point state, with denormals flushed or not
    void @platform_float_leave(i32 state)    restore what `enter` returned

Inline assembly aborts the process under this JIT; LLVM's target intrinsics do the same work.
"""

from __future__ import annotations

import functools
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE = 128, 129  # linux/futex.h: FUTEX_WAIT, FUTEX_WAKE with FUTEX_PRIVATE_FLAG

_X86 = """
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare i64 @llvm.readcyclecounter()

define internal void @platform_pause() alwaysinline {
  call void @llvm.x86.sse2.pause()
  ret void
}
define internal i64 @platform_clock() alwaysinline {
  %now = call i64 @llvm.readcyclecounter()
  ret i64 %now
}
define internal i32 @platform_float_enter(i64 %flush) alwaysinline {
  %word = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  %state = load i32, ptr %word
  %flushed = icmp ne i64 %flush, 0
  %wanted = select i1 %flushed, i32 40896, i32 8064  ; 0x9fc0: 0x1f80 (all masked, to nearest) | FTZ | DAZ
  store i32 %wanted, ptr %word
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  ret i32 %state
}
define internal void @platform_float_leave(i32 %state) alwaysinline {
  %word = alloca i32
  store i32 %state, ptr %word
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  ret void
}
"""

_ARM = """
declare void @llvm.aarch64.hint(i32)
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
declare i64 @llvm.readsteadycounter()

define internal void @platform_pause() alwaysinline {
  call void @llvm.aarch64.hint(i32 1)  ; YIELD
  ret void
}
define internal i64 @platform_clock() alwaysinline {
  %now = call i64 @llvm.readsteadycounter()
  ret i64 %now
}
define internal i32 @platform_float_enter(i64 %flush) alwaysinline {
  %register = call i64 @llvm.aarch64.get.fpcr()
  %state = trunc i64 %register to i32
  %flushed = icmp ne i64 %flush, 0
  %wanted = select i1 %flushed, i64 16777216, i64 0  ; FZ, bit 24; to nearest
  call void @llvm.aarch64.set.fpcr(i64 %wanted)
  ret i32 %state
}
define internal void @platform_float_leave(i32 %state) alwaysinline {
  %register = zext i32 %state to i64
  call void @llvm.aarch64.set.fpcr(i64 %register)
  ret void
}
"""

_LINUX = """
declare i64 @syscall(i64, ...)

define internal void @platform_wait(ptr %word, i32 %seen) {{
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i64 {wait}, i32 %seen, ptr null, ptr null, i32 0)
  ret void
}}
define internal void @platform_wake(ptr %word, i32 %count) {{
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i64 {wake}, i32 %count, ptr null, ptr null, i32 0)
  ret void
}}
"""

_NO_SLEEP = """
define internal void @platform_wait(ptr %word, i32 %seen) {
  ret void
}
define internal void @platform_wake(ptr %word, i32 %count) {
  ret void
}
"""


@dataclass(frozen=True)
class Platform:
    """The functions of this machine as IR; `can_sleep`: threads can wait without using the CPU."""

    ir: str
    can_sleep: bool


@functools.cache
def this_platform() -> Platform:
    """Raises OSError on a machine the driver has no functions for. Elsewhere than on Linux runs use one thread."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    known = {"x86_64": (_X86, 202), "aarch64": (_ARM, 98)}  # and the number of the futex system call
    if machine not in known:
        raise OSError(f"jitopt's driver does not know {machine!r} machines; it knows {', '.join(known)}")
    instructions, futex = known[machine]
    if sys.platform != "linux":
        return Platform(instructions + _NO_SLEEP, can_sleep=False)
    sleep = _LINUX.format(futex=futex, wait=FUTEX_WAIT_PRIVATE, wake=FUTEX_WAKE_PRIVATE)
    return Platform(instructions + sleep, can_sleep=True)


def measure_ticks(clock: Callable[[], int], seconds: float = 0.02) -> float:
    """Ticks a second of a counter, against the system's monotonic clock."""
    start, begun = clock(), time.perf_counter_ns()
    while (passed := time.perf_counter_ns() - begun) < seconds * 1e9:
        time.sleep(seconds / 4)
    return (clock() - start) * 1e9 / passed
