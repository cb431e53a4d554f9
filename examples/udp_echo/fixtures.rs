//! Made-up results, for the tests of whatever presents results.

use std::time::Duration;

use twolane::placement::Sharing;

use crate::cells::{Cell, Seats};
use crate::client::Report;
use crate::clock::NS_PER_S;
use crate::figures::{self, Spread};
use crate::neighbour::Work;
use crate::server::Tally;
use crate::summary::{Latency, RateSummary, Split, Summary};
use crate::sweep::{LaneTime, Slot};

/// A machine that shows siblings and has a cpu for the client.
pub const SEATS: Seats = Seats {
    poll_lane: 0,
    compute_lanes: 1,
    one_lane: false,
    sharing: Sharing::Seen,
    cpus: Some((0, 1)),
    client_cpu: Some(2),
    client_shares: false,
};

/// A median with repeats on both sides of it.
fn spread(median: f64, relative: f64) -> Option<Spread> {
    Some(Spread { median, min: median * (1.0 - relative), max: median * (1.0 + relative) })
}

/// One cell of three slots.
pub fn summary(p50: f64, own: f64, apart: f64) -> Summary {
    Summary {
        slots: 3,
        offered: 100,
        sent: 100,
        echoed: 100,
        residence: Latency { samples: 100, p50: spread(p50, 0.0), p99: spread(2.0 * p50, 0.0), p999: None },
        neighbour_own: spread(own, apart),
        split: Some(Split { busy: 1.0, empty: 9.0, doze: 90.0, park: 0.0 }),
        duty: Some(90.9),
        ..Summary::default()
    }
}

/// Two rates in which the neighbour does 1000 events a second beside tight spin, and `own` beside twolane, all of it that
/// far `apart`.
pub fn rates(own: f64, apart: f64) -> Vec<RateSummary> {
    let cells = |scale: f64| {
        vec![
            (Cell::Tight, summary(2.0 * scale, 1_000.0, apart)),
            (Cell::Twolane, summary(2.5 * scale, own, apart)),
            (Cell::Parked, summary(40.0 * scale, 1_100.0, apart)),
        ]
    };
    vec![RateSummary { rate: 1_000, cells: cells(1.0) }, RateSummary { rate: 50_000, cells: cells(3.0) }]
}

/// A slot of 100 ms in which the neighbour did so many events, and so many of 90 datagrams were echoed.
pub fn slot(events: u64, echoed: u64) -> Slot {
    let mut end_to_end = figures::latency_histogram();
    end_to_end.saturating_record_n(10_000, echoed);
    let ms = Duration::from_millis;
    Slot {
        wall: ms(100),
        work: Work { events, cpu_ns: NS_PER_S / 20 },
        tally: Tally { echoed, batches: 10, ..Tally::default() },
        lane: LaneTime { busy: ms(10), empty: ms(20), doze: ms(60), park: ms(10), preempted: ms(5) },
        client: Some(Report {
            offered: 100,
            sent: 90,
            echoed,
            duplicates: 0,
            strays: 0,
            send_errors: 0,
            window_ns: NS_PER_S / 10,
            took_ns: NS_PER_S / 10,
            drained_ns: NS_PER_S / 10,
            cpu_ns: NS_PER_S / 100,
            end_to_end,
            late: figures::latency_histogram(),
        }),
        seen: None,
    }
}
