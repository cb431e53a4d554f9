//! A ring from an ordinary thread to a poller: the lane parks while nothing comes, and each item that finds it parked wakes it.
//!
//! ```text
//! cargo run --release --example ring
//! ```

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use twolane::{PollCx, Runtime, Where, ring};

/// Long enough for a lane with the preset `Balanced` to park between two orders.
const PAUSE: Duration = Duration::from_millis(5);
const ORDERS: u32 = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().build()?;
    let (mut orders, inbox) = ring::spsc::<Instant>(64)?;
    let (tell, hear) = mpsc::channel();
    // What a service would do with an order. Here: how long did it take to get here?
    let desk = inbox.into_poller(move |sent: Instant, _: &mut PollCx<'_>| {
        let _ = tell.send(sent.elapsed()); // nobody listens any more: then nobody wants to know
    });
    let desk = runtime.spawn_poller(Where::Any, "desk", desk)?;

    let market = thread::spawn(move || {
        for _ in 0..ORDERS {
            thread::sleep(PAUSE);
            if let Err(refused) = orders.push(Instant::now()) {
                eprintln!("an order is lost: {refused}");
            }
        }
        // The producer is dropped here, and with that the poller is done.
    });

    market.join().map_err(|_| "the market panicked")?;
    let lane = desk.lane();
    desk.join()?;
    let mut took: Vec<Duration> = hear.iter().collect();
    took.sort();
    let lane = &runtime.metrics().lanes[lane];
    println!("{} orders, 1 every {PAUSE:?}", took.len());
    if let (Some(median), Some(worst)) = (took.get(took.len() / 2), took.last()) {
        println!("from push to poller: median {median:?}, worst {worst:?}, a wake from a park included");
    }
    println!(
        "the lane parked {} times, and was parked for {:?} of {:?}",
        lane.parks,
        lane.parked,
        runtime.metrics().age
    );
    Ok(())
}
