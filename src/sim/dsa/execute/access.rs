//! How does an operation get at memory? Through the device's translation, with the faults that a test wants.

use crate::offload::dsa::abi::FaultOperand;
use crate::sim::lab::Dice;

use super::super::faults::Faults;
use super::super::memory::{self, Inaccessible, PAGE, page_of, to_page_end};
use super::super::profile::Freedoms;
use super::super::space::{AddressSpace, PageState, Translation};

/// An access that the device's translation did not let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageFault {
    pub(crate) address: u64,
    pub(crate) write: bool,
    /// A page request was refused, or the translation was, for good: status 0x04.
    pub(crate) refused: bool,
    pub(crate) operand: FaultOperand,
}

/// What faults are drawn from: the same for all operations of a device.
#[derive(Debug)]
pub(crate) struct Weather {
    pub(crate) faults: Faults,
    pub(crate) dice: Dice,
    /// Pages until the next one of a storm.
    until_storm: u32,
}

impl Weather {
    pub(crate) fn new(faults: Faults, seed: u64) -> Self {
        Self { faults, dice: Dice::new(seed), until_storm: 0 }
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        // No draw without need, so that switching one fault on does not shift the others' draws more than it has to.
        probability > 0.0 && self.dice.unit() < probability
    }

    fn storms(&mut self) -> bool {
        let Some(every) = self.faults.every_page else { return false };
        if self.until_storm > 0 {
            self.until_storm -= 1;
            return false;
        }
        // Not in step: an operation that is resumed at the same pages would meet the same fault for ever.
        self.until_storm = (self.dice.next() % (2 * u64::from(every.get()) - 1)) as u32;
        true
    }
}

/// What an operation remembers of the pages it reached, so that each is drawn for once: the last page by operand.
pub(crate) type Reached = [Option<u64>; OPERANDS];
const OPERANDS: usize = 8;
/// A large piece, in bytes: what keeps a step of the device short, some microseconds.
const LARGE: u64 = 64 * 1024;

/// One operation's way to memory, for one piece of its work.
pub(crate) struct Access<'a> {
    pub(crate) space: &'a AddressSpace,
    pub(crate) weather: &'a mut Weather,
    pub(crate) reached: &'a mut Reached,
    /// The descriptor blocks on faults, and its queue lets it.
    pub(crate) blocks: bool,
    /// Pages that are not in the page tables are absent.
    pub(crate) residency: bool,
    /// Pieces of random size.
    pub(crate) pieces: bool,
    /// Pieces that span pages, as long as nothing faults: see [`whole`](Access::whole).
    pub(crate) large: bool,
    /// Counted while it works.
    pub(crate) tally: Tally,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) page_requests: u64,
}

