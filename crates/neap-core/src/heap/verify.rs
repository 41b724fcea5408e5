//! The heap's consistency check: headers, bits, free frames and lists against each other. For
//! tests and `NEAP_CHECK`.
//!
//! Takes the heap's lock; called with the world stopped, or where no other thread uses the heap.

use core::fmt;

use super::Heap;
use super::blocks::header::{BlockList, State};
use crate::addr::Frame;

/// A rule that does not hold, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The rule's tag in `docs/design`.
    pub rule: &'static str,
    /// The block or frame.
    pub frame: Frame,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {} does not hold at frame {}", self.rule, self.frame.0)
    }
}

impl Heap {
    /// Checks every block once, in time proportional to the heap's metadata.
    pub fn verify(&self) -> Result<(), Broken> {
        let inner = self.inner();
        let mut used = 0;
        let mut blocks = 0;
        let mut frame = Frame(0);
        while frame.offset() < self.committed() {
            let header = self.header(frame);
            let span = match header.state() {
                State::Free => {
                    if inner.frames.is_free(frame) == inner.frames.is_guard(frame) {
                        return Err(Broken { rule: "heap.inv.frames", frame });
                    }
                    if self.block_of(frame).0 != frame {
                        return Err(Broken { rule: "heap.inv.block-offsets", frame });
                    }
                    frame = frame.add(1);
                    continue;
                }
                State::Small | State::Large => header.span() as usize,
            };
            for index in 0..span {
                let further = frame.add(index);
                if inner.frames.is_free(further) {
                    return Err(Broken { rule: "heap.inv.frames", frame: further });
                }
                if inner.frames.is_protected(further) != inner.frames.is_protected(frame) {
                    return Err(Broken { rule: "heap.inv.protected", frame });
                }
                if self.block_of(further).0 != frame {
                    return Err(Broken { rule: "heap.inv.block-offsets", frame: further });
                }
                if index > 0 && self.header(further).state() != State::Free {
                    return Err(Broken { rule: "heap.inv.header", frame: further });
                }
            }
            self.verify_bits(frame)?;
            used += span;
            // A large block is in no list until it is an object.
            blocks += (header.state() == State::Small || header.list() != BlockList::No) as usize;
            frame = frame.add(span);
        }
        if used != inner.frames.taken() {
            return Err(Broken { rule: "heap.inv.frames", frame });
        }
        let mut listed = 0;
        let mut wrong = None;
        inner.for_each_listed(self, |block, list| {
            listed += 1;
            if list == BlockList::No || self.header(block).state() == State::Free {
                wrong = Some(block);
            }
        });
        match wrong {
            Some(frame) => Err(Broken { rule: "heap.inv.lists", frame }),
            None if listed != blocks => Err(Broken { rule: "heap.inv.lists", frame: Frame(0) }),
            None => Ok(()),
        }
    }

    fn verify_bits(&self, block: Frame) -> Result<(), Broken> {
        let cells = self.header(block).cells();
        let bits = self.bits(block);
        let noted = self.marked_in_chunk(block.chunk()) >> block.in_chunk() & 1 != 0;
        if bits.marked(cells) > 0 && !noted {
            return Err(Broken { rule: "heap.inv.marked-blocks", frame: block });
        }
        for word in 0..cells.div_ceil(64) as usize {
            let valid = match cells as usize - word * 64 {
                more if more >= 64 => u64::MAX,
                rest => (1 << rest) - 1,
            };
            let (marked, allocated) = (bits.mark_word(word), bits.allocated_word(word));
            if (marked | allocated) & !valid != 0 || marked & !allocated != 0 {
                return Err(Broken { rule: "heap.inv.bits", frame: block });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::kind::Kind;
    use crate::heap::spaces::SpaceId;

    #[test]
    fn a_broken_heap_is_noticed() {
        let heap = Heap::new();
        heap.reserve(16 << 20).unwrap();
        let block = heap.inner().fresh_block(&heap, SpaceId::of(Kind::Leaf, 15), 0, true).unwrap();
        assert_eq!(heap.verify(), Ok(()));
        heap.bits(block).set_range(5..6, true, false, true);
        assert_eq!(heap.verify().unwrap_err().rule, "heap.inv.marked-blocks");
        heap.note_marked(block, heap.header(block));
        assert_eq!(heap.verify().unwrap_err().rule, "heap.inv.bits");
        heap.bits(block).set_range(5..6, true, false, false);
        heap.header(block).dissolve();
        assert_eq!(heap.verify().unwrap_err().rule, "heap.inv.frames");
    }
}
