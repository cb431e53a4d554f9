//! `submit_instructions_single`, `submit_instructions_batch8`: what does it cost the core to hand a copy to a device?
//!
//! **Method.** Instructions from the entry of `copy()`, the future's first poll included, to its return; 4 KiB `Vec`s that are warm, a queue whose
//! portal takes 64 bytes and does nothing ([`NullQueue`]). By valgrind's count, of one function only, as the slope between 1000 and 2000 of them. Each copy is finished,
//! and its future polled to its end, outside of what is counted. One copy is outstanding all the time, as in a service that has any: the reaper is awake.
//!
//! *Single* is one copy that is submitted at once; *batch8* is `copy_all` with eight, and the first poll of its future, an eighth of it each. Beside, an eighth of each as
//! well: the same without the poll (`unpolled`); `copy_many`, with a future a copy, which are not polled (`many`); eight calls of `copy()` that end in one batch, not polled
//! either (`gathered`).
//!
//! **Reference.** None that can be run here. Counted by hand in DPDK's idxd: 126 for enqueue and submit, 79 an operation in a batch of 8.
//!
//! **Bound.** 150, and 60. A version that submits nothing is found out: the queue's page must hold every descriptor.

use std::future::Future;
use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use twolane::offload::dsa::abi::Descriptor;
use twolane::offload::{Copies, Copying, CopyingAll, Engine, Offloading};
use twolane::sim::dsa::NullQueue;
use twolane::{Placement, Runtime};

use crate::common::figure::{Bound, Figure};
use crate::common::lanes::Machine;

const BYTES: usize = 4 << 10;
const BATCH: usize = 8;
/// The copy that keeps the reaper awake is renewed so often: before its deadline, also under valgrind.
const ANCHOR_EVERY: u32 = 16;
/// Passes of the reaper that are waited for at most.
const PASSES: u32 = 500;
/// Valgrind is slow, and the machine may be busy: nothing is to be given up.
const DEADLINE: Duration = Duration::from_secs(60);
/// Batches between two passes of the reaper that are waited for: a page has slots for six, and under valgrind each wait takes 40 ms.
const REAPED_EVERY: u32 = 4;
/// Long enough for a pass of the reaper, also under valgrind, which lets one thread run at a time.
const REAPED: Duration = Duration::from_millis(1);

type Copy = Offloading<Copying<Vec<u8>, Vec<u8>>>;
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

pub fn single(_: &Machine) -> Result<Figure, String> {
    Ok(Figure::exact("submit_instructions_single", slope("single")?, Bound::AtMost(150.0)))
}

pub fn batch8(_: &Machine) -> Result<Figure, String> {
    let figure = Figure::exact("submit_instructions_batch8", slope("batch8")? / BATCH as f64, Bound::AtMost(60.0));
    let beside = |what| slope_of(what, BESIDE);
    let (unpolled, many) = (beside("unpolled8")? / BATCH as f64, beside("many8")? / BATCH as f64);
    // The reaper submits some of what is gathered, and may store over what was not taken yet: such a run is of no use, and says so.
    let gathered = beside("gathered8").or_else(|_| beside("gathered8"))?;
    let figure = figure.beside("unpolled8_instructions", unpolled).beside("many8_instructions", many);
    Ok(figure.beside("gathered8_instructions", gathered / BATCH as f64))
}

/// What is counted, but for what is [done after](uncounted_finish). The future is made and polled where it stays, as a task's is.
#[inline(never)]
fn submit_single(copies: &Copies, pair: (Vec<u8>, Vec<u8>), cx: &mut Context<'_>, after: &mut After<'_>) {
    let mut copying = copies.copy(pair.0, pair.1);
    if let Poll::Ready(done) = Pin::new(&mut copying).poll(cx) {
        return born_ready(done, after);
    }
    uncounted_finish(&mut copying, after);
    std::mem::forget(copying); // answered: there is nothing in it
}

/// What must not be.
#[cold]
#[inline(never)]
fn born_ready(_: <Copy as Future>::Output, after: &mut After<'_>) {
    after.submitted = Err("a copy to a device was born ready".into());
}

/// As [`born_ready`].
#[cold]
#[inline(never)]
fn all_born_ready(_: <CopyingAll<Vec<u8>, Vec<u8>> as Future>::Output, after: &mut Result<(Pairs, usize), String>) {
    *after = Err("copies to a device were born ready".into());
}

/// What comes after what is counted.
struct After<'a> {
    null: &'a NullQueue,
    pairs: &'a mut Pairs,
    submitted: Result<usize, String>,
}

/// Switches counting off, and on again when it returns. Finishes the copy, and takes its buffers out.
#[inline(never)]
fn uncounted_finish(copying: &mut Copy, after: &mut After<'_>) {
    let mut cx = Context::from_waker(Waker::noop());
    after.submitted = finish_one(copying, after.null, after.pairs, &mut cx);
}

