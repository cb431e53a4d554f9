//! How does a descriptor reach the device from where nothing may be locked: out of a signal handler?
//!
//! A [`Front`] is the part of a queue that an instruction meets. It says at once whether ENQCMD is accepted, by a word that the device publishes
//! whenever its lock is given back, and keeps what was submitted in a ring until somebody takes the device's lock: that one takes the ring's
//! descriptors in before anything else. So whoever looks at the device sees them, and nobody waits for a thread.
//!
//! Admission counts the ring and the device's queue as one: the gate's `room` is what the device's queue had left when everything up to `taken`
//! was in it, and a producer whose place in the ring is `room` beyond `taken` or more is told to retry. Both are one word, so they are always of one
//! moment. They grow old conservatively: an entry taken in since still counts, one dispatched since does too. (A program that submits to one
//! queue through a front and through [`ModelPortal`](super::ModelPortal) at once can exceed the threshold by what is in the ring.)
//!
//! Everything on the producers' side is atomics and, to wake a sleeping device, one futex call: lock-free, no allocation, fit for signal handlers,
//! for a handler that interrupts another in the middle of it included.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use crate::offload::dsa::abi::Descriptor;
use crate::offload::dsa::abi::limits::DESCRIPTOR_BYTES;

use super::bell::Bell;
use super::config::QueueMode;
use super::queue::{Arrival, QueueState};
use super::state::{DeviceState, Origin, State, operations_in};
use super::submission::Enqcmd;
use super::trace::Loss;
use super::violations::Rule;
use crate::offload::dsa::abi::SwErrorCode;

/// Places in the ring: as many as the largest queue has entries, so that a program which respects its queue's size never finds it full.
const PLACES: u32 = 128;

/// See the module's documentation. Made to live in a `static`.
#[derive(Debug)]
pub(crate) struct Front {
    gate: AtomicU64,
    tail: AtomicU32,
    places: [Place; PLACES as usize],
    /// Wakes the device. Null while no device is behind the front.
    bell: AtomicPtr<Bell>,
    /// ENQCMD that was told to retry since the device last looked.
    retries: AtomicU64,
    /// MOVDIR64B that found the ring full since the device last looked.
    overflows: AtomicU64,
    /// For retries that are drawn.
    dice: AtomicU64,
}

/// A descriptor on its way. Place `n` is free for position `p` if `turn` is `p`, and holds it if `turn` is `p + 1`.
#[derive(Debug)]
struct Place {
    turn: AtomicU32,
    posted: AtomicBool,
    words: [AtomicU64; DESCRIPTOR_BYTES / 8],
}

/// What the device publishes: its word on who gets in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Gate {
    /// The position up to which the device has taken entries in.
    taken: u32,
    /// How many from there on ENQCMD may bring: 0 for a queue that is full, dedicated or dead.
    room: u16,
    /// In 65 536ths: how often ENQCMD says "retry" all the same.
    crowded: u16,
}

impl Gate {
    const fn word(self) -> u64 {
        self.taken as u64 | (self.room as u64) << 32 | (self.crowded as u64) << 48
    }

    const fn of(word: u64) -> Self {
        Self { taken: word as u32, room: (word >> 32) as u16, crowded: (word >> 48) as u16 }
    }

    /// Whether the descriptor at a position gets in.
    const fn admits(self, position: u32) -> bool {
        position.wrapping_sub(self.taken) < self.room as u32
    }
}

impl Front {
    pub(crate) const fn new() -> Self {
        let mut places = [const { Place::new() }; PLACES as usize];
        let mut n = 0;
        while n < places.len() {
            places[n].turn = AtomicU32::new(n as u32);
            n += 1;
        }
        Self {
            gate: AtomicU64::new(0),
            tail: AtomicU32::new(0),
            places,
            bell: AtomicPtr::new(std::ptr::null_mut()),
            retries: AtomicU64::new(0),
            overflows: AtomicU64::new(0),
            dice: AtomicU64::new(0x5EED),
        }
    }

    /// As new: a process that was forked may have got it in the middle of something. Nobody submits meanwhile.
    fn reset(&self) {
        // Relaxed throughout: it is published by whatever tells others that there is a front.
        self.gate.store(0, Relaxed);
        self.tail.store(0, Relaxed);
        for (n, place) in self.places.iter().enumerate() {
            place.turn.store(n as u32, Relaxed);
        }
        self.retries.store(0, Relaxed);
        self.overflows.store(0, Relaxed);
    }

