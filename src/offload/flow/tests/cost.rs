//! What a submission costs in instructions, over a portal to nowhere. For callgrind, which counts inside of the two functions that are not inlined:
//!
//! ```text
//! valgrind --tool=callgrind --collect-atstart=no --toggle-collect='*measured_single*' \
//!     TEST-BINARY --exact offload::flow::tests::cost::one_at_a_time
//! ```
//!
//! with `COST_ROUNDS=10` and `=20`, 100 operations a round: the difference over 1000 is the cost of one. As tests they see that it all works.

use std::hint::black_box;

use super::*;
use crate::offload::dsa::abi::{CompletionRecord, GenCap, OpCap, Opcode, Status, Version};
use crate::offload::dsa::portal::null_portal;
use crate::offload::dsa::queue::{Limits, Queue, Queues};

fn rounds() -> usize {
    std::env::var("COST_ROUNDS").map_or(2, |rounds| rounds.parse().expect("COST_ROUNDS is a whole number"))
}

struct Nowhere {
    flow: Flow,
    how: How,
    src: Vec<u8>,
    dst: Vec<u8>,
    tickets: Vec<Ticket>,
}

impl Nowhere {
    fn new() -> Self {
        let limits = Limits {
            version: Version::V1_0,
            general: GenCap(0x40_915f_0107),
            operations: OpCap::of(&[Opcode::NOOP, Opcode::BATCH, Opcode::MEMMOVE]),
            transfer_max: 2 << 20,
            batch_max: 32,
            in_flight_max: 128,
            block_on_fault: false,
        };
        let queues = Queues::new();
        let queue = queues
            .add(Queue::new(
                "nowhere",
                None,
                limits,
                Box::new(
                    null_portal(std::fs::File::options().read(true).write(true).open("/dev/zero").unwrap()).unwrap(),
                ),
            ))
            .unwrap();
        let flow = Flow::new(queues, Settings { lanes: 1, ..Settings::default() }).unwrap();
        super::super::sit_on(0);
        let how = How { queue, manner: Manner::default(), gather: false };
        Self { flow, how, src: vec![1; 4096], dst: vec![0; 4096], tickets: Vec::with_capacity(64) }
    }

    fn op(&mut self) -> Operation {
        Operation::Copy { src: self.src.as_ptr(), dst: self.dst.as_mut_ptr(), len: 4096 }
    }

    /// As a device would, but for the data.
    fn answer(&mut self) {
        for page in self.flow.core().all_pages() {
            for slot in super::super::claims::numbers(page.claims.look().slots()) {
                let record = CompletionRecord { status_byte: Status::SUCCESS.code(), ..CompletionRecord::default() };
                page.memory.record(slot).publish(&record);
            }
        }
        let _ = self.flow.core().sweeper.lock().as_mut().unwrap().sweep(self.flow.core(), 1);
        let op = self.op();
        for mut ticket in self.tickets.drain(..) {
            // SAFETY: it is what was submitted; nobody accesses the memory.
            let settled = unsafe { ticket.poll(|| op, Waker::noop()) };
            assert!(matches!(settled, Poll::Ready(Settled::Done(_))));
        }
    }
}

#[inline(never)]
fn measured_single(nowhere: &mut Nowhere) {
    let op = nowhere.op();
    // SAFETY: no device reads it.
    let ticket = unsafe { nowhere.flow.submit(&op, nowhere.how, None) };
    nowhere.tickets.push(ticket.unwrap());
}

#[inline(never)]
fn measured_many(nowhere: &mut Nowhere, ops: &[Operation; 8]) {
    let tickets = &mut nowhere.tickets;
    // SAFETY: no device reads them.
    unsafe { nowhere.flow.submit_many(ops, nowhere.how, |ticket| tickets.push(ticket)) }.unwrap();
}

#[test]
fn one_at_a_time() {
    let mut nowhere = Nowhere::new();
    for _ in 0..rounds() * 2 {
        for _ in 0..50 {
            measured_single(black_box(&mut nowhere));
        }
        nowhere.answer();
    }
    assert_eq!(nowhere.flow.totals().device[1] as usize, rounds() * 100);
}

#[test]
fn eight_at_once() {
    let mut nowhere = Nowhere::new();
    let ops = black_box([nowhere.op(); 8]);
    for _ in 0..rounds() * 5 / 2 {
        for _ in 0..5 {
            measured_many(black_box(&mut nowhere), &ops);
        }
        nowhere.answer();
    }
    assert_eq!(nowhere.flow.totals().batches as usize, rounds() * 5 / 2 * 5);
}
