//! Copies that are stored to a mapped page without a call, one or a batch of them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::offload::Intent;
use crate::offload::dsa::abi::{Descriptor, Opcode, layout};
use crate::offload::dsa::portal::null_portal;
use crate::offload::dsa::prepare::prepare;
use crate::offload::dsa::queue::{Queue, Queues};
use crate::offload::flow::TOGETHER;
use crate::offload::flow::claims::Claim;

/// A scene whose queue has a page; what is stored there goes to the device when it is [pulled](Self::pull).
struct Paged {
    scene: Scene,
    page: File,
}

const PAGE: usize = 4096;
const PLACE: usize = 64;

impl Paged {
    fn new(in_flight_max: u32) -> Self {
        let page = tempfile::tempfile().unwrap();
        page.set_len(PAGE as u64).unwrap();
        let portal = null_portal(page.try_clone().unwrap()).unwrap();
        let queues = Queues::new();
        let queue = queues.add(Queue::new("wq7.0", None, Double::limits(32, in_flight_max), Box::new(portal))).unwrap();
        let settings = Settings { lanes: 0, timeout: TIMEOUT, ..Settings::default() };
        let flow = Flow::new(queues, settings).unwrap();
        // The first of a page goes the long way, to wake the reaper.
        let first = flow.core().page();
        let Claim::Taken { slots, .. } = first.claims.claim() else { unreachable!("it is new") };
        first.release(slots);
        Self { scene: Scene { device: Double::default(), flow, queue, rings: Arc::default(), now: 0 }, page }
    }

    /// Gives the device what was stored. Returns it.
    fn pull(&self) -> Vec<Descriptor> {
        let mut bytes = [0; PAGE];
        self.page.read_exact_at(&mut bytes, 0).unwrap();
        self.page.write_all_at(&[0; PAGE], 0).unwrap();
        let places = bytes.chunks_exact(PLACE).map(|bytes| Descriptor::from_bytes(bytes.try_into().unwrap()));
        let stored: Vec<_> = places.filter(|it| it.completion_address().is_some()).collect();
        stored.iter().for_each(|descriptor| self.scene.device.accept(*descriptor));
        stored
    }

    /// `false`: it was not taken.
    fn submit(&self, one: &mut Copying) -> bool {
        let copy = copy_of(one).expect("it has a length");
        // SAFETY: the buffers are in `one`, which leaves them with the ticket where it is dropped with an operation outstanding.
        one.ticket = unsafe { self.scene.flow.submit_copy(|_| true, copy, Intent::Soon) };
        one.ticket.is_some()
    }

    fn submit_all(&self, all: &mut [Copying]) -> usize {
        self.submit_all_with(Intent::Soon, all)
    }

    fn submit_all_with(&self, intent: Intent, all: &mut [Copying]) -> usize {
        // SAFETY: as in `submit`.
        let tickets = unsafe {
            self.scene.flow.submit_copies(
                |_, all| all.len(),
                intent,
                all,
                copy_of,
                |one, ticket| {
                    one.ticket = Some(ticket);
                },
            )
        };
        tickets.map_or(0, |tickets| tickets.count())
    }

    fn run(&mut self) {
        self.scene.device.run();
        let _ = self.scene.sweep();
    }
}

/// One whose length is [`PANICS`] panics.
fn copy_of(one: &mut Copying) -> Option<(*const u8, *mut u8, usize)> {
    assert_ne!(one.src.len(), PANICS, "a buffer that panics");
    let Operation::Copy { src, dst, len } = one.operation() else { unreachable!("it is a copy") };
    Some((src, dst, len))
}

const PANICS: usize = 77;

fn prepared(lens: &[usize]) -> Vec<Copying> {
    lens.iter().map(|&len| Copying::prepared(len)).collect()
}

#[test]
fn one_copy_is_stored_as_it_would_be_prepared() {
    let mut paged = Paged::new(32);
    let mut copy = Copying::prepared(1000);
    assert!(paged.submit(&mut copy));
    let [descriptor] = paged.pull()[..] else { panic!("one") };
    let record = descriptor.completion_address().unwrap();
    let limits = Double::limits(32, 32);
    let want = prepare(&copy.operation(), Manner::default(), &limits, record).unwrap().descriptor;
    assert_eq!(descriptor, want);
    assert_eq!((paged.scene.outstanding(), paged.scene.taken(), paged.scene.totals().singles), (1, 1, 1));
    assert!(copy.ticket.as_ref().unwrap().waits(&copy.waker));
    assert!(!copy.ticket.as_ref().unwrap().waits(&copy.waker), "that is for the first poll only");
    copy.assert_pending();
    paged.run();
    assert_eq!(copy.woken(), 1);
    copy.assert_done();
    paged.scene.assert_clean();
}

