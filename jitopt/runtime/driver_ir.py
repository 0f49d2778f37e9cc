"""The native driver as LLVM IR: one call walks the step table on every thread of a run.

    i64  @run(ptr block, ptr team, i64 nthreads)   run a step table; returns how many steps were begun
    void @worker(ptr team, i64 tid)                the life of a worker thread; returns after @dismiss
    void @dismiss(ptr team, i64 tid)               end a worker
    i64  @clock()                                  the counter of the stamps

A run block is int64 words (see `BLOCK`); the team block holds one barrier and a mailbox a worker, each on cache lines
of its own. A worker sleeps on its mailbox's epoch. A run posts its block to workers 1 and 2, each passes it on to two
more, so waking n threads takes log2(n) wakes in a row. All threads walk the table; the barrier at the end makes a run
over for everybody before the caller returns, and the team's memory is never freed, so a late reader finds it.

Termination: alone, the flag is read before each step. In a team the last thread to arrive at a barrier reads it and
publishes the verdict with the barrier, so all threads leave at the same step.
"""

from __future__ import annotations

from jitopt.runtime.steps import BARRIER, ONE_THREAD

BLOCK_WORDS = 7
STEPS, COUNT, TERMINATE, STAMPS, FLUSH, WAITED, TOOK = range(BLOCK_WORDS)
"""Words of a run block: table address, number of steps, address of the terminate word or 0, address of the stamps (two
words a profile slot: clock at begin and end on the calling thread) or 0, whether denormals are flushed. The last two
are written by a run of a team: how many ticks the caller waited for others, and how many the run took."""

GENERATION, ARRIVED, SLEEPERS, STOP, MAILBOXES = (128 * line for line in range(5))
MAILBOX_BYTES = 128
"""Byte offsets in a team block. A mailbox: epoch (i32), then at 8 the run block (0: leave) and at 16 nthreads."""

SPIN_TICKS = 100_000
"""How long a thread spins at a barrier before it sleeps: 20 to 50 us on x86, whose counter runs at 2 to 5 GHz."""

FIRST_SPIN_TICKS = 20_000
"""How long the caller spins at the first barrier of a run. The kernel may have put a woken worker on the caller's own
CPU, where it cannot begin before the caller sleeps: measured, 50 us a run with the long spin and 18 with this."""

SYMBOLS = ("run", "worker", "dismiss", "clock")

