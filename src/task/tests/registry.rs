//! The list of live futures, and a shutdown's use of it.

use super::*;
use crate::task;

#[test]
fn a_future_is_listed_until_it_has_ended() {
    let lane = Lane::new();
    let (_one, first) = lane.spawn_waiter();
    let (_two, second) = lane.spawn_waiter();
    let (_three, third) = lane.spawn_waiter();
    while lane.run().is_some() {}
    let registry = &lane.0.registry;
    assert_eq!(registry.len(), 3);
    for (waiter, left) in [(second, 2), (first, 1), (third, 0)] {
        Waiter::finish(&waiter);
        assert_eq!(lane.run(), Some(Ran::Finished));
        assert_eq!(registry.len(), left);
    }
    assert!(registry.is_empty());
}

#[test]
fn a_closed_registry_gives_the_future_back() {
    let lane = Lane::new();
    lane.0.registry.close();
    let probe = lane.trace().probe("drop");
    let future = async move { drop(probe) };
    let back = task::future(future, lane.clone()).expect_err("it is closed");
    assert_eq!(lane.trace().take(), [""; 0]);
    drop(back);
    assert_eq!(lane.trace().take(), ["drop"]);
    lane.assert_alone();
}

#[test]
fn cancel_all_reaches_futures_in_every_state() {
    let lane = Lane::new();
    let (mut idle, idle_waiter) = lane.spawn_waiter();
    let _ = lane.run();
    let registry = lane.clone();
    let mut running = lane.spawn(poll_fn(move |_| {
        registry.0.registry.close();
        registry.0.registry.cancel_all();
        Poll::<()>::Pending
    }));
    let (mut queued, queued_waiter) = lane.spawn_waiter();
    lane.trace().take();

    assert_eq!(lane.run(), Some(Ran::Cancelled), "the running one, after its poll");
    assert_eq!(lane.trace().take(), ["schedule"], "the idle one, to be dropped by a lane");
    assert_eq!(lane.run(), Some(Ran::Cancelled), "the queued one");
    assert_eq!(lane.run(), Some(Ran::Cancelled), "the idle one");
    assert_eq!(lane.trace().take(), ["drop", "drop"]);

    assert_cancelled(&mut idle);
    assert_cancelled(&mut running);
    assert_cancelled(&mut queued);
    drop((idle, running, queued, idle_waiter, queued_waiter));
    lane.assert_alone();
}

#[test]
fn cancel_all_misses_nobody_while_others_come_off_the_list() {
    /// A scheduler that cancels on the spot, so that the list shrinks under the walk.
    #[derive(Clone)]
    struct Sudden(Arc<Registry>);
    impl Schedule for Sudden {
        fn schedule(&self, runnable: Runnable) {
            let _ = runnable.run();
        }
        fn registry(&self) -> &Registry {
            &self.0
        }
    }
    let sudden = Sudden(Arc::new(Registry::new(4)));
    let handles: Vec<_> = (0..100)
        .map(|_| {
            let (runnable, handle) = task::future(std::future::pending::<()>(), sudden.clone()).ok().unwrap();
            assert_eq!(runnable.run(), Ran::Pending);
            handle
        })
        .collect();
    sudden.0.close();
    sudden.0.cancel_all();
    assert!(sudden.0.is_empty());
    for mut handle in handles {
        assert_cancelled(&mut handle);
    }
    assert_eq!(Arc::strong_count(&sudden.0), 1);
}

#[test]
fn a_future_may_do_as_it_likes_when_it_is_dropped_by_a_shutdown() {
    /// Spawns, aborts and wakes as it is dropped.
    struct Busy(Lane, JoinHandle<i32>, Arc<Mutex<Waiter>>);
    impl Drop for Busy {
        fn drop(&mut self) {
            assert!(task::future(async {}, self.0.clone()).is_err());
            self.1.abort();
            Waiter::waker(&self.2).wake();
            self.0.0.registry.cancel_all();
        }
    }
    let lane = Lane::new();
    let (other, waiter) = lane.spawn_waiter();
    let _ = lane.run();
    let busy = Busy(lane.clone(), other, waiter);
    let handle = lane.spawn(async move {
        std::future::pending::<()>().await;
        drop(busy);
    });
    let _ = lane.run();
    lane.0.registry.close();
    lane.0.registry.cancel_all();
    while lane.run().is_some() {}
    assert!(handle.is_finished());
    drop(handle);
    lane.assert_alone();
}

#[test]
fn neighbours_in_memory_spread_over_the_shards() {
    use super::super::registry::shard_of;
    let mut hits = [0; 8];
    for task in 0..800_usize {
        hits[shard_of(0x7f00_0000_1000 + 96 * task, hits.len())] += 1;
    }
    assert!(hits.iter().all(|&tasks| (50..200).contains(&tasks)), "{hits:?}");
}
