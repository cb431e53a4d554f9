//! The rings beside a `VecDeque`, on one thread: what a queue is, whatever is done to it.

use std::collections::VecDeque;

use super::*;

/// What a ring with one producer and one with several have in common.
trait Push<T> {
    fn push(&mut self, item: T) -> Result<(), PushError<T>>;
    fn push_batch(&mut self, items: &mut VecDeque<T>) -> Result<usize, Disconnected>;
}

impl<T> Push<T> for Producer<T> {
    fn push(&mut self, item: T) -> Result<(), PushError<T>> {
        Producer::push(self, item)
    }
    fn push_batch(&mut self, items: &mut VecDeque<T>) -> Result<usize, Disconnected> {
        Producer::push_batch(self, items)
    }
}

impl<T> Push<T> for SharedProducer<T> {
    fn push(&mut self, item: T) -> Result<(), PushError<T>> {
        SharedProducer::push(self, item)
    }
    fn push_batch(&mut self, items: &mut VecDeque<T>) -> Result<usize, Disconnected> {
        SharedProducer::push_batch(self, items)
    }
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// A numbered item whose copies in memory are counted.
#[derive(Debug)]
struct Item(u64, #[allow(dead_code)] Arc<()>); // counted by being there

#[test]
fn a_ring_is_a_queue_with_an_end() {
    for seed in 1..=200_u64 {
        let slots = 1 << (1 + seed % 5);
        let single = |slots| {
            let (producer, consumer) = spsc(slots).unwrap();
            (Box::new(producer) as Box<dyn Push<Item>>, consumer)
        };
        let shared = |slots| {
            let (producer, consumer) = mpsc(slots).unwrap();
            (Box::new(producer) as Box<dyn Push<Item>>, consumer)
        };
        compare(seed, slots, single(slots));
        compare(seed, slots, shared(slots));
    }
}

fn compare(seed: u64, slots: usize, (mut producer, mut consumer): (Box<dyn Push<Item>>, Consumer<Item>)) {
    let (mut dice, mut model, mut next) = (Dice(seed), VecDeque::new(), 0);
    let alive = Arc::new(());
    let mut item = || {
        next += 1;
        Item(next, alive.clone())
    };
    for step in 0..300 {
        let at = format!("seed {seed}, step {step}, {slots} slots");
        match dice.below(4) {
            0 => {
                let item = item();
                let number = item.0;
                match producer.push(item) {
                    Ok(()) => model.push_back(number),
                    Err(PushError::Full(back)) => {
                        assert_eq!((model.len(), back.0), (slots, number), "{at}");
                    }
                    Err(PushError::Disconnected(_)) => panic!("{at}"),
                }
            }
            1 => {
                let wanted = dice.below(2 * slots);
                let mut items: VecDeque<Item> = (0..wanted).map(|_| item()).collect();
                let numbers: Vec<u64> = items.iter().map(|item| item.0).collect();
                let fit = wanted.min(slots - model.len());
                assert_eq!(producer.push_batch(&mut items), Ok(fit), "{at}");
                model.extend(&numbers[..fit]);
                assert!(items.iter().map(|item| item.0).eq(numbers[fit..].iter().copied()), "the rest is left: {at}");
            }
            2 => match consumer.pop() {
                Ok(item) => assert_eq!(Some(item.0), model.pop_front(), "{at}"),
                Err(error) => assert_eq!((error, model.len()), (PopError::Empty, 0), "{at}"),
            },
            _ => {
                let (mut into, max) = (Vec::new(), 1 + dice.below(slots));
                match consumer.pop_batch(&mut into, max) {
                    Ok(popped) => {
                        let wanted: Vec<u64> = model.drain(..max.min(model.len())).collect();
                        assert!(into.iter().map(|item| item.0).eq(wanted) && into.len() == popped, "{at}");
                    }
                    Err(error) => assert_eq!((error, model.len()), (PopError::Empty, 0), "{at}"),
                }
            }
        }
        assert_eq!(consumer.is_empty(), model.is_empty(), "{at}");
        assert_eq!(Arc::strong_count(&alive), 1 + model.len(), "what went in and did not come out is there: {at}");
    }
    // Either end may go first.
    if seed % 2 == 0 {
        drop(producer);
        assert!(consumer.is_disconnected());
        for number in model {
            assert_eq!(consumer.pop().unwrap().0, number);
        }
        assert_eq!(consumer.pop().unwrap_err(), PopError::Disconnected);
    } else {
        drop(consumer);
        assert_eq!(Arc::strong_count(&alive), 1, "what was left is dropped with the consumer");
        let refused = producer.push(Item(0, alive.clone()));
        assert!(matches!(refused, Err(PushError::Disconnected(Item(0, _)))));
        assert_eq!(producer.push_batch(&mut VecDeque::new()), Err(Disconnected));
    }
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn a_ring_has_a_power_of_two_of_slots() {
    for (slots, says) in [
        (0, "a ring of 0 slots: use a power of two, 2 for instance"),
        (1, "a ring of 1 slots: use a power of two, 2 for instance"),
        (3, "a ring of 3 slots: use a power of two, 4 for instance"),
        (1000, "a ring of 1000 slots: use a power of two, 1024 for instance"),
        (usize::MAX / 2 + 1, "more than memory can hold, use fewer"),
        (usize::MAX, "more than memory can hold, use fewer"),
        (1 << (usize::BITS - 3), "more than memory can hold, use fewer"),
    ] {
        let error = spsc::<u64>(slots).unwrap_err().to_string();
        assert!(error.ends_with(says), "{error}");
        assert_eq!(mpsc::<u64>(slots).unwrap_err().to_string(), error);
    }
    for slots in [2, 4, 1024] {
        assert_eq!(spsc::<u64>(slots).unwrap().1.capacity(), slots);
    }
}

#[test]
fn items_without_a_size_work_too() {
    let (producer, mut consumer) = mpsc(2).unwrap();
    assert!(producer.push(()).is_ok() && producer.push(()).is_ok() && producer.push(()).is_err());
    assert_eq!((consumer.pop(), consumer.pop(), consumer.pop()), (Ok(()), Ok(()), Err(PopError::Empty)));
}

#[test]
fn the_last_of_several_producers_ends_the_ring() {
    let (first, mut consumer) = mpsc(2).unwrap();
    let second = first.clone();
    drop(first);
    assert_eq!(consumer.pop(), Err(PopError::Empty));
    second.push(1).unwrap();
    drop(second);
    assert_eq!((consumer.pop(), consumer.pop()), (Ok(1), Err(PopError::Disconnected)));
}

#[test]
fn a_panic_in_a_drop_leaves_nothing_behind() {
    struct Bomb(#[allow(dead_code)] Arc<()>); // counted by being there
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("bomb");
            }
        }
    }
    let alive = Arc::new(());
    let (mut producer, consumer) = spsc(4).unwrap();
    for _ in 0..3 {
        assert!(producer.push(Bomb(alive.clone())).is_ok());
    }
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(consumer)));
    assert!(dropped.is_err(), "the panic is not swallowed");
    assert_eq!(Arc::strong_count(&alive), 1, "all three are gone");
    drop(producer);
}