IR = f"""
define i64 @clock() {{
  %now = call i64 @platform_clock()
  ret i64 %now
}}

define internal void @post(ptr %team, i64 %tid, i64 %block, i64 %nthreads) {{
  %offset = mul i64 %tid, {MAILBOX_BYTES}
  %at = add i64 %offset, {MAILBOXES}
  %box = getelementptr i8, ptr %team, i64 %at
  %block_at = getelementptr i8, ptr %box, i64 8
  %nthreads_at = getelementptr i8, ptr %box, i64 16
  store i64 %block, ptr %block_at
  store i64 %nthreads, ptr %nthreads_at
  %old = atomicrmw add ptr %box, i32 1 release
  call void @platform_wake(ptr %box, i32 1)
  ret void
}}

define void @dismiss(ptr %team, i64 %tid) {{
  call void @post(ptr %team, i64 %tid, i64 0, i64 0)
  ret void
}}

; pass a run on to the two workers below this thread in the tree
define internal void @pass_on(ptr %team, i64 %tid, i64 %block, i64 %nthreads) {{
  %double = mul i64 %tid, 2
  %left = add i64 %double, 1
  %right = add i64 %double, 2
  %has_left = icmp slt i64 %left, %nthreads
  br i1 %has_left, label %first, label %done
first:
  call void @post(ptr %team, i64 %left, i64 %block, i64 %nthreads)
  %has_right = icmp slt i64 %right, %nthreads
  br i1 %has_right, label %second, label %done
second:
  call void @post(ptr %team, i64 %right, i64 %block, i64 %nthreads)
  br label %done
done:
  ret void
}}

; all threads meet; true when the run is to stop; patience[0]: ticks to spin, afterwards the long time; [1]: ticks lost
define internal i1 @meet(ptr %team, i64 %nthreads, ptr %terminate, ptr %patience) {{
entry:
  %generation = getelementptr i8, ptr %team, i64 {GENERATION}
  %arrived = getelementptr i8, ptr %team, i64 {ARRIVED}
  %sleepers = getelementptr i8, ptr %team, i64 {SLEEPERS}
  %stop = getelementptr i8, ptr %team, i64 {STOP}
  %seen = load atomic i32, ptr %generation monotonic, align 4  ; cannot move before this thread arrives
  %before = atomicrmw add ptr %arrived, i64 1 acq_rel
  %others = sub i64 %nthreads, 1
  %last = icmp eq i64 %before, %others
  br i1 %last, label %open, label %begin
open:
  store atomic i64 0, ptr %arrived monotonic, align 8
  %asked = icmp ne ptr %terminate, null
  br i1 %asked, label %ask, label %release
ask:
  %verdict = load atomic i64, ptr %terminate monotonic, align 8
  store atomic i64 %verdict, ptr %stop monotonic, align 8
  br label %release
release:
  %next = add i32 %seen, 1
  store atomic i32 %next, ptr %generation seq_cst, align 4
  %asleep = load atomic i32, ptr %sleepers seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %wake, label %out
wake:
  call void @platform_wake(ptr %generation, i32 2147483647)
  br label %out
begin:
  %ticks = load i64, ptr %patience
  %start = call i64 @platform_clock()
  br label %spin
spin:
  %spun = load atomic i32, ptr %generation acquire, align 4
  %waiting = icmp eq i32 %spun, %seen
  br i1 %waiting, label %rest, label %waited
rest:
  call void @platform_pause()
  %now = call i64 @platform_clock()
  %passed = sub i64 %now, %start
  %patient = icmp ult i64 %passed, %ticks
  br i1 %patient, label %spin, label %lie_down
lie_down:
  %down = atomicrmw add ptr %sleepers, i32 1 seq_cst
  br label %asleep_yet
asleep_yet:
  %slept = load atomic i32, ptr %generation seq_cst, align 4
  %still = icmp eq i32 %slept, %seen
  br i1 %still, label %sleep, label %get_up
sleep:
  call void @platform_wait(ptr %generation, i32 %seen)
  br label %asleep_yet
get_up:
  %up = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %waited
waited:
  %gone = call i64 @platform_clock()
  %lost = sub i64 %gone, %start
  %lost_at = getelementptr i64, ptr %patience, i64 1
  %before_lost = load i64, ptr %lost_at
  %all_lost = add i64 %before_lost, %lost
  store i64 %all_lost, ptr %lost_at
  br label %out
out:
  store i64 {SPIN_TICKS}, ptr %patience
  %said = load atomic i64, ptr %stop monotonic, align 8
  %stopped = icmp ne i64 %said, 0
  ret i1 %stopped
}}

define internal i64 @walk(ptr %block, ptr %team, i64 %tid, i64 %nthreads, ptr %patience) {{
entry:
  %count_at = getelementptr i64, ptr %block, i64 {COUNT}
  %terminate_at = getelementptr i64, ptr %block, i64 {TERMINATE}
  %stamps_at = getelementptr i64, ptr %block, i64 {STAMPS}
  %flush_at = getelementptr i64, ptr %block, i64 {FLUSH}
  %steps = load ptr, ptr %block
  %count = load i64, ptr %count_at
  %terminate = load ptr, ptr %terminate_at
  %stamps = load ptr, ptr %stamps_at
  %flush = load i64, ptr %flush_at
  %state = call i32 @platform_float_enter(i64 %flush)
  %alone = icmp eq i64 %nthreads, 1
  %caller = icmp eq i64 %tid, 0
  %has_stamps = icmp ne ptr %stamps, null
  %stamping = and i1 %caller, %has_stamps
  %has_flag = icmp ne ptr %terminate, null
  %asking = and i1 %alone, %has_flag
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i_next, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %step, label %out
step:
  %at = mul i64 %i, 4
  %kernel_at = getelementptr i64, ptr %steps, i64 %at
  %args_at = getelementptr i64, ptr %kernel_at, i64 1
  %flags_at = getelementptr i64, ptr %kernel_at, i64 2
  %slot_at = getelementptr i64, ptr %kernel_at, i64 3
  %kernel = load ptr, ptr %kernel_at
  %args = load i64, ptr %args_at
  %flags = load i64, ptr %flags_at
  br i1 %asking, label %ask, label %order
ask:
  %wish = load atomic i64, ptr %terminate monotonic, align 8
  %wished = icmp ne i64 %wish, 0
  br i1 %wished, label %out, label %order
order:
  %barrier_bit = and i64 %flags, {BARRIER}
  %barrier = icmp ne i64 %barrier_bit, 0
  %together = xor i1 %alone, true
  %meeting = and i1 %barrier, %together
  br i1 %meeting, label %join, label %who
join:
  %stopped = call i1 @meet(ptr %team, i64 %nthreads, ptr %terminate, ptr %patience)
  br i1 %stopped, label %out, label %who
who:
  %single_bit = and i64 %flags, {ONE_THREAD}
  %single = icmp ne i64 %single_bit, 0
  %other = xor i1 %caller, true
  %skip = and i1 %single, %other
  br i1 %skip, label %next, label %work
work:
  %shares = select i1 %single, i64 1, i64 %nthreads
  br i1 %stamping, label %timed, label %plain
plain:
  call void %kernel(i64 %args, i64 %tid, i64 %shares)
  br label %next
timed:
  %slot = load i64, ptr %slot_at
  %pair = mul i64 %slot, 2
  %began_at = getelementptr i64, ptr %stamps, i64 %pair
  %ended_at = getelementptr i64, ptr %began_at, i64 1
  %began = call i64 @platform_clock()
  call void %kernel(i64 %args, i64 %tid, i64 %shares)
  %ended = call i64 @platform_clock()
  store i64 %began, ptr %began_at
  store i64 %ended, ptr %ended_at
  br label %next
next:
  %i_next = add i64 %i, 1
  br label %loop
out:
  call void @platform_float_leave(i32 %state)
  ret i64 %i
}}

define i64 @run(ptr %block, ptr %team, i64 %nthreads) {{
entry:
  %alone = icmp eq i64 %nthreads, 1
  br i1 %alone, label %here, label %everybody
here:
  %count = call i64 @walk(ptr %block, ptr null, i64 0, i64 1, ptr null)
  ret i64 %count
everybody:
  %patience = alloca i64, i64 2
  %waited_at = getelementptr i64, ptr %patience, i64 1
  store i64 {FIRST_SPIN_TICKS}, ptr %patience
  store i64 0, ptr %waited_at
  %begun = call i64 @platform_clock()
  %stop = getelementptr i8, ptr %team, i64 {STOP}
  store atomic i64 0, ptr %stop monotonic, align 8
  %word = ptrtoint ptr %block to i64
  call void @pass_on(ptr %team, i64 0, i64 %word, i64 %nthreads)
  %counted = call i64 @walk(ptr %block, ptr %team, i64 0, i64 %nthreads, ptr %patience)
  %over = call i1 @meet(ptr %team, i64 %nthreads, ptr null, ptr %patience)
  %ended = call i64 @platform_clock()
  %took = sub i64 %ended, %begun
  %waited = load i64, ptr %waited_at
  %waited_word = getelementptr i64, ptr %block, i64 {WAITED}
  %took_word = getelementptr i64, ptr %block, i64 {TOOK}
  store i64 %waited, ptr %waited_word
  store i64 %took, ptr %took_word
  ret i64 %counted
}}

define void @worker(ptr %team, i64 %tid) {{
entry:
  %patience = alloca i64, i64 2
  %waited_at = getelementptr i64, ptr %patience, i64 1
  store i64 0, ptr %waited_at
  store i64 {SPIN_TICKS}, ptr %patience
  %offset = mul i64 %tid, {MAILBOX_BYTES}
  %at = add i64 %offset, {MAILBOXES}
  %box = getelementptr i8, ptr %team, i64 %at
  %block_at = getelementptr i8, ptr %box, i64 8
  %nthreads_at = getelementptr i8, ptr %box, i64 16
  br label %wait
wait:
  %seen = phi i32 [ 0, %entry ], [ %seen, %sleep ], [ %epoch, %work ]
  %epoch = load atomic i32, ptr %box acquire, align 4
  %nothing = icmp eq i32 %epoch, %seen
  br i1 %nothing, label %sleep, label %look
sleep:
  call void @platform_wait(ptr %box, i32 %seen)
  br label %wait
look:
  %word = load i64, ptr %block_at
  %nthreads = load i64, ptr %nthreads_at
  %leave = icmp eq i64 %word, 0
  br i1 %leave, label %out, label %work
work:
  call void @pass_on(ptr %team, i64 %tid, i64 %word, i64 %nthreads)
  %block = inttoptr i64 %word to ptr
  %count = call i64 @walk(ptr %block, ptr %team, i64 %tid, i64 %nthreads, ptr %patience)
  %over = call i1 @meet(ptr %team, i64 %nthreads, ptr null, ptr %patience)
  br label %wait
out:
  ret void
}}
"""
