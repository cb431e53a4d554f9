//! What differs between processors in how they move memory: stores that go round the caches, and lines that are written back.
//!
//! | name | promise |
//! |---|---|
//! | [`Streaming`] | Holding one means: this cpu has stores that do not allocate in its caches, and [`Streaming::copy`] and [`Streaming::fill`] use them. |
//! | [`LineFlush`] | Holding one means: this cpu writes single lines back when told to. |
//! | [`largest_cache`] | How large the largest cache is, if something says so. |
//!
//! The first two are tokens, made by `detect` from what the cpu states and nowhere else. Streamed stores are not ordered with anything, other stores of
//! the same thread included, until [`Streaming::publish`]; so both functions end with it, and no caller can forget it.

#[cfg(not(target_arch = "x86_64"))]
#[path = "memory_other.rs"]
mod native;
#[cfg(target_arch = "x86_64")]
#[path = "memory_x86.rs"]
mod native;

pub(crate) use native::{LineFlush, Streaming, largest_cache};

/// Streamed stores write whole lines of this many bytes, and begin at a multiple of it: a part of a line would be read and merged by the memory
/// controller, which costs what was to be saved.
pub(crate) const LINE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streamed_copies_are_copies() {
        let Some(streaming) = Streaming::detect() else { return };
        for every in streaming.kinds() {
            for lines in [1, 2, 3, 7, 64, 65] {
                for skew in [0, 1, 31, 63] {
                    let source: Vec<u8> = (0..lines * LINE + skew).map(|at| (at * 7 + 3) as u8).collect();
                    let mut target = vec![0xee; (lines + 3) * LINE];
                    let start = target.as_ptr().align_offset(LINE) + LINE;
                    // SAFETY: `source` holds `skew` bytes and the lines; `target` holds a line more than they are, from an aligned start.
                    unsafe { every.copy(source.as_ptr().add(skew), target.as_mut_ptr().add(start), lines * LINE) };
                    assert_eq!(target[start..start + lines * LINE], source[skew..], "{every:?} {lines} {skew}");
                    assert!(target[..start].iter().chain(&target[start + lines * LINE..]).all(|byte| *byte == 0xee));
                }
            }
        }
    }

    #[test]
    fn streamed_fills_are_fills() {
        let Some(streaming) = Streaming::detect() else { return };
        let pattern: [u8; LINE] = std::array::from_fn(|at| at as u8);
        for every in streaming.kinds() {
            let mut target = vec![0xee; 8 * LINE];
            let start = target.as_ptr().align_offset(LINE) + LINE;
            // SAFETY: five lines from an aligned start, of seven at least.
            unsafe { every.fill(&pattern, target.as_mut_ptr().add(start), 5 * LINE) };
            assert!(target[start..start + 5 * LINE].chunks(LINE).all(|line| line == pattern));
            assert!(target[..start].iter().chain(&target[start + 5 * LINE..]).all(|byte| *byte == 0xee));
        }
    }

    #[test]
    fn lines_that_are_flushed_keep_their_content() {
        let Some(flush) = LineFlush::detect() else { return };
        let bytes: Vec<u8> = (0..5 * LINE).map(|at| at as u8).collect();
        for (from, len) in [(0, 0), (0, 1), (63, 2), (1, 5 * LINE - 1)] {
            // SAFETY: the range lies within `bytes`.
            unsafe {
                flush.give_up(bytes.as_ptr().add(from), len);
                flush.write_back(bytes.as_ptr().add(from), len);
            }
        }
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == at as u8));
    }
}
