//! Made-up results, for the tests of whatever presents results.

use twolane::placement::Sharing;

use crate::cells::{Cell, Seats};
use crate::figures::Spread;
use crate::summary::{Latency, RateSummary, Split, Summary};

/// A machine that shows siblings and has a cpu for the client.
pub const SEATS: Seats = Seats {
    poll_lane: 0,
    compute_lanes: 1,
    one_lane: false,
    sharing: Sharing::Seen,
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
