//! Operations that are asked for together, and go to a device together.

use std::time::Instant;

use super::buffer::{ReadBuffer, WriteBuffer};
use super::copies::{Copies, Engine};
use super::device::{Device, Way};
use super::flow::{How, TOGETHER};
use super::held::Held;
use super::offloading::Offloading;
use super::request::{Copying, Request, sealed};
use super::route::{BatchGain, BatchGoes, Mode};
use super::submitted::Otherwise;
use super::timing::{Batch, DeviceTiming};
use super::{Operation, cpu};

/// Begins copies of these pairs, in their order, and adds each one's future to `into`.
#[inline]
pub(super) fn copy_many<S: ReadBuffer, D: WriteBuffer>(
    copies: &Copies,
    pairs: impl IntoIterator<Item = (S, D)>,
    into: &mut Vec<Offloading<Copying<S, D>>>,
) {
    let mut pairs = pairs.into_iter();
    while pairs.size_hint().1 != Some(0) {
        // Of those that say nothing one is looked for.
        let wanted = pairs.size_hint().0.clamp(1, TOGETHER);
        into.reserve(wanted);
        // In their places, before they begin: nobody else's code runs between the first that begins and the last.
        let asked = Asked { copies, from: into.len(), into };
        for _ in 0..wanted {
            let Some((src, dst)) = pairs.next() else { return };
            // SAFETY: there is capacity for as many as are wanted, reserved just now; what the iterator does cannot touch the vector, which is borrowed.
            unsafe { Offloading::ask_within(asked.into, Held::new(Copying { src, dst })) };
        }
    }
}

/// Futures from a place of the vector on, that begin when this is dropped: also if the iterator that they come from panics.
struct Asked<'a, S: ReadBuffer, D: WriteBuffer> {
    copies: &'a Copies,
    into: &'a mut Vec<Offloading<Copying<S, D>>>,
    from: usize,
}

impl<S: ReadBuffer, D: WriteBuffer> Drop for Asked<'_, S, D> {
    #[inline(always)]
    fn drop(&mut self) {
        let asked = &mut self.into[self.from..];
        let plainly = match (&self.copies.center.device, self.copies.engine) {
            // One alone is no batch.
            (Some(device), Engine::Auto | Engine::Device) if asked.len() > 1 => device.begin_copies(self.copies, asked),
            _ => 0,
        };
        if plainly < asked.len() {
            begin(self.copies, &mut asked[plainly..]);
        }
    }
}

impl Device {
    /// Begins the first of these together, as far as nothing about them is unusual. How many.
    #[inline(always)]
    fn begin_copies<S: ReadBuffer, D: WriteBuffer>(
        &self,
        copies: &Copies,
        asked: &mut [Offloading<Copying<S, D>>],
    ) -> usize {
        let (demanded, intent) = (copies.engine == Engine::Device, copies.intent);
        // SAFETY: the buffers' owner stays beside each ticket until it is over, or is left with it; buffers do not fork.
        unsafe {
            self.submit_copies(
                demanded,
                intent,
                asked,
                |one| one.request().copy(),
                |one, ticket| one.with_device(ticket),
            )
            .map_or(0, |tickets| tickets.count())
        }
    }
}

/// Begins operations, together as far as one queue takes them whole.
#[cold]
fn begin<R: Request>(copies: &Copies, mut asked: &mut [Offloading<R>]) {
    let device = copies.center.device.as_ref().filter(|_| !matches!(copies.engine, Engine::Cpu | Engine::CpuHere));
    while !asked.is_empty() {
        let begun = device.map_or(0, |device| begin_some(copies, device, asked));
        if begun == 0 {
            asked[0].begin(copies);
        }
        asked = &mut asked[begun.max(1)..];
    }
}

/// Begins some of them, the first ones, together. How many.
fn begin_some<R: Request>(copies: &Copies, device: &Device, asked: &mut [Offloading<R>]) -> usize {
    let mut operations = [Operation::Nop; TOGETHER];
    let (mut count, mut together, mut gain) = (0, None::<How>, BatchGain::default());
    let mut timed = false;
    for one in asked.iter_mut().take(TOGETHER) {
        match suited(copies, device, one.request(), &mut timed) {
            Some((operation, how)) if together.is_none_or(|first| first.queue == how.queue) => {
                gain.add(&device.router, operation.kind(), copies.intent, operation.len());
                (operations[count], together) = (operation, Some(how));
                count += 1;
            }
            _ => break,
        }
    }
    let Some(how) = together else { return 0 };
    let demanded = copies.engine == Engine::Device;
    if !demanded {
        match device.router.batch_goes(gain) {
            BatchGoes::AsItPays => {}
            BatchGoes::AsATrial => timed = true,
            BatchGoes::Not => {
                // None of them pays alone, or all would go.
                asked[..count].iter_mut().for_each(|one| one.begin(copies));
                return count;
            }
        }
    }
    if timed {
        return begin_timed(copies, device, how, &operations[..count], asked);
    }
    let mut begun = 0;
    let sink = |ticket| {
        asked[begun].with_device(ticket);
        begun += 1;
    };
    // SAFETY: the futures hold the memory beside their tickets until it is over, or leave it with them.
    let _ = unsafe { device.flow.submit_many(&operations[..count], how, sink) };
    begun
}

/// Begins these together, of which the router wants to know what they take. How many.
#[cold]
fn begin_timed<R: Request>(
    copies: &Copies,
    device: &Device,
    how: How,
    operations: &[Operation],
    asked: &mut [Offloading<R>],
) -> usize {
    let mut tickets = Vec::with_capacity(operations.len());
    let began = Instant::now();
    // SAFETY: the futures get the tickets next, and hold the memory beside them until it is over, or leave it with them.
    let _ = unsafe { device.flow.submit_many(operations, how, |ticket| tickets.push(ticket)) };
    let (spent, begun) = (began.elapsed(), tickets.len());
    let batch = Batch::new(&operations[0], copies.intent, begun, spent);
    for (one, ticket) in asked.iter_mut().zip(tickets) {
        let (demanded, timing) = (copies.engine == Engine::Device, DeviceTiming::of_batch(&batch));
        one.with_device_timed(Otherwise::of_batch(&copies.center, ticket, how, demanded, timing));
    }
    begun
}

/// The operation and its way, if it can go with others: to a device, and whole. And whether it is timed.
#[inline]
fn suited<R: Request>(
    copies: &Copies,
    device: &Device,
    request: &mut R,
    is_timed: &mut bool,
) -> Option<(Operation, How)> {
    let sealed::Described(operation) = request.operation().ok()?;
    if operation.len() == 0 || cpu::check(&operation).is_err() {
        return None;
    }
    match device.way(&operation, copies.intent, copies.engine, Mode::Batched, false) {
        Way::Queue { how, timed } if operation.len() <= device.transfer_max(how.queue) => {
            *is_timed |= timed;
            Some((operation, how))
        }
        _ => None,
    }
}
