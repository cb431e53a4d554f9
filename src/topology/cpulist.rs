//! Sets of cpus as the kernel writes them: lists (`0-3,8,10-11`) and hexadecimal masks (`ffff,00000001`).
//!
//! Reading never trusts its input: a number from [`CPUS_MAX`] up, a range that runs backwards or a text that names
//! more cpus than there can be is an error that says what stands where, not an allocation.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A set of cpu numbers that reads and prints the kernel's list format.
///
/// An empty text is the empty set. Ranges may carry a stride as the kernel's own parser takes it: `0-31:2/4` is two
/// cpus of every four. Blanks around items and a newline at the end do not matter.
///
/// ```
/// use twolane::topology::CpuList;
///
/// let cpus: CpuList = "0-2,8\n".parse()?;
/// assert_eq!(cpus.iter().collect::<Vec<_>>(), [0, 1, 2, 8]);
/// assert_eq!(cpus.to_string(), "0-2,8");
/// # Ok::<(), twolane::topology::CpuListError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuList(BTreeSet<usize>);

impl CpuList {
    /// Whether `cpu` is in the set.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.contains(&cpu)
    }

    /// How many cpus are in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set has no cpu at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The cpu numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }

    /// The set itself.
    #[must_use]
    pub fn into_set(self) -> BTreeSet<usize> {
        self.0
    }

    /// Reads a mask as older kernels write it where newer ones offer a list as well: words of up to 32 bits in
    /// hexadecimal, separated by commas, the highest first.
    ///
    /// # Errors
    /// [`CpuListError`] when a word is no such number, or a bit from [`CPUS_MAX`] up is set.
    pub(crate) fn from_mask(text: &str) -> Result<Self, CpuListError> {
        let mut cpus = BTreeSet::new();
        for (from_right, (at, word)) in items(text).into_iter().rev().enumerate() {
            let digits = word.trim_start_matches("0x");
            let bits = u32::from_str_radix(digits, HEX)
                .map_err(|_| CpuListError::new(word, at, "a mask word of up to eight hexadecimal digits"))?;
            let base = from_right * MASK_WORD_BITS;
            for bit in (0..MASK_WORD_BITS).filter(|bit| bits & (1 << bit) != 0) {
                if base + bit >= CPUS_MAX {
                    return Err(CpuListError::new(word, at, BELOW_MAX));
                }
                cpus.insert(base + bit);
            }
        }
        Ok(Self(cpus))
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    /// Reads a list.
    ///
    /// # Errors
    /// [`CpuListError`] names the item that makes no sense, its place and what was wanted there.
    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let mut cpus = BTreeSet::new();
        let mut named = 0;
        if text.trim().is_empty() {
            return Ok(Self(cpus));
        }
        for (at, item) in items(text) {
            let range = Range::parse(item, at)?;
            // Repeats are harmless, but a text of nothing else would keep us busy for its length times the bound.
            named += range.last - range.first + 1;
            if named > CPUS_MAX {
                return Err(CpuListError::new(item, at, "no more than 65536 cpus in the whole list"));
            }
            cpus.extend(range.cpus());
        }
        Ok(Self(cpus))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = rest.next() {
            let mut last = first;
            while let Some(next) = rest.next_if_eq(&(last + 1)) {
                last = next;
            }
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl FromIterator<usize> for CpuList {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl From<BTreeSet<usize>> for CpuList {
    fn from(cpus: BTreeSet<usize>) -> Self {
        Self(cpus)
    }
}

/// Why a text is no list of cpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuListError {
    found: String,
    at: usize,
    wanted: &'static str,
}

impl CpuListError {
    fn new(found: &str, at: usize, wanted: &'static str) -> Self {
        // A message with a whole nonsense file in it helps nobody.
        let shown: String = found.chars().take(SHOWN_CHARS_MAX).collect();
        let found = if shown.len() < found.len() { format!("{shown}...") } else { shown };
        Self { found, at, wanted }
    }
}

impl fmt::Display for CpuListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at byte {} of a cpu list: wanted {}", self.found, self.at, self.wanted)
    }
}

impl std::error::Error for CpuListError {}

/// Cpu numbers are below this. The kernel's own bound is 8192 (x86, arm64) at most; eight times that leaves room for
/// growth while a set of all of them is still small.
pub(crate) const CPUS_MAX: usize = 65_536;

const BELOW_MAX: &str = "a cpu number below 65536";
const SHOWN_CHARS_MAX: usize = 40;
const MASK_WORD_BITS: usize = u32::BITS as usize;
const HEX: u32 = 16;

/// One item of a list: cpus `first..=last`, of which the first `used` of every `group` count.
struct Range {
    first: usize,
    last: usize,
    used: usize,
    group: usize,
}

impl Range {
    fn parse(item: &str, at: usize) -> Result<Self, CpuListError> {
        let (range, stride) = match item.split_once(':') {
            Some((range, stride)) => (range, Some(stride)),
            None => (item, None),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (cpu(first, at)?, cpu(last, at)?),
            None if stride.is_some() => return Err(CpuListError::new(item, at, "a range before the stride")),
            None => (cpu(range, at)?, cpu(range, at)?),
        };
        if last < first {
            return Err(CpuListError::new(item, at, "a range that runs upwards"));
        }
        let (used, group) = match stride {
            None => (1, 1),
            Some(stride) => parse_stride(stride)
                .ok_or_else(|| CpuListError::new(item, at, "a stride USED/GROUP with 1 <= USED <= GROUP"))?,
        };
        Ok(Self { first, last, used, group })
    }