    /// ENQCMD of a descriptor, whose first word was found zero. Async-signal-safe.
    pub(crate) fn enqcmd(&self, descriptor: &Descriptor) -> Enqcmd {
        // Acquire: the room was made by a device that has read the places before it. Partner: the Release in `publish`.
        let gate = Gate::of(self.gate.load(Acquire));
        let crowded = gate.crowded > 0 && gate.room > 0 && self.draw() < gate.crowded;
        if crowded || !self.push(descriptor, false, |position, gate| gate.admits(position)) {
            // Relaxed: a statistic.
            self.retries.fetch_add(1, Relaxed);
            return Enqcmd::Retry;
        }
        self.ring();
        Enqcmd::Accepted
    }

    /// MOVDIR64B of a descriptor. The device decides what becomes of it. Async-signal-safe.
    pub(crate) fn movdir64b(&self, descriptor: &Descriptor) {
        if !self.push(descriptor, true, |_, _| true) {
            // Relaxed: a statistic.
            self.overflows.fetch_add(1, Relaxed);
        }
        self.ring();
    }

    /// Takes a place and fills it, if there is one and the gate lets it pass. Lock-free: a failed exchange means that another producer got on.
    fn push(&self, descriptor: &Descriptor, posted: bool, admits: impl Fn(u32, Gate) -> bool) -> bool {
        // Relaxed: the exchange decides.
        let mut position = self.tail.load(Relaxed);
        loop {
            // Acquire: see `enqcmd`.
            if !admits(position, Gate::of(self.gate.load(Acquire))) {
                return false;
            }
            let place = &self.places[(position % PLACES) as usize];
            // Acquire: whoever emptied the place has read it. Partner: the Release in `pop`.
            let turn = place.turn.load(Acquire);
            if turn != position {
                // Behind it by a lap: full. Else another producer was faster, and the tail has moved.
                if (turn.wrapping_sub(position) as i32) < 0 {
                    return false;
                }
                position = self.tail.load(Relaxed);
                continue;
            }
            // Relaxed: it hands the place to this thread alone; what is in it is published by its turn.
            match self.tail.compare_exchange_weak(position, position.wrapping_add(1), Relaxed, Relaxed) {
                Ok(_) => {
                    place.fill(descriptor, posted);
                    // Release: publishes the descriptor. Partner: the Acquire in `pop`.
                    place.turn.store(position.wrapping_add(1), Release);
                    return true;
                }
                Err(now) => position = now,
            }
        }
    }

    /// The descriptor at a position, if it is complete: for the one consumer, who holds the device's lock.
    fn pop(&self, position: u32) -> Option<(Arrival, Descriptor)> {
        let place = &self.places[(position % PLACES) as usize];
        // Acquire: partner of the Release in `push`.
        if place.turn.load(Acquire) != position.wrapping_add(1) {
            return None;
        }
        let taken = place.read();
        // Release: the place was read. Partner: the Acquire in `push`.
        place.turn.store(position.wrapping_add(PLACES), Release);
        Some(taken)
    }

    fn ring(&self) {
        // Acquire: the bell behind the pointer. Partner: the Release in `attach`.
        let bell = self.bell.load(Acquire);
        // SAFETY: null, or the bell of the device that is attached: `attach`'s caller keeps device and front together for as long as somebody may be
        // in here.
        if let Some(bell) = unsafe { bell.as_ref() } {
            bell.ring();
        }
    }

    /// The next number of a sequence that is the same in each run for one submitting thread. Two that draw at once may draw the same.
    fn draw(&self) -> u16 {
        // Relaxed: numbers, which order nothing.
        let drawn =
            self.dice.load(Relaxed).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.dice.store(drawn, Relaxed);
        (drawn >> 48) as u16
    }
}

impl Place {
    const fn new() -> Self {
        Self {
            turn: AtomicU32::new(0),
            posted: AtomicBool::new(false),
            words: [const { AtomicU64::new(0) }; DESCRIPTOR_BYTES / 8],
        }
    }

    /// Relaxed throughout, here and below: the turn publishes them, and gives the place to one thread at a time.
    fn fill(&self, descriptor: &Descriptor, posted: bool) {
        self.posted.store(posted, Relaxed);
        for (word, bytes) in self.words.iter().zip(descriptor.to_bytes().chunks_exact(8)) {
            word.store(bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)), Relaxed);
        }
    }

    fn read(&self) -> (Arrival, Descriptor) {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        for (word, to) in self.words.iter().zip(bytes.chunks_exact_mut(8)) {
            to.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        let arrival = if self.posted.load(Relaxed) { Arrival::Posted } else { Arrival::Deferrable };
        (arrival, Descriptor::from_bytes(&bytes))
    }
}

