//! The laboratory reckons as one would by hand.
#![cfg(feature = "sim")]

use twolane::sim::lab::report::{self, Row};
use twolane::sim::lab::{Machine, Outcome, Policy, Rest, Traffic, bound, peers, run};

const EVENTS: usize = 20_000;

fn play(policy: &mut dyn Policy, traffic: &Traffic, pass_ns: u64) -> Outcome {
    run(policy, traffic, pass_ns, &Machine::default())
}

#[test]
fn a_pass_sees_what_arrived_before_it_started() {
    // Passes of 100 ns start at 0, 100, 200; handling takes 400.
    let traffic = Traffic::new("three", vec![50, 100, 101]);
    let outcome = play(&mut peers::Tight, &traffic, 100);
    // 50 and 100 are seen at 100. That pass ends at 100 + 100 + 800, when the next one sees 101.
    assert_eq!((outcome.quantile_ns(0.0), outcome.quantile_ns(0.5), outcome.max_ns()), (0, 50, 899));
    assert_eq!(outcome.duty(), 0.0);
}

#[test]
fn a_constant_wait_adds_half_of_it() {
    for (rest, took) in [(Rest::Pause(1), 43), (Rest::Pause(20), 860), (Rest::Timed(1_000), 1_108)] {
        let traffic = Traffic::poisson(20_000, EVENTS, 1);
        let tight = play(&mut peers::Tight, &traffic, 150);
        let outcome = play(&mut peers::Constant::new(rest, 0), &traffic, 150);
        let added = outcome.mean_ns() - tight.mean_ns();
        assert!((added - f64::from(took) / 2.0).abs() < 12.0, "{rest:?}: {added}");
        assert!(outcome.max_ns() <= tight.max_ns() + u64::from(took as u32) + 150, "{rest:?}");
    }
}

#[test]
fn repeated_answers_are_as_good_as_single_ones() {
    /// The same policy, asked at every pass.
    #[derive(Debug)]
    struct Single(peers::Constant);
    impl Policy for Single {
        fn name(&self) -> String {
            "single".into()
        }
        fn found(&mut self, pass: &twolane::sim::lab::Pass) {
            self.0.found(pass);
        }
        fn empty(&mut self, pass: &twolane::sim::lab::Pass) -> (Rest, u64) {
            (self.0.empty(pass).0, 1)
        }
    }
    for traffic in [Traffic::poisson(200_000, 2_000, 1), Traffic::bursts(2_000, 1), Traffic::phase_locked(200, 1)] {
        let policy = || peers::Constant::new(Rest::Pause(5), 0);
        let (row, single) = (play(&mut policy(), &traffic, 150), play(&mut Single(policy()), &traffic, 150));
        assert_eq!((row.mean_ns(), row.duty()), (single.mean_ns(), single.duty()), "{}", traffic.name());
    }
}

// Published or worked out for these rules: see the table of simulations that the rules came with.
#[test]
fn peers_do_what_is_known_of_them() {
    let traffic = Traffic::poisson(20_000, EVENTS, 1);
    let tight = play(&mut peers::Tight, &traffic, 150);
    let of = |name: &str| {
        let peer = peers::all().into_iter().find(|peer| peer.name == name).unwrap();
        let outcome = play(&mut *(peer.policy)(), &traffic, 150);
        (outcome.mean_ns() - tight.mean_ns(), outcome.duty(), outcome.cpu())
    };
    let (added, duty, _) = of("dpdk pause");
    assert!((added - 118.0).abs() < 20.0 && (duty - 0.17).abs() < 0.02, "{added}, {duty}");
    // e^-1.54 of the gaps are longer than 512 passes; what is left of them is spent in UMWAIT.
    let (_, duty, cpu) = of("dpdk monitor");
    assert!((duty - 0.21).abs() < 0.02 && cpu == 1.0, "{duty}, {cpu}");
    // Parks at once: each event pays a wake of tens of microseconds.
    let (added, _, cpu) = of("tokio");
    assert!(added > 20_000.0 && cpu < 0.75, "{added}, {cpu}");
}

#[test]
fn the_mean_holds_in_strict_accounting_and_nearly_so_in_expected() {
    let machine = Machine::default();
    for traffic in [Traffic::bursts(EVENTS, 3), Traffic::pareto(EVENTS, 3), Traffic::phase_locked(EVENTS / 4, 3)] {
        for pass_ns in [20, 2_000] {
            for mean_added_ns in [50, 5_000] {
                for (strict, most) in [(true, 1.0), (false, 1.1)] {
                    let (ratio, _) = bound::ratio(&traffic, pass_ns, mean_added_ns, strict, &machine);
                    assert!(
                        ratio <= most,
                        "{}, {pass_ns}, X {mean_added_ns}, strict {strict}: {ratio}",
                        traffic.name()
                    );
                }
            }
        }
    }
}

#[test]
fn reports_hold_every_row() {
    let traffic = Traffic::poisson(200_000, 1_000, 1);
    let tight = play(&mut peers::Tight, &traffic, 150);
    let rows: Vec<Row> = peers::all()
        .iter()
        .map(|peer| Row::new("a, b & c", 150, peer.name, &play(&mut *(peer.policy)(), &traffic, 150), &tight))
        .collect();
    let (table, csv) = (report::table(&rows), report::csv(&rows));
    assert_eq!(table.lines().count(), rows.len() + 1);
    assert!(csv.lines().all(|line| line.split(',').count() == 8), "{csv}");
    let chart = report::chart("a < b", &rows);
    assert!(chart.starts_with("<svg ") && chart.ends_with("</svg>\n") && chart.contains("a &lt; b"));
    assert_eq!(chart.matches("<circle").count(), rows.len());
    assert!(!chart.contains("NaN"), "{chart}");
}
