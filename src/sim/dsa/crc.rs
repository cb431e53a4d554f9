//! What is the CRC of this? Computed from the polynomials, with tables made from them: nothing in common with the crates of the CPU engine, so that
//! each can convict the other.
//!
//! The specification's appendices A and B describe the computation as a shift register, bit by bit; [`Register`] is that, a byte at a time.

/// CRC-32C (Castagnoli), x^32 + ... without its leading term (appendix A).
const CASTAGNOLI: u32 = 0x1EDC_6F41;
/// CRC-64 of NVMe and Rocksoft, which version 2 devices have besides.
const ROCKSOFT: u64 = 0xAD93_D235_94C9_3659;
/// CRC-16 of T10's protection information, 0x18BB7 without its leading term (appendix B).
const T10: u16 = 0x8BB7;

/// Which CRC an operation computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Crc32,
    Crc64,
}

impl Width {
    fn bits(self) -> u32 {
        match self {
            Self::Crc32 => 32,
            Self::Crc64 => 64,
        }
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    fn reversed(self, value: u64) -> u64 {
        value.reverse_bits() >> (64 - self.bits())
    }
}

/// A CRC being computed: the register as the specification has it, most significant bit first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register {
    width: Width,
    /// Seed and result go in and out as they are: neither inverted nor reflected (flag bit 17).
    raw: bool,
    /// Bit 7 of each byte comes first (flag bit 18); else bit 0.
    plain_data: bool,
    state: u64,
}

impl Register {
    pub(crate) fn new(width: Width, seed: u64, raw: bool, plain_data: bool) -> Self {
        let seed = seed & width.mask();
        let state = if raw { seed } else { width.reversed(!seed & width.mask()) };
        Self { width, raw, plain_data, state }
    }

    pub(crate) fn take(&mut self, data: &[u8]) {
        for byte in data {
            let byte = if self.plain_data { *byte } else { byte.reverse_bits() };
            self.state = match self.width {
                Width::Crc32 => {
                    let state = self.state as u32;
                    u64::from(state << 8 ^ TABLE_32[usize::from((state >> 24) as u8 ^ byte)])
                }
                Width::Crc64 => self.state << 8 ^ TABLE_64[usize::from((self.state >> 56) as u8 ^ byte)],
            };
        }
    }

    /// The value so far, which is also the seed with which the next part goes on.
    pub(crate) fn value(&self) -> u64 {
        if self.raw { self.state } else { !self.width.reversed(self.state) & self.width.mask() }
    }
}

/// The guard of one block of data, before any inversion of the result.
pub(crate) fn guard(data: &[u8], seed: u16) -> u16 {
    data.iter().fold(seed, |state, byte| state << 8 ^ TABLE_16[usize::from((state >> 8) as u8 ^ byte)])
}

static TABLE_32: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut state = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            state = if state >> 31 == 1 { state << 1 ^ CASTAGNOLI } else { state << 1 };
            bit += 1;
        }
        table[byte] = state;
        byte += 1;
    }
    table
};

static TABLE_64: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut state = (byte as u64) << 56;
        let mut bit = 0;
        while bit < 8 {
            state = if state >> 63 == 1 { state << 1 ^ ROCKSOFT } else { state << 1 };
            bit += 1;
        }
        table[byte] = state;
        byte += 1;
    }
    table
};

static TABLE_16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut state = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            state = if state >> 15 == 1 { state << 1 ^ T10 } else { state << 1 };
            bit += 1;
        }
        table[byte] = state;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    const CHECK: &[u8] = b"123456789";

    fn of(width: Width, seed: u64, raw: bool, plain: bool, data: &[u8]) -> u64 {
        let mut register = Register::new(width, seed, raw, plain);
        register.take(data);
        register.value()
    }

    /// The catalogued check values of each algorithm, over "123456789".
    #[test]
    fn known_vectors() {
        assert_eq!(of(Width::Crc32, 0, false, false, CHECK), 0xE306_9283); // CRC-32/ISCSI
        assert_eq!(of(Width::Crc64, 0, false, false, CHECK), 0xAE8B_1486_0A79_9888); // CRC-64/NVME
        assert_eq!(guard(CHECK, 0), 0xD0DB); // CRC-16/T10-DIF
        assert_eq!(of(Width::Crc32, 0, false, false, &[0; 32]), 0x8A91_36AA); // RFC 3720, B.4
        assert_eq!(of(Width::Crc32, 0, false, false, &[0xff; 32]), 0x62A8_AB43);
    }

    /// Flag 17 alone takes inversion and reflection away, which leaves the plain register.
    #[test]
    fn bypasses_are_what_their_names_say() {
        let plain = of(Width::Crc32, 0xffff_ffff, true, false, CHECK);
        assert_eq!(!(plain as u32).reverse_bits(), 0xE306_9283);
        let mirrored: Vec<u8> = CHECK.iter().map(|byte| byte.reverse_bits()).collect();
        assert_eq!(of(Width::Crc32, 5, false, true, &mirrored), of(Width::Crc32, 5, false, false, CHECK));
    }

    #[test]
    fn a_part_seeds_the_next() {
        for width in [Width::Crc32, Width::Crc64] {
            for raw in [false, true] {
                for cut in 0..=CHECK.len() {
                    let first = of(width, 3, raw, false, &CHECK[..cut]);
                    assert_eq!(of(width, first, raw, false, &CHECK[cut..]), of(width, 3, raw, false, CHECK));
                }
            }
        }
    }
}
