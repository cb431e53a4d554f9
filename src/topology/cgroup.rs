//! Which control-group files speak about this process, and what their texts mean.
//!
//! Pure: the texts of `/proc/self/cgroup` and `/proc/self/mountinfo` go in, directories come out, and whoever asked
//! reads the files in them (`sysfs::limits`). Version 1 (a hierarchy for each controller) and version 2 (one for all)
//! are told apart here and may both be there.

use std::path::PathBuf;

/// The directories that may limit this process through one controller: its own group first, then each ancestor up to
/// the mount point. Absolute, as the process sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trail {
    pub version: Version,
    pub dirs: Vec<PathBuf>,
    /// Whether the first directory is the process's own group. It is a guess where a control-group namespace or a
    /// partial mount hides the place: then only the mount point is listed.
    pub certain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

/// Finds the directories for `controller` (`cpu`, `cpuset`), at most one trail for each version.
pub(super) fn trails(cgroup: &str, mountinfo: &str, controller: &str) -> Vec<Trail> {
    let mounts: Vec<Mount<'_>> = mountinfo.lines().filter_map(Mount::parse).collect();
    cgroup
        .lines()
        .filter_map(Membership::parse)
        .filter_map(|member| {
            let version = member.version_for(controller)?;
            let fitting = mounts.iter().filter(|mount| mount.serves(version, controller));
            // A hierarchy may be mounted several times (bind mounts in containers): the one that shows most of the
            // path to our group is the one with the shortest root that is still above it.
            let placed = fitting.clone().filter_map(|mount| Some((mount, below(&mount.root, member.path)?)));
            match placed.max_by_key(|(_, rest)| rest.len()) {
                Some((mount, rest)) => Some(Trail { version, dirs: upwards(&mount.point, &rest), certain: true }),
                None => fitting.clone().next().map(|mount| Trail {
                    version,
                    dirs: vec![PathBuf::from(&mount.point)],
                    certain: false,
                }),
            }
        })
        .collect()
}

/// What `/proc/self/cgroup` would say by the text of `/proc/self/cpuset`, which names the group of that one controller.
pub(super) fn cgroup_from_cpuset(path: &str) -> String {
    let path = path.trim_end_matches('\n');
    format!("1:cpuset:{path}\n0::{path}\n")
}

/// What `/proc/self/mountinfo` would say by the text of `/proc/mounts`, which does not know of partial mounts.
pub(super) fn mountinfo_from_mounts(mounts: &str) -> String {
    let line = |line: &str| {
        // `SOURCE POINT TYPE OPTIONS DUMP PASS`
        let mut words = line.split(' ');
        let (source, point, kind, options) = (words.next()?, words.next()?, words.next()?, words.next()?);
        Some(format!("0 0 0:0 / {point} rw - {kind} {source} {options}\n"))
    };
    mounts.lines().filter_map(line).collect()
}

/// Cpus worth of time that a `cpu.max` file (version 2) allows; `None` for `max`.
///
/// # Errors
/// What the file should have said.
pub(super) fn parse_cpu_max(text: &str) -> Result<Option<f64>, String> {
    let wanted =
        || format!("{:?} is no `cpu.max`: wanted `max` or a quota, then a period, in microseconds", text.trim());
    let mut words = text.split_whitespace();
    let quota = words.next().ok_or_else(wanted)?;
    let period = words.next().map_or(Ok(PERIOD_US_DEFAULT), |word| word.parse::<u64>().map_err(|_| wanted()))?;
    if words.next().is_some() || period == 0 {
        return Err(wanted());
    }
    if quota == "max" {
        return Ok(None);
    }
    match quota.parse::<u64>() {
        Ok(quota) if quota > 0 => Ok(Some(cpus(quota, period))),
        _ => Err(wanted()),
    }
}

/// Cpus worth of time that the two files of version 1 allow; `None` for a quota of -1.
///
/// # Errors
/// What the files should have said.
pub(super) fn parse_cfs(quota: &str, period: &str) -> Result<Option<f64>, String> {
    let (quota, period) = (quota.trim(), period.trim());
    if quota == "-1" {
        return Ok(None);
    }
    match (quota.parse::<u64>(), period.parse::<u64>()) {
        (Ok(quota), Ok(period)) if quota > 0 && period > 0 => Ok(Some(cpus(quota, period))),
        _ => Err(format!(
            "a quota of {quota:?} in a period of {period:?} makes no sense: wanted -1 or microseconds above 0"
        )),
    }
}

/// The kernel's default, which it also assumes where `cpu.max` is written with one word.
const PERIOD_US_DEFAULT: u64 = 100_000;

#[allow(clippy::cast_precision_loss)] // Microseconds a period: far below 2^53.
fn cpus(quota_us: u64, period_us: u64) -> f64 {
    quota_us as f64 / period_us as f64
}