/// What is counted, without the poll.
#[inline(never)]
fn submit_unpolled8(copies: &Copies, pairs: Pairs, null: &NullQueue, after: &mut Result<(Pairs, usize), String>) {
    let mut copying = copies.copy_all(pairs);
    uncounted_finish_all(&mut copying, null, after);
    std::mem::forget(copying); // answered: there is nothing in it
}

/// What is counted, but for what is done after. The future is made and polled where it stays, as a task's is.
#[inline(never)]
fn submit_batch8(
    copies: &Copies,
    pairs: Pairs,
    cx: &mut Context<'_>,
    null: &NullQueue,
    after: &mut Result<(Pairs, usize), String>,
) {
    let mut copying = copies.copy_all(pairs);
    if let Poll::Ready(done) = Pin::new(&mut copying).poll(cx) {
        return all_born_ready(done, after);
    }
    uncounted_finish_all(&mut copying, null, after);
    std::mem::forget(copying); // answered: there is nothing in it
}

/// As [`uncounted_finish`], of all of them.
#[inline(never)]
fn uncounted_finish_all(
    copying: &mut CopyingAll<Vec<u8>, Vec<u8>>,
    null: &NullQueue,
    after: &mut Result<(Pairs, usize), String>,
) {
    let (mut cx, mut submitted) = (Context::from_waker(Waker::noop()), 0);
    *after = Err("nothing was submitted".into());
    for _ in 0..PASSES {
        match finish_what_came(null) {
            Ok(came) => submitted += came,
            Err(error) => return *after = Err(error),
        }
        if let Poll::Ready(done) = Pin::new(&mut *copying).poll(&mut cx) {
            return *after = done.map(|pairs| (pairs, submitted)).map_err(|failed| failed.to_string());
        }
        std::thread::sleep(REAPED);
    }
}

/// What is counted.
#[inline(never)]
fn submit_many8(copies: &Copies, pairs: &mut Pairs, into: &mut Vec<Copy>) {
    copies.copy_many(pairs.drain(..), into);
}

/// What is counted.
#[inline(never)]
fn submit_gathered8(copies: &Copies, pairs: &mut Pairs, into: &mut Vec<Copy>) {
    for (src, dst) in pairs.drain(..) {
        into.push(copies.copy(src, dst));
    }
}

/// `--submit`: so many of these and nothing else.
pub fn count(what: &str, times: &str) -> Result<(), String> {
    let times = times.parse::<u32>().map_err(|_| format!("--submit: `{times}` is no number"))?;
    let null = NullQueue::new().map_err(|error| error.to_string())?;
    let runtime = Runtime::builder().placement(Placement::Unpinned).pairs(1).env_overrides(false);
    let runtime = runtime.copy_timeout(DEADLINE).null_queue(&null);
    let runtime = runtime.build().map_err(|error| error.to_string())?;
    let copies = runtime.copies().on(Engine::Device);
    let mut cx = Context::from_waker(Waker::noop());
    let mut pairs: Vec<_> = (0..BATCH).map(|_| (vec![1; BYTES], vec![0; BYTES])).collect();
    let mut copying = Vec::with_capacity(BATCH);
    let mut anchor = None;
    for turn in 0..times {
        if turn % ANCHOR_EVERY == 0 {
            let next = Anchor::drop_into(&copies, &null)?;
            if let Some(last) = anchor.replace(next) {
                last.lift(&null, &mut cx)?;
            }
        }
        let mut one = 0;
        match what {
            "single" => {
                let pair = pairs.pop().ok_or("a pair is missing")?;
                let mut after = After { null: &null, pairs: &mut pairs, submitted: Ok(0) };
                submit_single(&copies, pair, &mut cx, &mut after);
                one = after.submitted?;
            }
            "batch8" | "unpolled8" => {
                let (all, mut after) = (std::mem::take(&mut pairs), Ok((Vec::new(), 0)));
                match what {
                    "batch8" => submit_batch8(&copies, all, &mut cx, &null, &mut after),
                    _ => submit_unpolled8(&copies, all, &null, &mut after),
                }
                (pairs, one) = after?;
            }
            "many8" => submit_many8(&copies, &mut pairs, &mut copying),
            "gathered8" => {
                submit_gathered8(&copies.clone().gathered(true), &mut pairs, &mut copying);
                copies.flush_gathered();
            }
            _ => return Err(format!("--submit: `{what}` is none of single, batch8, unpolled8, many8, gathered8")),
        }
        let submitted = one + finish_all(&null, &mut copying, &mut pairs, &mut cx)?;
        // Under valgrind what is gathered grows old before it is complete.
        let expected = if what == "gathered8" { 1..=BATCH } else { 1..=1 };
        if !expected.contains(&submitted) {
            return Err(format!("{submitted} descriptors were submitted for one {what}"));
        }
        // The reaper gives back the batch's own slot and credit; until it does there is room for a few batches more.
        if turn % REAPED_EVERY == 0 {
            std::thread::sleep(REAPED);
        }
    }
    if let Some(last) = anchor {
        last.lift(&null, &mut cx)?;
    }
    Ok(())
}

