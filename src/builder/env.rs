//! The environment's word on the builder's knobs: `TWOLANE_*`. Pure: variables in, changes or an error out.
//!
//! The environment wins over the program: it is how an operator changes a service without building it. What it changed is reported in the
//! plan's notes and in the metrics; a name or value that means nothing is an error, since an override that is silently ignored is worse than none.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};
use std::path::PathBuf;
use std::time::Duration;

use super::Builder;
use crate::error::Error;
use crate::offload::dsa::discover::Places;
use crate::placement::PlacementError;
use crate::topology::{CpuList, CpuListError};
use crate::wait::{Etiquette, Park, Relief, WaitWith};

/// All variables begin with this.
pub(crate) const PREFIX: &str = "TWOLANE_";

/// Carries the value of one variable into a builder, or says what it takes.
type Apply = fn(&mut Builder, &str) -> Result<(), Want>;

/// What a variable takes.
type Want = Cow<'static, str>;

/// Every variable: name, what it takes, effect.
const VARIABLES: &[(&str, Apply)] = &[
    ("TWOLANE_PLACEMENT", |b, v| {
        b.request.placement = v.parse().map_err(|_| PlacementError::WANT)?;
        Ok(())
    }),
    ("TWOLANE_PAIRS", |b, v| count(v).map(|n| b.request.pairs = Some(n))),
    ("TWOLANE_RESERVE", |b, v| count(v).map(|n| b.request.reserve = n)),
    ("TWOLANE_NODE", |b, v| count(v).map(|n| b.request.node = Some(n))),
    ("TWOLANE_CPUS", |b, v| {
        let cpus: CpuList =
            v.parse().map_err(|error: CpuListError| format!("{error}; use a list of cpus such as 0-3,8"))?;
        b.request.cpus = Some(cpus.iter().collect::<BTreeSet<usize>>());
        Ok(())
    }),
    ("TWOLANE_COMPUTE_PER_CORE", |b, v| count(v).map(|n| b.request.compute_per_core = n)),
    ("TWOLANE_ALLOW_UNPINNED", |b, v| {
        b.allow_unpinned = match v {
            "1" | "true" | "yes" => true,
            "0" | "false" | "no" => false,
            _ => return Err("use yes or no".into()),
        };
        Ok(())
    }),
    ("TWOLANE_ETIQUETTE", |b, v| {
        b.etiquette = match v {
            "latency" => Etiquette::Latency,
            "balanced" => Etiquette::Balanced,
            "polite" => Etiquette::Polite,
            _ => return Err("use latency, balanced or polite".into()),
        };
        Ok(())
    }),
    ("TWOLANE_RELIEF", |b, v| {
        b.overrides.relief = Some(match v {
            "auto" => Relief::Auto,
            "always" => Relief::Always,
            "off" => Relief::Off,
            _ => return Err("use auto, always or off".into()),
        });
        Ok(())
    }),
    ("TWOLANE_PARK", |b, v| {
        b.overrides.park = Some(match v {
            "never" => Park::Never,
            "when-armed" => Park::WhenArmed,
            "within-bound" => Park::WithinBound,
            _ => return Err("use never, when-armed or within-bound".into()),
        });
        Ok(())
    }),
    ("TWOLANE_WAIT", |b, v| {
        b.wait_with = WaitWith::named(v).ok_or("use auto, pause, light or deep")?;
        Ok(())
    }),
    ("TWOLANE_PARK_AFTER", |b, v| duration(v).map(|d| b.overrides.park_after = Some(d))),
    ("TWOLANE_MEAN_ADDED", |b, v| duration(v).map(|d| b.overrides.mean_added = Some(d))),
    ("TWOLANE_MAX_ADDED", |b, v| duration(v).map(|d| b.overrides.max_added = Some(d))),
    ("TWOLANE_PEEK_REFRESH", |b, v| duration(v).map(|d| b.peek_refresh = d)),
    ("TWOLANE_LINGER_MAX", |b, v| duration(v).map(|d| b.linger_max = d)),
    ("TWOLANE_BACKLOG_MAX", |b, v| count(v).map(|n| b.backlog_max = n)),
    ("TWOLANE_BATCH_COUNT", |b, v| count(v).map(|n| b.offload.batch_count = Some(n))),
    ("TWOLANE_BATCH_BYTES", |b, v| count(v).map(|n| b.offload.batch_bytes = Some(n))),
    ("TWOLANE_BATCH_AGE", |b, v| duration(v).map(|d| b.offload.batch_age = Some(d))),
    ("TWOLANE_COPY_TIMEOUT", |b, v| duration(v).map(|d| b.offload.timeout = Some(d))),
    ("TWOLANE_NEIGHBOUR_CACHE", |b, v| count(v).map(|n| b.offload.neighbour_cache = n)),
    (Places::ENV_SYSFS, |b, v| directory(v).map(|dir| b.offload.places.sysfs = dir)),
    (Places::ENV_NODES, |b, v| directory(v).map(|dir| b.offload.places.nodes = dir)),
];

