//! The heap's consistency check: headers, bits, free granules and lists against each other. For
//! tests and `NEAP_CHECK`.
//!
//! Takes the heap's lock; called with the world stopped, or where no other thread uses the heap.

use core::fmt;

use super::Heap;
use super::blocks::header::{Listed, State};
use crate::addr::Granule;

/// A rule that does not hold, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The rule's tag in `docs/design`.
    pub rule: &'static str,
    /// The block or granule.
    pub granule: Granule,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {} does not hold at granule {}", self.rule, self.granule.0)
    }
}

impl Heap {
    /// Checks every block once, in time proportional to the heap's metadata.
    pub fn verify(&self) -> Result<(), Broken> {
        let inner = self.inner();
        let mut used = 0;
        let mut blocks = 0;
        let mut granule = Granule(0);
        while granule.offset() < self.committed() {
            let header = self.header(granule);
            let span = match header.state() {
                State::Free => {
                    if !inner.granules.is_free(granule) {
                        return Err(Broken { rule: "heap.inv.granules", granule });
                    }
                    if self.block_of(granule).0 != granule {
                        return Err(Broken { rule: "heap.inv.further", granule });
                    }
                    granule = granule.add(1);
                    continue;
                }
                State::Small | State::Large => header.span() as usize,
            };
            for index in 0..span {
                let further = granule.add(index);
                if inner.granules.is_free(further) {
                    return Err(Broken { rule: "heap.inv.granules", granule: further });
                }
                if inner.granules.is_armed(further) != inner.granules.is_armed(granule) {
                    return Err(Broken { rule: "heap.inv.armed", granule });
                }
                if self.block_of(further).0 != granule {
                    return Err(Broken { rule: "heap.inv.further", granule: further });
                }
                if index > 0 && self.header(further).state() != State::Free {
                    return Err(Broken { rule: "heap.inv.header", granule: further });
                }
            }
            self.verify_bits(granule)?;
            used += span;
            // A large block is in no list until it is an object.
            blocks += (header.state() == State::Small || header.listed() != Listed::No) as usize;
            granule = granule.add(span);
        }
        if used != inner.granules.taken() {
            return Err(Broken { rule: "heap.inv.granules", granule });
        }
        let mut listed = 0;
        let mut wrong = None;
        inner.for_each_listed(self, |block, list| {
            listed += 1;
            if list == Listed::No || self.header(block).state() == State::Free {
                wrong = Some(block);
            }
        });
        match wrong {
            Some(granule) => Err(Broken { rule: "heap.inv.lists", granule }),
            None if listed != blocks => Err(Broken { rule: "heap.inv.lists", granule: Granule(0) }),
            None => Ok(()),
        }
    }

    fn verify_bits(&self, block: Granule) -> Result<(), Broken> {
        let cells = self.header(block).cells();
        let bits = self.bits(block);
        let noted = self.marked_in_chunk(block.chunk()) >> block.in_chunk() & 1 != 0;
        if bits.marked(cells) > 0 && !noted {
            return Err(Broken { rule: "heap.inv.marked-blocks", granule: block });
        }
        for word in 0..cells.div_ceil(64) as usize {
            let valid = match cells as usize - word * 64 {
                more if more >= 64 => u64::MAX,
                rest => (1 << rest) - 1,
            };
            let (marked, allocated) = (bits.mark_word(word), bits.allocated_word(word));
            if (marked | allocated) & !valid != 0 || marked & !allocated != 0 {
                return Err(Broken { rule: "heap.inv.bits", granule: block });
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
        assert_eq!(heap.verify().unwrap_err().rule, "heap.inv.granules");
    }
}