impl Access<'_> {
    /// Whether pieces may span pages: nothing faults by declaration or by lot. Memory that is really missing is found by the access itself; the
    /// operation has not moved on then, and is asked again to go page by page, which leaves exactly what comes before the fault.
    pub(crate) fn whole(space: &AddressSpace, faults: &Faults, freedoms: &Freedoms) -> bool {
        let by_lot = faults.page_absent > 0.0 || faults.page_refused > 0.0 || faults.every_page.is_some();
        !freedoms.pieces && !freedoms.residency && !by_lot && space.is_plain()
    }

    /// How much an operation does next: at most `left`, and not beyond the page of any of `addresses`, so that a fault is met at a piece's first byte.
    pub(crate) fn piece(&mut self, left: u64, addresses: &[u64]) -> usize {
        if self.large {
            return left.min(LARGE) as usize;
        }
        let most = addresses.iter().map(|address| to_page_end(*address)).fold(left.min(PAGE), u64::min);
        self.cut(most)
    }

    /// The same from the end: `addresses` are those behind the last byte to do.
    pub(crate) fn piece_before(&mut self, left: u64, addresses: &[u64]) -> usize {
        if self.large {
            return left.min(LARGE) as usize;
        }
        let in_page = |end: u64| end.wrapping_sub(page_of(end.wrapping_sub(1)));
        let most = addresses.iter().map(|end| in_page(*end)).fold(left.min(PAGE), u64::min);
        self.cut(most)
    }

    fn cut(&mut self, most: u64) -> usize {
        // Mostly whole: an operation that advances a byte at a time would never end.
        let whole = !self.pieces || most <= 1 || self.weather.dice.next() & 3 != 0;
        let piece = if whole { most } else { 1 + self.weather.dice.next() % most };
        usize::try_from(piece).unwrap_or(usize::MAX)
    }

    /// Reads a range, which may span pages.
    pub(crate) fn read(&mut self, operand: FaultOperand, address: u64, to: &mut [u8]) -> Result<(), PageFault> {
        let mut done = 0;
        while done < to.len() {
            let at = address.wrapping_add(done as u64);
            let here = self.stretch(to.len() - done, at);
            self.translate(operand, at, false)?;
            memory::read(at, &mut to[done..done + here]).map_err(|Inaccessible| self.missing(operand, at, false))?;
            done += here;
        }
        self.tally.read += to.len() as u64;
        Ok(())
    }

    /// What is accessed at once: all of it, or up to the page's end.
    fn stretch(&self, left: usize, at: u64) -> usize {
        if self.large { left } else { left.min(to_page_end(at) as usize) }
    }

    /// Writes a piece. If a page of it faults (which can be the first only, but for large pieces), the bytes before it are written.
    pub(crate) fn write(&mut self, operand: FaultOperand, address: u64, from: &[u8]) -> Result<(), PageFault> {
        let mut done = 0;
        while done < from.len() {
            let at = address.wrapping_add(done as u64);
            let here = self.stretch(from.len() - done, at);
            self.translate(operand, at, true)?;
            memory::write(at, &from[done..done + here]).map_err(|Inaccessible| self.missing(operand, at, true))?;
            done += here;
        }
        self.tally.written += from.len() as u64;
        Ok(())
    }

    /// Writes a unit that may span pages: all of it or, if a page of it faults, nothing.
    pub(crate) fn write_unit(&mut self, operand: FaultOperand, address: u64, from: &[u8]) -> Result<(), PageFault> {
        let mut looked = 0;
        while looked < from.len() {
            let at = address.wrapping_add(looked as u64);
            self.writable(operand, at)?;
            looked += to_page_end(at) as usize;
        }
        self.write(operand, address, from)
    }

    /// Would a write to the page of `address` go through? Asked where two destinations have to be written both or not at all.
    pub(crate) fn writable(&mut self, operand: FaultOperand, address: u64) -> Result<(), PageFault> {
        self.translate(operand, address, true)?;
        memory::writable(address).map_err(|Inaccessible| self.missing(operand, address, true))
    }

    /// Looks a page up, as an access would, without one.
    pub(crate) fn translate(&mut self, operand: FaultOperand, address: u64, write: bool) -> Result<(), PageFault> {
        let fault = |refused| PageFault { address, write, refused, operand };
        let known = self.reached[operand as usize % OPERANDS] == Some(page_of(address));
        if !known && self.weather_strikes(operand, address) {
            return Err(fault(true));
        }
        // A device keeps the last translation of each operand: what was present stays so for the operation, unless it is declared otherwise.
        match self.space.translate(address, write, self.residency && !known) {
            Translation::Present => Ok(()),
            Translation::Requestable if self.blocks => {
                self.space.fill(address);
                self.tally.page_requests += 1;
                Ok(())
            }
            Translation::Requestable => Err(fault(false)),
            Translation::Refusable => Err(fault(self.blocks)),
            Translation::Refused => Err(fault(true)),
        }
    }

    /// Draws, once for each page that an operand reaches, whether it is absent (which is declared, so that the lookup finds it) or refused.
    fn weather_strikes(&mut self, operand: FaultOperand, address: u64) -> bool {
        let page = page_of(address);
        self.reached[operand as usize % OPERANDS] = Some(page);
        let storm = self.weather.storms();
        let faults = self.weather.faults;
        if storm || self.weather.chance(faults.page_absent) {
            self.space.declare(page, 1, PageState::Fillable, 1 + faults.refaults);
        }
        self.weather.chance(faults.page_refused)
    }

    /// The kernel's own answer was EFAULT: there is no such page, or not for this access.
    fn missing(&self, operand: FaultOperand, address: u64, write: bool) -> PageFault {
        PageFault { address, write, refused: self.blocks, operand }
    }
}