    fn cpus(self) -> impl Iterator<Item = usize> {
        (self.first..=self.last).filter(move |cpu| (cpu - self.first) % self.group < self.used)
    }
}

fn parse_stride(text: &str) -> Option<(usize, usize)> {
    let (used, group) = text.split_once('/')?;
    let (used, group) = (number(used)?, number(group)?);
    (1 <= used && used <= group).then_some((used, group))
}

fn cpu(text: &str, at: usize) -> Result<usize, CpuListError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(CpuListError::new(text, at, "a cpu number"));
    }
    // All digits, so only a number too large for the type can fail here.
    number(text).filter(|&cpu| cpu < CPUS_MAX).ok_or_else(|| CpuListError::new(text, at, BELOW_MAX))
}

/// Digits only: the standard parser would take a leading plus as well.
fn number(text: &str) -> Option<usize> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The parts between commas without the blanks around them, each with its place in the text.
fn items(text: &str) -> Vec<(usize, &str)> {
    let mut at = 0;
    text.split(',')
        .map(|part| {
            let place = at + (part.len() - part.trim_start().len());
            at += part.len() + 1;
            (place, part.trim())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(cpus: &[usize]) -> CpuList {
        cpus.iter().copied().collect()
    }

    #[test]
    fn reads_what_the_kernel_writes() {
        for (text, cpus) in [
            ("", &[][..]),
            ("\n", &[]),
            ("0\n", &[0]),
            ("0-3,8", &[0, 1, 2, 3, 8]),
            (" 1 , 5-6 \n", &[1, 5, 6]),
            ("4-4", &[4]),
            ("3,1,2,1-2", &[1, 2, 3]),
            ("0-11:2/4", &[0, 1, 4, 5, 8, 9]),
            ("10-14:1/3", &[10, 13]),
            ("0-3:4/4", &[0, 1, 2, 3]),
            ("65535", &[65_535]),
        ] {
            assert_eq!(text.parse::<CpuList>().unwrap(), list(cpus), "{text:?}");
        }
    }

    #[test]
    fn says_what_makes_no_sense_and_where() {
        for (text, message) in [
            ("x", r#""x" at byte 0 of a cpu list: wanted a cpu number"#),
            ("0-3,x3", r#""x3" at byte 4 of a cpu list: wanted a cpu number"#),
            ("0, +3", r#""+3" at byte 3 of a cpu list: wanted a cpu number"#),
            ("-3", r#""" at byte 0 of a cpu list: wanted a cpu number"#),
            ("0-3,", r#""" at byte 4 of a cpu list: wanted a cpu number"#),
            ("0,,1", r#""" at byte 2 of a cpu list: wanted a cpu number"#),
            ("3-1", r#""3-1" at byte 0 of a cpu list: wanted a range that runs upwards"#),
            ("0-99999999999", r#""99999999999" at byte 0 of a cpu list: wanted a cpu number below 65536"#),
            ("65536", r#""65536" at byte 0 of a cpu list: wanted a cpu number below 65536"#),
            (
                "99999999999999999999999",
                r#""99999999999999999999999" at byte 0 of a cpu list: wanted a cpu number below 65536"#,
            ),
            ("0-65535,0", r#""0" at byte 8 of a cpu list: wanted no more than 65536 cpus in the whole list"#),
            ("7:1/2", r#""7:1/2" at byte 0 of a cpu list: wanted a range before the stride"#),
            ("0-7:1", r#""0-7:1" at byte 0 of a cpu list: wanted a stride USED/GROUP with 1 <= USED <= GROUP"#),
            ("0-7:0/2", r#""0-7:0/2" at byte 0 of a cpu list: wanted a stride USED/GROUP with 1 <= USED <= GROUP"#),
            ("0-7:3/2", r#""0-7:3/2" at byte 0 of a cpu list: wanted a stride USED/GROUP with 1 <= USED <= GROUP"#),
            ("0-7:1/0", r#""0-7:1/0" at byte 0 of a cpu list: wanted a stride USED/GROUP with 1 <= USED <= GROUP"#),
        ] {
            assert_eq!(text.parse::<CpuList>().unwrap_err().to_string(), message, "{text:?}");
        }
        let long = "y".repeat(10_000).parse::<CpuList>().unwrap_err().to_string();
        assert!(long.len() < 120, "a nonsense file is quoted in part: {long}");
    }

    #[test]
    fn prints_what_it_reads() {
        for text in ["", "0", "0-1", "0-3,8,10-11", "1,3,5", "65534-65535"] {
            assert_eq!(text.parse::<CpuList>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn reads_masks() {
        for (text, cpus) in [
            ("3\n", &[0, 1][..]),
            ("00000000", &[]),
            ("00000001,00000004", &[2, 32]),
            ("0x8", &[3]),
            ("80000000,0,1", &[0, 95]),
        ] {
            assert_eq!(CpuList::from_mask(text).unwrap(), list(cpus), "{text:?}");
        }
        for text in ["", "g", "1,,1", "123456789"] {
            assert!(CpuList::from_mask(text).is_err(), "{text:?}");
        }
        let too_far = format!("1{}", ",0".repeat(CPUS_MAX / MASK_WORD_BITS));
        assert!(CpuList::from_mask(&too_far).is_err());
    }
}
