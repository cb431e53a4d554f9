//! CRC-32C (Castagnoli), chained by its final values.

use crc_fast::{CrcAlgorithm, Digest};

use super::Stores;
use super::copy::{PIECE, copy};

/// The CRC-32C of a range that follows one whose CRC-32C is `seed`; 0 starts anew.
///
/// Inverted at both ends, as iSCSI and the device have it, so that final values chain: the inversion at one end undoes that at the other.
///
/// # Safety
/// The range is readable for `len` bytes.
pub(super) unsafe fn crc(src: *const u8, len: usize, seed: u32) -> u32 {
    // SAFETY: as this function demands.
    chained(unsafe { std::slice::from_raw_parts(src, len) }, seed)
}

/// Copies, and gives the CRC-32C of what was copied.
///
/// # Safety
/// `src` is readable and `dst` writable for `len` bytes; they do not overlap.
pub(super) unsafe fn copy_crc(src: *const u8, dst: *mut u8, len: usize, seed: u32, stores: Stores) -> u32 {
    let mut seed = seed;
    for from in (0..len).step_by(PIECE) {
        let piece = PIECE.min(len - from);
        // SAFETY: a part of each range. The source comes from memory once: it is still in the first-level cache for the second of the two.
        unsafe {
            seed = crc(src.add(from), piece, seed);
            copy(src.add(from), dst.add(from), piece, stores);
        }
    }
    seed
}

fn chained(bytes: &[u8], seed: u32) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!seed));
    digest.update(bytes);
    // A CRC of 32 bits stands in the low half.
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 3720, B.4, and the check value of the CRC catalogue.
    #[test]
    fn published_vectors() {
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        for (bytes, crc) in [
            (&b"123456789"[..], 0xe306_9283),
            (&[0; 32], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&ascending, 0x46dd_794e),
            (&descending, 0x113f_db5c),
            (&[], 0),
        ] {
            assert_eq!(chained(bytes, 0), crc);
        }
    }

    #[test]
    fn final_values_chain() {
        let bytes: Vec<u8> = (0..1000u32).map(|at| (at * 31) as u8).collect();
        let whole = chained(&bytes, 0);
        for cut in [0, 1, 7, 255, 256, 999, 1000] {
            assert_eq!(chained(&bytes[cut..], chained(&bytes[..cut], 0)), whole, "{cut}");
        }
    }
}