/// A line of `/proc/self/cgroup`: `ID:CONTROLLERS:PATH`, with no controllers for version 2.
struct Membership<'a> {
    controllers: &'a str,
    path: &'a str,
}

impl<'a> Membership<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (_id, rest) = line.split_once(':')?;
        // A path may contain colons, a list of controllers does not.
        let (controllers, path) = rest.split_once(':')?;
        path.starts_with('/').then_some(Self { controllers, path })
    }

    fn version_for(&self, controller: &str) -> Option<Version> {
        if self.controllers.is_empty() {
            return Some(Version::V2);
        }
        self.controllers.split(',').any(|name| name == controller).then_some(Version::V1)
    }
}

/// A control-group line of `/proc/self/mountinfo`: which part (`root`) of which hierarchy is seen at `point`.
struct Mount<'a> {
    root: String,
    point: String,
    version: Version,
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// `ID PARENT MAJ:MIN ROOT POINT OPTIONS [TAGS...] - TYPE SOURCE SUPER_OPTIONS`
    fn parse(line: &'a str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (unescape(place.next()?), unescape(place.next()?));
        let mut kind = kind.split(' ');
        let version = match kind.next()? {
            "cgroup" => Version::V1,
            "cgroup2" => Version::V2,
            // The file system from before control groups, still mounted by some batch systems.
            "cpuset" => return Some(Self { root, point, version: Version::V1, options: "cpuset" }),
            _ => return None,
        };
        Some(Self { root, point, version, options: kind.nth(1).unwrap_or_default() })
    }

    fn serves(&self, version: Version, controller: &str) -> bool {
        self.version == version && (version == Version::V2 || self.options.split(',').any(|name| name == controller))
    }
}

/// The steps from a mount's root down to the group `path`, or `None` where the group is not below it.
///
/// Inside a control-group namespace both are relative to the namespace's root; `/..` is above it, and equal texts
/// still mean equal places.
fn below(root: &str, path: &str) -> Option<Vec<String>> {
    let mut rest = steps(path);
    for step in steps(root) {
        if rest.next()? != step {
            return None;
        }
    }
    let rest: Vec<String> = rest.map(str::to_owned).collect();
    (!rest.iter().any(|step| step == "..")).then_some(rest)
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|step| !step.is_empty())
}

/// `point/a/b`, `point/a`, `point` for the steps `a`, `b`.
fn upwards(point: &str, rest: &[String]) -> Vec<PathBuf> {
    (0..=rest.len())
        .rev()
        .map(|depth| {
            let mut dir = PathBuf::from(point);
            dir.extend(&rest[..depth]);
            dir
        })
        .collect()
}

