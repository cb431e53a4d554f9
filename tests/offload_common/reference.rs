//! What should come of an operation, from the specifications' sentences, bit by bit, and nothing of the crate's.

/// CRC-32C, continued: the reflected polynomial 0x1EDC6F41, seed and result inverted.
pub fn crc32c(bytes: &[u8], seed: u32) -> u32 {
    let mut register = !seed;
    for byte in bytes {
        register ^= u32::from(*byte);
        for _ in 0..8 {
            register = if register & 1 == 1 { register >> 1 ^ 0x82f6_3b78 } else { register >> 1 };
        }
    }
    !register
}

/// T10's guard: the polynomial 0x8BB7, most significant bit first, from 0.
pub fn guard(bytes: &[u8]) -> u16 {
    let mut register = 0_u16;
    for byte in bytes {
        register ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            register = if register & 0x8000 != 0 { register << 1 ^ 0x8bb7 } else { register << 1 };
        }
    }
    register
}

/// Blocks with protection information: guard, application tag, reference tag that counts.
pub fn protected(blocks: &[u8], block: usize, application: u16, reference: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, data) in blocks.chunks(block).enumerate() {
        out.extend_from_slice(data);
        out.extend_from_slice(&guard(data).to_be_bytes());
        out.extend_from_slice(&application.to_be_bytes());
        out.extend_from_slice(&reference.wrapping_add(number as u32).to_be_bytes());
    }
    out
}

/// What makes `modified` from `original`: offsets in units of 8 bytes, and the new units.
pub fn delta(original: &[u8], modified: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    for (unit, (old, new)) in original.chunks(8).zip(modified.chunks(8)).enumerate() {
        if old != new {
            record.extend_from_slice(&(unit as u16).to_le_bytes());
            record.extend_from_slice(new);
        }
    }
    record
}

/// A pattern again and again.
pub fn filled(pattern: &[u8], len: usize) -> Vec<u8> {
    pattern.iter().copied().cycle().take(len).collect()
}

#[test]
fn the_reference_knows_the_published_check_values() {
    assert_eq!(crc32c(b"123456789", 0), 0xe306_9283, "RFC 3720, appendix B.4 and the catalogue of CRCs");
    assert_eq!(crc32c(&[0; 32], 0), 0x8a91_36aa, "RFC 3720, appendix B.4: 32 bytes of zeros");
    assert_eq!(crc32c(&[0xff; 32], 0), 0x62a8_ab43, "RFC 3720, appendix B.4: 32 bytes of ones");
    assert_eq!(guard(b"123456789"), 0xd0db, "CRC-16/T10-DIF's check value");
}