#[test]
fn what_is_over_at_the_first_poll_does_not_wait() {
    let paged = Paged::new(32);
    let mut copy = Copying::prepared(10);
    assert!(paged.submit(&mut copy));
    paged.pull();
    paged.scene.device.run();
    assert!(!copy.ticket.as_ref().unwrap().waits(&copy.waker));
    copy.assert_done();
    paged.scene.assert_clean();
}

#[test]
fn what_is_unusual_goes_no_short_way() {
    let mut paged = Paged::new(2);
    assert!(!paged.scene.sweep().asleep && paged.scene.sweep().asleep);
    let mut all = prepared(&[10; 4]);
    assert!(!paged.submit(&mut all[0]) && paged.submit_all(&mut all[..3]) == 0, "the reaper has to be called");
    paged.scene.assert_clean();
    let _awake = paged.scene.copy(10);
    assert!(paged.submit(&mut all[0]));
    assert!(!paged.submit(&mut all[1]) && paged.submit_all(&mut all[1..]) == 0, "no credit is left");
    assert_eq!((paged.scene.outstanding(), paged.scene.taken()), (2, 2));
    paged.pull();
    paged.run();
    all[0].assert_done();
    paged.scene.flow.queues().find(paged.scene.queue).unwrap().health().suspect();
    assert!(!paged.submit(&mut all[1]) && paged.submit_all(&mut all[1..]) == 0, "it does not answer");
}

#[test]
fn a_batch_has_what_there_is_up_to_eight() {
    for (lens, want, count) in [
        (&[100; TOGETHER][..], (Opcode::BATCH, 8), TOGETHER),
        (&[100; TOGETHER + 3][..], (Opcode::BATCH, 8), TOGETHER),
        (&[100; 5][..], (Opcode::BATCH, 5), 5),
        (&[100, 200, 0, 100][..], (Opcode::BATCH, 2), 2),
        (&[100, 0, 100][..], (Opcode::MEMMOVE, 100), 1),
        (&[100, 3 << 20, 100][..], (Opcode::MEMMOVE, 100), 1),
    ] {
        let mut paged = Paged::new(32);
        let mut all = prepared(lens);
        assert_eq!(paged.submit_all(&mut all), count, "{lens:?}");
        let [descriptor] = paged.pull()[..] else { panic!("one descriptor") };
        assert_eq!((descriptor.opcode(), descriptor.value(layout::COUNT)), want);
        let slots = count + usize::from(count > 1);
        assert_eq!((paged.scene.outstanding() as usize, paged.scene.taken() as usize), (1, slots), "{lens:?}");
        all[..count].iter_mut().for_each(Copying::assert_pending);
        paged.run();
        assert!(all[..count].iter().all(|copy| copy.woken() == 1));
        all[..count].iter_mut().for_each(Copying::assert_done);
        paged.scene.assert_clean();
        let totals = paged.scene.totals();
        let batch = if count > 1 { (1, count as u64, 0) } else { (0, 0, 1) };
        assert_eq!((totals.batches, totals.batched, totals.singles), batch);
    }
}

#[test]
fn none_at_all_takes_nothing() {
    let paged = Paged::new(32);
    assert_eq!(paged.submit_all(&mut []), 0);
    assert_eq!(paged.submit_all(&mut prepared(&[0, 100])), 0);
    assert_eq!(paged.pull(), []);
    paged.scene.assert_clean();
}

#[test]
fn children_without_a_record_are_known_by_their_origin() {
    let mut paged = Paged::new(32);
    let mut all = prepared(&[64; 4]);
    assert_eq!(paged.submit_all(&mut all), 4);
    paged.pull();
    all.iter_mut().for_each(Copying::assert_pending);
    paged.scene.device.step(Do::Children(1));
    let _ = paged.scene.sweep();
    all[0].assert_done();
    assert!(all[1..].iter_mut().all(|copy| copy.woken() == 1 && copy.poll().is_pending()), "submitted again, alone");
    assert_eq!((paged.scene.totals().retries, paged.pull().len()), (3, 3));
    paged.run();
    all[1..].iter_mut().for_each(Copying::assert_done);
    paged.scene.assert_clean();
}

#[test]
fn where_no_run_of_slots_is_left_nothing_is_taken() {
    let paged = Paged::new(64);
    let mut held: Vec<_> = (0..60).map(|_| paged.scene.copy(8)).collect();
    paged.pull();
    paged.scene.device.run();
    // Every eighth stays.
    held.iter_mut().enumerate().filter(|(at, _)| at % 8 != 0).for_each(|(_, copy)| copy.assert_done());
    let before = (paged.scene.outstanding(), paged.scene.taken());
    assert_eq!(paged.submit_all(&mut prepared(&[8; TOGETHER])), 0);
    assert_eq!((paged.scene.outstanding(), paged.scene.taken()), before);
    assert!(paged.submit(&mut Copying::prepared(8)), "one has room");
}