/// A front in use: whose, and how far it was emptied.
#[derive(Debug)]
pub(crate) struct Attached {
    front: &'static Front,
    client: usize,
    taken: u32,
}

impl State {
    /// Puts a front before a client's queue.
    ///
    /// # Safety
    /// `bell` outlives every call of the front's verbs that begins before the front is [`detach`](Self::detach)ed.
    pub(crate) unsafe fn attach(&mut self, front: &'static Front, client: usize, bell: &Bell) {
        front.reset();
        front.bell.store(std::ptr::from_ref(bell).cast_mut(), Release); // see `ring`
        self.fronts.push(Attached { front, client, taken: 0 });
    }

    /// Takes a front away. What is in it was taken in when the lock was taken; nobody submits to it any more.
    pub(crate) fn detach(&mut self, front: &'static Front) {
        self.take_in();
        self.fronts.retain(|attached| !std::ptr::eq(attached.front, front));
        // Relaxed: nobody is in there.
        front.gate.store(0, Relaxed);
        front.bell.store(std::ptr::null_mut(), Relaxed);
    }

    /// Takes in what fronts hold. Whether there was something.
    pub(crate) fn take_in(&mut self) -> bool {
        let mut fronts = std::mem::take(&mut self.fronts);
        let mut found = false;
        for Attached { front, client, taken } in &mut fronts {
            while let Some((arrival, descriptor)) = front.pop(*taken) {
                *taken = taken.wrapping_add(1);
                found = true;
                match arrival {
                    Arrival::Posted => self.movdir64b(*client, &descriptor),
                    Arrival::Deferrable => self.accepted_before(*client, &descriptor),
                }
            }
            self.note_refusals(front, *client);
        }
        self.fronts = fronts;
        found
    }

    /// ENQCMD has said "accepted". If the queue has died since, so has the descriptor.
    fn accepted_before(&mut self, client: usize, descriptor: &Descriptor) {
        let queue = self.clients[client].queue;
        if self.is_alive(client) && self.queues[queue].state != QueueState::Disabled {
            return self.accept(client, queue, descriptor);
        }
        self.counters.accepted += 1;
        let id = self.next_id;
        self.next_id += 1;
        let origin = Origin { id, child: None, queue, client };
        self.lose(origin, descriptor, operations_in(descriptor), Loss::Vanished);
    }

    pub(crate) fn has_fronts(&self) -> bool {
        !self.fronts.is_empty()
    }

    fn note_refusals(&mut self, front: &Front, client: usize) {
        let queue = self.clients[client].queue;
        // Relaxed: statistics. Looked at first: a load costs nothing, an exchange a line.
        if front.retries.load(Relaxed) != 0 {
            self.counters.retries += front.retries.swap(0, Relaxed);
            if self.config.queues[queue].mode == QueueMode::Dedicated && self.profile.freedoms.watch {
                let what = "ENQCMD to a dedicated queue says retry for ever";
                self.watch.report(Rule::WrongInstruction, queue, None, what.into());
            }
        }
        if front.overflows.load(Relaxed) != 0 {
            let lost = front.overflows.swap(0, Relaxed);
            self.counters.dropped += lost;
            self.raise(SwErrorCode::QUEUE_OVERFLOW, queue, None, None);
            if self.profile.freedoms.watch {
                let what = format!("{lost} descriptors more than the {PLACES} that any queue has room for");
                self.watch.report(Rule::Overflow, queue, None, what);
            }
        }
    }