/// Undoes the kernel's `\040` for blanks, tabs, newlines and backslashes.
fn unescape(text: &str) -> String {
    const ESCAPES: [(&str, &str); 4] = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    ESCAPES.iter().fold(text.to_owned(), |text, (escape, char)| text.replace(escape, char))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
25 20 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
26 25 0:23 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
27 25 0:24 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset";
    const V2: &str = "30 20 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";

    fn dirs(cgroup: &str, mountinfo: &str, controller: &str) -> Vec<(Version, Vec<String>, bool)> {
        trails(cgroup, mountinfo, controller)
            .into_iter()
            .map(|t| (t.version, t.dirs.iter().map(|dir| dir.display().to_string()).collect(), t.certain))
            .collect()
    }

    #[test]
    fn finds_the_own_group_and_all_above() {
        let cgroup = "4:cpuset:/a\n3:cpu,cpuacct:/a/b\n";
        let cpu = "/sys/fs/cgroup/cpu,cpuacct";
        assert_eq!(
            dirs(cgroup, V1, "cpu"),
            [(Version::V1, vec![format!("{cpu}/a/b"), format!("{cpu}/a"), cpu.into()], true)]
        );
        assert_eq!(
            dirs(cgroup, V1, "cpuset"),
            [(Version::V1, vec!["/sys/fs/cgroup/cpuset/a".into(), "/sys/fs/cgroup/cpuset".into()], true)]
        );
        assert_eq!(
            dirs("0::/x.slice/y:z\n", V2, "cpu"),
            [(
                Version::V2,
                vec!["/sys/fs/cgroup/x.slice/y:z".into(), "/sys/fs/cgroup/x.slice".into(), "/sys/fs/cgroup".into()],
                true
            )]
        );
    }

    #[test]
    fn a_hybrid_host_has_both() {
        let unified = "38 25 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
        let found = dirs("3:cpu,cpuacct:/\n0::/\n", &format!("{V1}\n{unified}"), "cpu");
        assert_eq!(
            found,
            [
                (Version::V1, vec!["/sys/fs/cgroup/cpu,cpuacct".into()], true),
                (Version::V2, vec!["/sys/fs/cgroup/unified".into()], true)
            ]
        );
    }

    #[test]
    fn mounts_of_a_part_and_namespaces() {
        let mount = |root: &str| format!("1 0 0:1 {root} /m rw - cgroup2 none rw");
        for (path, root, want, certain) in [
            ("/docker/abc", "/docker/abc", vec!["/m"], true), // a container without a namespace of its own
            ("/docker/abc/sub", "/docker/abc", vec!["/m/sub", "/m"], true),
            ("/", "/", vec!["/m"], true),                      // a namespace's root
            ("/..", "/..", vec!["/m"], true),                  // a mount made outside, the process outside
            ("/../up", "/..", vec!["/m/up", "/m"], true),      //
            ("/", "/..", vec!["/m"], false),                   // the mount shows more than the namespace
            ("/..", "/", vec!["/m"], false),                   // the process was moved out of its namespace
            ("/../../else", "/", vec!["/m"], false),           //
            ("/docker/abc", "/docker/xyz", vec!["/m"], false), // somebody else's part
            ("/ab", "/a", vec!["/m"], false),                  // names are whole steps
        ] {
            let want: Vec<String> = want.into_iter().map(Into::into).collect();
            assert_eq!(
                dirs(&format!("0::{path}\n"), &mount(root), "cpu"),
                [(Version::V2, want, certain)],
                "{path} in {root}"
            );
        }
    }

    #[test]
    fn the_mount_that_shows_most_wins() {
        let two = "1 0 0:1 /a/b /narrow rw - cgroup2 none rw\n2 0 0:1 / /wide rw - cgroup2 none rw";
        assert_eq!(
            dirs("0::/a/b\n", two, "cpu"),
            [(Version::V2, vec!["/wide/a/b".into(), "/wide/a".into(), "/wide".into()], true)]
        );
    }

    #[test]
    fn lines_that_make_no_sense_say_nothing() {
        for (cgroup, mountinfo) in [
            ("", ""),
            ("0::/\n", ""),
            ("", V2),
            ("nonsense", V2),
            ("0:relative", V2),
            ("0::relative", V2),
            ("0::/", "1 0 0:1 /"),
            ("0::/", "1 0 0:1 / /m rw - "),
            ("3:memory:/", V1),
            ("\u{fffd}:::::", "- - - -"),
        ] {
            assert_eq!(dirs(cgroup, mountinfo, "cpu"), [], "{cgroup:?} {mountinfo:?}");
        }
    }

    #[test]
    fn mount_points_are_unescaped() {
        let odd = "1 0 0:1 / /my\\040groups rw - cgroup2 none rw";
        assert_eq!(dirs("0::/\n", odd, "cpu"), [(Version::V2, vec!["/my groups".into()], true)]);
    }

    #[test]
    fn older_files_stand_in() {
        let cgroup = cgroup_from_cpuset("/job\n");
        let mountinfo = mountinfo_from_mounts(
            "none /dev/cpuset cpuset rw 0 0\nnone /cg\\0401 cgroup2 rw 0 0\nproc /proc proc rw 0 0\nnonsense\n",
        );
        assert_eq!(
            dirs(&cgroup, &mountinfo, "cpuset"),
            [
                (Version::V1, vec!["/dev/cpuset/job".into(), "/dev/cpuset".into()], true),
                (Version::V2, vec!["/cg 1/job".into(), "/cg 1".into()], true),
            ]
        );
        assert_eq!(
            dirs(&cgroup, &mountinfo, "cpu"),
            [(Version::V2, vec!["/cg 1/job".into(), "/cg 1".into()], true)],
            "the old file system knows no time"
        );
    }

    #[test]
    fn cpu_max() {
        assert_eq!(parse_cpu_max("max 100000\n"), Ok(None));
        assert_eq!(parse_cpu_max("150000 100000\n"), Ok(Some(1.5)));
        assert_eq!(parse_cpu_max("50000"), Ok(Some(0.5)));
        for text in ["", "\n", "-1 100000", "0 100000", "5 0", "max 0", "1 2 3", "much 100000", "100000 soon"] {
            assert!(parse_cpu_max(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn cfs_quota() {
        assert_eq!(parse_cfs("-1\n", "100000\n"), Ok(None));
        assert_eq!(parse_cfs("250000\n", "100000\n"), Ok(Some(2.5)));
        for (quota, period) in [("", "1"), ("0", "1"), ("1", "0"), ("-2", "1"), ("1", "-1"), ("x", "y")] {
            assert!(parse_cfs(quota, period).is_err(), "{quota:?} {period:?}");
        }
    }
}
