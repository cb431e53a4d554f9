//! Futures that wake each other, on lanes that steal them from each other: the ball is never lost.
#![cfg(not(twolane_loom))]

mod stress_common;

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use stress_common::{Watchdog, builder, scaled};

/// Who has the ball, and who waits for it.
#[derive(Default)]
struct Table {
    turn: usize,
    waiting: Option<Waker>,
}

async fn play(table: Arc<Mutex<Table>>, me: usize, rounds: usize) {
    for _ in 0..rounds {
        poll_fn(|cx| {
            let mut it = table.lock().unwrap();
            if it.turn % 2 != me {
                it.waiting = Some(cx.waker().clone());
                return Poll::Pending;
            }
            it.turn += 1;
            let other = it.waiting.take();
            drop(it);
            other.into_iter().for_each(Waker::wake);
            Poll::Ready(())
        })
        .await;
    }
}

#[test]
fn pairs_of_futures_play_to_the_end() {
    const PAIRS: usize = 4;
    let rt = builder().build().unwrap();
    let watchdog = Watchdog::new(rt.handle());
    for _ in 0..scaled(1_000) {
        let games = (0..PAIRS).flat_map(|_| {
            let table = Arc::<Mutex<Table>>::default();
            [0, 1].map(|me| rt.spawn(play(table.clone(), me, 100)))
        });
        let games: Vec<_> = games.collect();
        games.into_iter().for_each(|game| watchdog.join(0, game));
    }
}