    /// Tells fronts who gets in from now on.
    pub(crate) fn publish(&self) {
        for Attached { front, client, taken } in &self.fronts {
            let number = self.clients[*client].queue;
            let (config, queue) = (&self.config.queues[number], &self.queues[number]);
            let takes = config.mode == QueueMode::Shared
                && self.life == DeviceState::Enabled
                && queue.state == QueueState::Enabled
                && self.is_alive(*client);
            let left = (config.threshold as usize).saturating_sub(queue.waiting.len());
            let room = if takes { left.min(PLACES as usize) as u16 } else { 0 };
            let crowded = (self.weather.faults.retry.clamp(0.0, 1.0) * f64::from(u16::MAX)) as u16;
            // Release: places up to `taken` were read. Partner: the Acquires in `enqcmd` and `push`.
            front.gate.store(Gate { taken: *taken, room, crowded }.word(), Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::dsa::abi::layout;

    #[test]
    fn a_gate_is_its_word() {
        for gate in [
            Gate::default(),
            Gate { taken: u32::MAX, room: 0, crowded: u16::MAX },
            Gate { taken: 5, room: 128, crowded: 1 },
        ] {
            assert_eq!(Gate::of(gate.word()), gate);
        }
    }

    #[test]
    fn a_gate_counts_from_what_was_taken_and_across_the_end_of_numbers() {
        let gate = |taken, room| Gate { taken, room, crowded: 0 };
        for (gate, position, admitted) in [
            (gate(0, 0), 0, false),
            (gate(0, 2), 1, true),
            (gate(0, 2), 2, false),
            (gate(u32::MAX, 2), u32::MAX, true),
            (gate(u32::MAX, 2), 0, true),
            (gate(u32::MAX, 2), 1, false),
        ] {
            assert_eq!(gate.admits(position), admitted, "{gate:?} {position}");
        }
    }

    fn numbered(n: u64) -> Descriptor {
        Descriptor::memmove(n, n, 1)
    }

    fn open(front: &Front, taken: u32, room: u16) {
        front.gate.store(Gate { taken, room, crowded: 0 }.word(), Release);
    }

    #[test]
    fn nothing_gets_in_without_room_and_posted_stores_fill_the_ring() {
        let front = Front::new();
        assert_eq!(front.enqcmd(&numbered(0)), Enqcmd::Retry, "no device behind it");
        open(&front, 0, 2);
        assert_eq!([0, 1, 2].map(|n| front.enqcmd(&numbered(n))), [Enqcmd::Accepted, Enqcmd::Accepted, Enqcmd::Retry]);
        assert_eq!(front.retries.load(Relaxed), 2);
        for n in 2..u64::from(PLACES) {
            front.movdir64b(&numbered(n));
        }
        assert_eq!(front.overflows.load(Relaxed), 0);
        front.movdir64b(&numbered(0));
        assert_eq!(front.overflows.load(Relaxed), 1, "one more than there are places");
        for n in 0..PLACES {
            let arrival = if n < 2 { Arrival::Deferrable } else { Arrival::Posted };
            assert_eq!(front.pop(n), Some((arrival, numbered(u64::from(n)))));
        }
        assert_eq!(front.pop(PLACES), None);
        front.movdir64b(&numbered(7));
        assert_eq!(front.pop(PLACES), Some((Arrival::Posted, numbered(7))), "the next lap");
    }

    #[test]
    fn a_crowd_is_drawn() {
        let front = Front::new();
        front.gate.store(Gate { taken: 0, room: 128, crowded: u16::MAX / 2 }.word(), Release);
        let taken = (0..100).filter(|n| front.enqcmd(&numbered(*n)) == Enqcmd::Accepted).count();
        assert!((25..75).contains(&taken), "{taken}");
    }

    /// Producers that fill the ring many times over, and a consumer that gives room back: each descriptor arrives once, whole, in its thread's order, and
    /// never more than there was room for.
    #[test]
    fn producers_and_a_consumer_lose_nothing() {
        const THREADS: u64 = 4;
        const EACH: u64 = 20_000;
        const ROOM: u32 = 5;
        let front = Front::new();
        open(&front, 0, ROOM as u16);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let front = &front;
                scope.spawn(move || {
                    for n in 0..EACH {
                        while front.enqcmd(&numbered(thread << 32 | n)) == Enqcmd::Retry {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let (mut position, mut next) = (0_u32, [0; THREADS as usize]);
            while u64::from(position) < THREADS * EACH {
                assert!(front.tail.load(Relaxed).wrapping_sub(position) <= ROOM, "more than there was room for");
                let Some((arrival, descriptor)) = front.pop(position) else {
                    std::thread::yield_now();
                    continue;
                };
                position += 1;
                assert_eq!(arrival, Arrival::Deferrable);
                let source = descriptor.value(layout::SOURCE);
                assert_eq!(descriptor, numbered(source), "whole");
                let (thread, n) = ((source >> 32) as usize, source & 0xffff_ffff);
                assert_eq!(n, next[thread], "in the order of thread {thread}");
                next[thread] += 1;
                open(&front, position, ROOM as u16);
            }
        });
    }
}