#[test]
fn a_buffer_that_panics_leaves_those_before_it_submitted() {
    let mut paged = Paged::new(32);
    let mut all = prepared(&[64, 64, PANICS, 64]);
    assert!(catch_unwind(AssertUnwindSafe(|| paged.submit_all(&mut all))).is_err());
    assert_eq!(paged.pull()[0].value(layout::COUNT), 2);
    paged.run();
    all[..2].iter_mut().for_each(Copying::assert_done);
    assert!(all[2..].iter().all(|copy| copy.ticket.is_none()));
    paged.scene.assert_clean();
}

#[test]
fn dropped_ones_stay_until_they_are_over() {
    let mut paged = Paged::new(32);
    let mut all = prepared(&[64; TOGETHER]);
    assert_eq!(paged.submit_all(&mut all), TOGETHER);
    drop(all);
    assert_eq!(paged.scene.taken() as usize, TOGETHER + 1);
    paged.pull();
    paged.run();
    paged.scene.assert_clean();
}

#[test]
fn tickets_that_were_forgotten_are_made_again() {
    let mut paged = Paged::new(32);
    let mut all = prepared(&[64; 5]);
    // SAFETY: as in `submit`; the tickets are made again below.
    let tickets = unsafe {
        let flow = &paged.scene.flow;
        flow.submit_copies(|_, all| all.len(), Intent::Soon, &mut all, copy_of, |_, ticket| std::mem::forget(ticket))
    };
    let tickets = tickets.unwrap();
    assert_eq!(tickets.count(), 5);
    for (number, one) in all.iter_mut().enumerate() {
        // SAFETY: each once.
        one.ticket = Some(unsafe { tickets.ticket(number) });
        one.assert_pending();
    }
    paged.pull();
    paged.run();
    all.iter_mut().for_each(Copying::assert_done);
    paged.scene.assert_clean();
}

/// The descriptors of the batch that was stored.
fn children(stored: &[Descriptor]) -> Vec<Descriptor> {
    let [batch] = stored else { panic!("one batch: {stored:?}") };
    let (list, count) = (batch.value(layout::LIST) as *const Descriptor, batch.value(layout::COUNT) as usize);
    // SAFETY: the list of a batch that is outstanding.
    unsafe { std::slice::from_raw_parts(list, count) }.to_vec()
}

/// A list that was prepared is used again only by the same kind of batch; whoever writes it otherwise says so.
#[test]
fn a_list_is_what_was_asked_for_whatever_it_was_before() {
    let mut paged = Paged::new(32);
    let limits = Double::limits(32, 32);
    for (intent, count) in [
        (Intent::Soon, 8),
        (Intent::Soon, 5),
        (Intent::Cold, 8),
        (Intent::Soon, 8),
        (Intent::Durable, 3),
        (Intent::Soon, 8),
    ] {
        for another in [false, true] {
            if another {
                // Others, whose batch gets the same slot.
                let other = if intent == Intent::Cold { Intent::Soon } else { Intent::Cold };
                let manner = Manner { intent: other, block_on_fault: false };
                let mut all = prepared(&[300; TOGETHER]);
                let ops: Vec<_> = all.iter_mut().map(Copying::operation).collect();
                let mut tickets = Vec::new();
                let how = How { manner, ..paged.scene.how(false) };
                // SAFETY: as in `submit`.
                unsafe { paged.scene.flow.submit_many(&ops, how, |ticket| tickets.push(ticket)) }.unwrap();
                all.iter_mut().zip(tickets).for_each(|(one, ticket)| one.ticket = Some(ticket));
                assert_eq!(children(&paged.pull()).len(), TOGETHER);
                paged.run();
                all.iter_mut().for_each(Copying::assert_done);
            }
            let mut all = prepared(&vec![100 + count; count]);
            assert_eq!(paged.submit_all_with(intent, &mut all), count);
            let list = children(&paged.pull());
            assert_eq!(list.len(), count);
            for (descriptor, one) in list.iter().zip(&mut all) {
                let record = descriptor.completion_address().unwrap();
                let manner = Manner { intent, block_on_fault: false };
                let want = prepare(&one.operation(), manner, &limits, record).unwrap().descriptor;
                assert_eq!(*descriptor, want, "{intent:?} {another}");
            }
            all.iter_mut().for_each(Copying::assert_pending);
            paged.run();
            for one in &mut all {
                assert!(
                    matches!(one.poll(), Poll::Ready(Settled::Done(_) | Settled::WriteBack(_))) && one.src == one.dst
                );
            }
            paged.scene.assert_clean();
        }
    }
}
