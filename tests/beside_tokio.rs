//! Beside tokio: each waits for the other's work, on the other's threads, and tokio's own primitives work in tasks on lanes.

mod common;
use common::{LIMIT, pairs, within};
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, oneshot};

fn tokio_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

#[test]
fn tokio_awaits_our_handles() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let answer = tokio_runtime().block_on(async {
            let ours = rt.spawn_compute(|| 40);
            let more = rt.spawn(async { 2 });
            ours.await.unwrap() + more.await.unwrap()
        });
        assert_eq!(answer, 42);
    });
}

#[test]
fn our_block_on_works_inside_tokio() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let answer = tokio_runtime().block_on(async { rt.block_on(rt.spawn_compute(|| 7)).unwrap().unwrap() });
        assert_eq!(answer, 7);
        let joined = tokio_runtime().block_on(async { rt.spawn_compute(|| 8).join().unwrap() });
        assert_eq!(joined, 8);
    });
}

#[test]
fn tokios_timer_beside_our_tasks() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let late = rt.spawn(std::future::pending::<()>());
        tokio_runtime().block_on(async {
            let waited = tokio::time::timeout(Duration::from_millis(5), late).await;
            assert!(waited.is_err(), "the handle is given up, and the timer is tokio's");
        });
    });
}

#[test]
fn channels_and_locks_of_tokio_work_on_lanes() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (send, mut receive) = mpsc::channel::<u64>(2);
        let total = std::sync::Arc::new(Mutex::new(0));
        let sum = std::sync::Arc::clone(&total);
        let reader = rt.spawn(async move {
            while let Some(number) = receive.recv().await {
                *sum.lock().await += number;
            }
        });
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let send = send.clone();
                rt.spawn(async move {
                    for number in 1..=100 {
                        send.send(number).await.unwrap();
                    }
                })
            })
            .collect();
        drop(send);
        for writer in writers {
            writer.join().unwrap();
        }
        reader.join().unwrap();
        assert_eq!(*tokio_runtime().block_on(total.lock()), 4 * 5_050);
    });
}

#[test]
fn a_oneshot_from_a_lane_wakes_tokio() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (tell, hear) = oneshot::channel();
        drop(rt.spawn_compute(move || tell.send(5)));
        assert_eq!(tokio_runtime().block_on(hear), Ok(5));
    });
}