/// What was submitted. Where every slot or credit was taken, that is after the reaper's next pass.
fn taken(null: &NullQueue) -> Result<Vec<Descriptor>, String> {
    for _ in 0..PASSES {
        let submitted = null.take().map_err(|error| error.to_string())?;
        if !submitted.is_empty() {
            return Ok(submitted);
        }
        std::thread::sleep(REAPED);
    }
    Err("nothing was submitted".into())
}

/// Says of all that they are done, and takes the buffers back. Returns how many descriptors were submitted for them: the reaper may be submitting some of
/// what is gathered meanwhile.
fn finish_all(
    null: &NullQueue,
    copying: &mut Vec<Copy>,
    pairs: &mut Pairs,
    cx: &mut Context<'_>,
) -> Result<usize, String> {
    let mut submitted = 0;
    for mut copy in copying.drain(..) {
        submitted += finish_one(&mut copy, null, pairs, cx)?;
    }
    Ok(submitted)
}

/// As [`finish_all`], of one.
fn finish_one(copy: &mut Copy, null: &NullQueue, pairs: &mut Pairs, cx: &mut Context<'_>) -> Result<usize, String> {
    let mut submitted = 0;
    for _ in 0..PASSES {
        submitted += finish_what_came(null)?;
        if let Poll::Ready(done) = Pin::new(&mut *copy).poll(cx) {
            pairs.push(done.map_err(|failed| failed.to_string())?);
            return Ok(submitted);
        }
        std::thread::sleep(REAPED);
    }
    Err("nothing was submitted".into())
}

/// Says of all that was submitted that it is done. How many descriptors that were.
fn finish_what_came(null: &NullQueue) -> Result<usize, String> {
    let taken = null.take().map_err(|error| error.to_string())?;
    // SAFETY: just taken, and the runtime runs.
    taken.iter().for_each(|descriptor| unsafe { null.finish(descriptor) });
    Ok(taken.len())
}

fn finished(mut copy: Copy, cx: &mut Context<'_>) -> Result<(), String> {
    for _ in 0..PASSES {
        if let Poll::Ready(done) = Pin::new(&mut copy).poll(cx) {
            return done.map(drop).map_err(|failed| failed.to_string());
        }
        std::thread::sleep(REAPED);
    }
    Err("an operation that is done does not answer".into())
}

/// A copy that stays outstanding.
struct Anchor {
    copy: Copy,
    descriptor: Descriptor,
}

impl Anchor {
    fn drop_into(copies: &Copies, null: &NullQueue) -> Result<Self, String> {
        let copy = copies.copy(vec![1; BYTES], vec![0; BYTES]);
        let submitted = taken(null)?;
        let [descriptor] = submitted[..] else { return Err(format!("{} descriptors for one copy", submitted.len())) };
        Ok(Self { copy, descriptor })
    }

    fn lift(self, null: &NullQueue, cx: &mut Context<'_>) -> Result<(), String> {
        // SAFETY: taken by `drop_into`, finished once, and the runtime runs.
        unsafe { null.finish(&self.descriptor) };
        finished(self.copy, cx)
    }
}

/// Submissions between which a slope is taken that has a bound.
const JUDGED: [u32; 2] = [1_000, 2_000];
/// And one that stands beside: fewer, since valgrind takes some 15 ms for each.
const BESIDE: [u32; 2] = [100, 200];

/// Instructions of one more.
fn slope(what: &str) -> Result<f64, String> {
    slope_of(what, JUDGED)
}

fn slope_of(what: &str, [few, many]: [u32; 2]) -> Result<f64, String> {
    let counted = instructions(what, many)? - instructions(what, few)?;
    Ok(counted / f64::from(many - few))
}

/// Instructions in the function that is counted.
fn instructions(what: &str, times: u32) -> Result<f64, String> {
    let bench = std::env::current_exe().map_err(|error| error.to_string())?;
    let out = std::env::temp_dir().join(format!("twolane-submit-{what}-{times}-{}.callgrind", std::process::id()));
    let output = Command::new("valgrind")
        // Fair: the reaper does not keep the other thread waiting.
        .args(["--tool=callgrind", "--collect-atstart=no", "--fair-sched=try"])
        .arg(format!("--toggle-collect=*submit_{what}*"))
        .arg("--toggle-collect=*uncounted_finish*")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(bench)
        .args(["--submit", what, &times.to_string()])
        .output()
        .map_err(|error| {
            format!("valgrind, which counts instructions, did not start: {error}; apt-get install valgrind")
        })?;
    let _ = std::fs::remove_file(&out);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(format!("valgrind failed: {said}"));
    }
    let collected = said.lines().find_map(|line| line.split("Collected : ").nth(1)?.trim().parse::<f64>().ok());
    match collected {
        Some(count) if count > 0.0 => Ok(count),
        _ => Err(format!("valgrind counted nothing in submit_{what}: {said}")),
    }
}