/// Carries every `TWOLANE_*` variable of `variables` into `builder`. Returns what was used, as `NAME=value`, by name.
pub(crate) fn apply(
    builder: &mut Builder,
    variables: impl Iterator<Item = (String, Result<String, OsString>)>,
) -> Result<Vec<String>, Error> {
    let mut used = Vec::new();
    for (name, value) in variables.filter(|(name, _)| name.starts_with(PREFIX)) {
        let Some((_, change)) = VARIABLES.iter().find(|(known, _)| *known == name) else {
            let value = value.unwrap_or_else(|bytes| bytes.to_string_lossy().into_owned());
            let known: Vec<&str> = VARIABLES.iter().map(|(name, _)| *name).collect();
            return Err(Error::Environment {
                name,
                value,
                want: format!("no such variable; there are {}", known.join(", ")),
            });
        };
        let value = match value {
            Ok(value) => value,
            Err(bytes) => {
                let value = bytes.to_string_lossy().into_owned();
                return Err(Error::Environment { name, value, want: "the value has to be UTF-8".into() });
            }
        };
        match change(builder, value.trim()) {
            Ok(()) => used.push(format!("{name}={value}")),
            Err(want) => return Err(Error::Environment { name, value, want: want.into_owned() }),
        }
    }
    used.sort();
    Ok(used)
}

fn count(value: &str) -> Result<usize, Want> {
    value.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => format!("use a whole number up to {}", usize::MAX).into(),
        _ => "use a whole number".into(),
    })
}

/// Whether there is one is found out when it is read: a machine without the driver has none, and that is no error.
fn directory(value: &str) -> Result<PathBuf, Want> {
    let path = PathBuf::from(value);
    if path.is_absolute() { Ok(path) } else { Err("use the absolute path of a directory".into()) }
}

