//! Operations that are asked for together, and go to a device together.

use super::copies::{Copies, Engine};
use super::device::{Device, Way};
use super::flow::How;
use super::held::Held;
use super::offloading::Offloading;
use super::request::{Request, sealed};
use super::route::{BatchGain, Mode};
use super::submitted::Submitted;
use super::{Operation, cpu};

/// Operations that are looked at together: a batch, as many as pay (see `batch`).
const TOGETHER: usize = 8;

/// Starts the requests, in their order, and gives each one's future to `each`.
#[inline]
pub(super) fn start_many<R: Request>(
    copies: &Copies,
    requests: impl IntoIterator<Item = R>,
    mut each: impl FnMut(Offloading<R>),
) {
    let mut requests = requests.into_iter();
    let Some(device) =
        copies.center.device.as_ref().filter(|_| !matches!(copies.engine, Engine::Cpu | Engine::CpuHere))
    else {
        return requests.for_each(|request| each(Offloading::start(copies, request)));
    };
    let mut group = Group::<R>::new();
    loop {
        let next = requests.next();
        let last = next.is_none();
        if let Some(mut request) = next {
            match suited(copies, device, &mut request) {
                Some((operation, how)) => {
                    if !group.takes(&how) {
                        group.submit(copies, device, &mut each);
                    }
                    group.gain.add(&device.router, operation.kind(), copies.intent, operation.len());
                    group.add(request, operation, how);
                }
                None => {
                    group.submit(copies, device, &mut each);
                    each(Offloading::start(copies, request));
                }
            }
        }
        if last || group.count == TOGETHER {
            group.submit(copies, device, &mut each);
        }
        if last {
            return;
        }
    }
}

/// The operation and its way, if it can go with others: to a device, and whole.
#[inline]
fn suited<R: Request>(copies: &Copies, device: &Device, request: &mut R) -> Option<(Operation, How)> {
    let sealed::Described(operation) = request.operation().ok()?;
    if operation.len() == 0 || cpu::check(&operation).is_err() {
        return None;
    }
    match device.way(&operation, copies.intent, copies.engine, Mode::Batched, false) {
        Way::Queue { how, .. } if operation.len() <= device.transfer_max(how.queue) => Some((operation, how)),
        _ => None,
    }
}

/// Requests that go together.
struct Group<R> {
    requests: [Option<Held<R>>; TOGETHER],
    operations: [Operation; TOGETHER],
    how: Option<How>,
    count: usize,
    /// What going together saves.
    gain: BatchGain,
}

impl<R: Request> Group<R> {
    #[inline]
    fn new() -> Self {
        Self {
            requests: [const { None }; TOGETHER],
            operations: [Operation::Nop; TOGETHER],
            how: None,
            count: 0,
            gain: BatchGain::default(),
        }
    }

    /// One queue takes them all.
    #[inline]
    fn takes(&self, how: &How) -> bool {
        self.how.as_ref().is_none_or(|group| group.queue == how.queue)
    }

    #[inline]
    fn add(&mut self, request: R, operation: Operation, how: How) {
        self.requests[self.count] = Some(Held::new(request));
        self.operations[self.count] = operation;
        self.how = Some(how);
        self.count += 1;
    }

    #[inline]
    fn submit(&mut self, copies: &Copies, device: &Device, each: &mut impl FnMut(Offloading<R>)) {
        let (count, Some(how)) = (std::mem::take(&mut self.count), self.how.take()) else { return };
        let demanded = copies.engine == Engine::Device;
        let gain = std::mem::take(&mut self.gain);
        if !demanded && !device.router.batch_goes(gain).goes() {
            // None of them pays alone, or all would go.
            for held in self.requests[..count].iter_mut().filter_map(Option::take) {
                each(Offloading::start(copies, held.into_inner()));
            }
            return;
        }
        let (operations, requests) = (&self.operations[..count], &mut self.requests);
        let mut done = 0;
        let sink = |ticket| {
            let Some(held) = requests[done].take() else {
                unreachable!("a ticket for an operation that was not asked for")
            };
            done += 1;
            each(Offloading::with_device(held, Submitted::with(&copies.center, how, demanded, ticket)));
        };
        // SAFETY: the requests hold the memory, and stay until their futures have them: those without a ticket are started below.
        let _ = unsafe { device.flow.submit_many(operations, how, sink) };
        for held in self.requests[..count].iter_mut().filter_map(Option::take) {
            each(Offloading::start(copies, held.into_inner()));
        }
    }
}
