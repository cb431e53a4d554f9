//! What all copies to one queue have in common, worked out once: the way of a copy from operation to descriptor is then eight stores.
//!
//! Nothing is decided here: the descriptors are [`prepare`]'s, asked when the queue is opened, and only what differs from copy to copy is written anew. Where a
//! copy needs a look of its own (a device that does not order overlapping copies), there is no template, and `prepare` is asked each time.

use super::Limits;
use crate::offload::dsa::abi::{Descriptor, GenCap};
use crate::offload::dsa::prepare::{Manner, Note, Prepared, prepare};
use crate::offload::{Intent, Operation};

/// A template an intent. See the module's documentation.
#[derive(Debug)]
pub(crate) struct Copies {
    /// By intent; the last place is nobody's, so that an index needs no check.
    by_intent: [Template; 4],
}

/// Aligned for the sake of its address: one shift.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Template {
    /// [`Descriptor::common`].
    common: u64,
    /// The largest copy, in bytes; 0: there is no template.
    len_max: usize,
    note: Note,
}

/// The lengths that a template takes, in bytes: from 1 on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    /// 0: none.
    max: usize,
}

impl Lengths {
    #[inline(always)]
    pub(crate) fn contains(self, len: usize) -> bool {
        // One comparison for both ends: 0 wraps.
        len.wrapping_sub(1) < self.max
    }
}

impl Copies {
    pub(crate) fn new(limits: &Limits) -> Self {
        let none = Template { common: 0, len_max: 0, note: Note::new(Manner::default(), false) };
        let len_max = usize::try_from(limits.transfer_max.min(u32::MAX.into())).unwrap_or(usize::MAX);
        let template = |intent| {
            let op = Operation::Copy { src: std::ptr::null(), dst: std::ptr::null_mut(), len: 1 };
            let ordered = limits.general.contains(GenCap::OVERLAPPING_COPY);
            let manner = Manner { intent, block_on_fault: false };
            match prepare(&op, manner, limits, 0) {
                Ok(Prepared { descriptor, write_back }) if ordered => {
                    Template { common: descriptor.common(), len_max, note: Note::new(manner, write_back) }
                }
                _ => none,
            }
        };
        let by_intent = [template(Intent::Soon), template(Intent::Cold), template(Intent::Durable), none];
        Self { by_intent }
    }

    /// The template for copies of this length, if there is one.
    #[inline(always)]
    pub(crate) fn template(&self, manner: Manner, len: usize) -> Option<&Template> {
        let template = self.of(manner.intent);
        (!manner.block_on_fault && template.takes(len)).then_some(template)
    }

    /// The template for copies of an intent, if it [takes](Template::takes) any.
    #[inline(always)]
    pub(crate) fn of(&self, intent: Intent) -> &Template {
        &self.by_intent[intent as usize % 4]
    }
}

impl Template {
    /// What [`prepare`] would say of this copy, whose length the template was asked for with.
    #[inline(always)]
    pub(crate) fn of(&self, (src, dst, len): (*const u8, *mut u8, usize), record: u64) -> [u64; 8] {
        // At most u32::MAX, see `Copies::new`.
        Descriptor::memmove_as(self.common, src.addr() as u64, dst.addr() as u64, len as u64, record)
    }

    /// Whether it is for copies of this length.
    #[inline(always)]
    pub(crate) fn takes(&self, len: usize) -> bool {
        self.lengths().contains(len)
    }

    /// Of which lengths it is.
    #[inline(always)]
    pub(crate) fn lengths(&self) -> Lengths {
        Lengths { max: self.len_max }
    }

    /// What is to be remembered.
    #[inline(always)]
    pub(crate) fn note(&self) -> Note {
        self.note
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::dsa::abi::{OpCap, Opcode, Version};

    #[test]
    fn a_template_says_what_prepare_says() {
        let (plain, all) = (GenCap::OVERLAPPING_COPY, GenCap(u64::MAX));
        let memmove = OpCap::of(&[Opcode::MEMMOVE]);
        for (general, operations) in [(GenCap(0), memmove), (plain, memmove), (all, memmove), (all, OpCap::NONE)] {
            let limits = Limits {
                version: Version::V3_0,
                general,
                operations,
                transfer_max: 4096,
                batch_max: 0,
                in_flight_max: 1,
                block_on_fault: true,
            };
            let copies = Copies::new(&limits);
            for intent in [Intent::Soon, Intent::Cold, Intent::Durable] {
                for block_on_fault in [false, true] {
                    for len in [0, 1, 63, 4096, 4097, 1 << 33] {
                        let manner = Manner { intent, block_on_fault };
                        let (src, dst) =
                            (std::ptr::without_provenance(0x1_2345), std::ptr::without_provenance_mut(0x77_7777));
                        let want = prepare(&Operation::Copy { src, dst, len }, manner, &limits, 0x40);
                        match copies.template(manner, len) {
                            Some(template) => {
                                let descriptor = Descriptor::of_words(template.of((src, dst, len), 0x40));
                                let write_back = template.note().write_back();
                                assert_eq!(template.note().manner(), manner);
                                assert_eq!(want, Ok(Prepared { descriptor, write_back }));
                            }
                            None => assert!(
                                want.is_err() || block_on_fault || !general.contains(plain),
                                "{len} {intent:?} has a template"
                            ),
                        }
                    }
                }
            }
        }
    }
}