/// `250ns`, `4us`, `1.5ms`, `2s`.
fn duration(value: &str) -> Result<Duration, Want> {
    const WANT: &str = "use a time with its unit, such as 500ns, 4us, 1.5ms or 2s";
    let digits = value.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or(WANT)?;
    let (number, unit) = value.split_at(digits);
    let number: f64 = number.parse().map_err(|_| WANT)?;
    let ns_per_unit = match unit.trim() {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(WANT.into()),
    };
    Duration::try_from_secs_f64(number * ns_per_unit / 1e9).map_err(|_| WANT.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Placement;

    fn with(variables: &[(&str, &str)]) -> Result<(Builder, Vec<String>), Error> {
        let mut builder = Builder::new();
        let used = apply(&mut builder, variables.iter().map(|&(n, v)| (n.to_string(), Ok(v.to_string()))))?;
        Ok((builder, used))
    }

    #[test]
    fn carries_values_and_says_which() {
        let (builder, used) = with(&[
            ("TWOLANE_PLACEMENT", "2-3, 4-5"),
            ("TWOLANE_MAX_ADDED", "1.5us"),
            ("TWOLANE_BATCH_AGE", "1.5us"),
            ("TWOLANE_BATCH_COUNT", "4"),
            ("TWOLANE_CPUS", "0-2,8"),
            ("TWOLANE_DSA_SYSFS", "/tree/sys/bus/dsa/devices"),
            ("PATH", "/bin"),
        ])
        .unwrap();
        let places = Places { sysfs: "/tree/sys/bus/dsa/devices".into(), ..Places::default() };
        assert_eq!(builder.offload.places, places);
        assert_eq!(builder.request.placement, Placement::Pairs(vec![(2, 3), (4, 5)]));
        assert_eq!(builder.overrides.max_added, Some(Duration::from_nanos(1_500)));
        assert_eq!(builder.offload.batch_age, Some(Duration::from_nanos(1_500)));
        assert_eq!((builder.offload.batch_count, builder.offload.batch_bytes), (Some(4), None));
        assert_eq!(builder.request.cpus, Some(BTreeSet::from([0, 1, 2, 8])));
        assert_eq!(
            used,
            [
                "TWOLANE_BATCH_AGE=1.5us",
                "TWOLANE_BATCH_COUNT=4",
                "TWOLANE_CPUS=0-2,8",
                "TWOLANE_DSA_SYSFS=/tree/sys/bus/dsa/devices",
                "TWOLANE_MAX_ADDED=1.5us",
                "TWOLANE_PLACEMENT=2-3, 4-5"
            ]
        );
    }

    #[test]
    fn what_means_nothing_is_an_error_that_says_what_would() {
        for (name, value, says) in [
            ("TWOLANE_ETIQUETTE", "rude", "latency, balanced or polite"),
            ("TWOLANE_PAIRS", "-1", "whole number"),
            ("TWOLANE_PAIRS", "", "whole number"),
            ("TWOLANE_BATCH_COUNT", "many", "whole number"),
            ("TWOLANE_BATCH_AGE", "1", "with its unit"),
            ("TWOLANE_PARK", "Never", "never, when-armed"),
            ("TWOLANE_WAIT", "umwait", "auto, pause, light or deep"),
            ("TWOLANE_RELIEF", "on", "auto, always or off"),
            ("TWOLANE_PLACEMENT", "2", "pairs such as"),
            ("TWOLANE_PLACEMENT", "2-", "pairs such as"),
            ("TWOLANE_PAIRS", "99999999999999999999", "whole number up to"),
            ("TWOLANE_CPUS", "a", "list of cpus"),
            ("TWOLANE_CPUS", "5-3", "a range that runs upwards"),
            ("TWOLANE_CPUS", "0-4000000000", "a cpu number below 65536"),
            ("TWOLANE_MAX_ADDED", "4", "with its unit"),
            ("TWOLANE_MAX_ADDED", "-4us", "with its unit"),
            ("TWOLANE_MAX_ADDED", "1e999s", "with its unit"),
            ("TWOLANE_ALLOW_UNPINNED", "maybe", "yes or no"),
            ("TWOLANE_DSA_SYSFS", "sys/bus/dsa", "absolute path"),
            ("TWOLANE_DSA_DEV", "", "absolute path"),
            ("TWOLANE_PAIR", "1", "there are TWOLANE_PLACEMENT"),
        ] {
            let error = with(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains(&format!("{name}={value}")), "{error}");
        }
    }

    /// Neither a path that becomes another one nor a name that is passed over.
    #[test]
    fn what_is_no_text_is_an_error() {
        use std::os::unix::ffi::OsStringExt;
        let bytes = || Err(OsString::from_vec(b"/tree/\xff".to_vec()));
        for (name, value, says) in [
            ("TWOLANE_DSA_SYSFS", bytes(), "UTF-8"),
            ("TWOLANE_PAIR", bytes(), "no such variable"),
            ("TWOLANE_PAIRS\u{fffd}", Ok("1".to_owned()), "no such variable"),
        ] {
            let error = apply(&mut Builder::new(), [(name.to_owned(), value)].into_iter()).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains(name), "{error}");
        }
        assert!(apply(&mut Builder::new(), [("PATH".to_owned(), bytes())].into_iter()).is_ok(), "none of ours");
    }

    #[test]
    fn an_error_is_one_line_whatever_the_value() {
        let error = with(&[("TWOLANE_PAIRS", "1\n2")]).unwrap_err().to_string();
        assert!(error.contains(r"TWOLANE_PAIRS=1\n2: use a whole number"), "{error}");
    }
}
