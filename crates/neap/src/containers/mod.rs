//! Containers whose memory is collected, and one beside objects.
//!
//! Used by any thread.

mod deque;
mod hash_map;
mod ordered_map;
mod string;
mod traced;
mod vector;
mod weak_map;

pub use deque::VecDeque;
pub use hash_map::HashMap;
pub use ordered_map::BTreeMap;
pub use string::String;
pub use vector::Vec;
pub use weak_map::WeakMap;

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::Gc;
    use std::cell::RefCell;

    #[derive(crate::Trace)]
    struct Harbour {
        vector: RefCell<Vec<Gc<u64>>>,
        queue: RefCell<VecDeque<Gc<u64>>>,
        map: RefCell<BTreeMap<Gc<u64>, Gc<u64>>>,
        table: RefCell<HashMap<Gc<u64>, Gc<u64>>>,
        text: String,
    }

    fn text(numbers: &std::ops::Range<u64>) -> String {
        format!("{:?}", Vec::from_iter(numbers.clone())).into()
    }

    #[inline(never)]
    fn harbour(numbers: std::ops::Range<u64>) -> Gc<Harbour> {
        let each = || numbers.clone().map(Gc::new);
        Gc::new(Harbour {
            vector: RefCell::new(each().collect()),
            queue: RefCell::new(each().collect()),
            map: RefCell::new(each().zip(each()).collect()),
            table: RefCell::new(each().zip(each()).collect()),
            text: text(&numbers),
        })
    }

    fn numbers(index: usize) -> std::ops::Range<u64> {
        0..(100 * index).div_ceil(LESS) as u64
    }

    #[test]
    fn what_containers_of_an_object_hold_lives_with_it() {
        let harbours = Gc::from_fn(20, |index| harbour(numbers(index)));
        crate::collect();
        // What was freed by mistake is something else now.
        for _ in 0..20 {
            std::hint::black_box(harbour(5000..5000 + 2000 / LESS as u64));
        }
        for (index, harbour) in harbours.iter().enumerate() {
            let numbers = numbers(index);
            let is_number = |(number, one): (u64, &Gc<u64>)| number == **one;
            assert!(numbers.clone().zip(harbour.vector.borrow().iter()).all(is_number));
            assert!(numbers.clone().zip(harbour.queue.borrow().iter()).all(is_number));
            assert_eq!(harbour.text, text(&numbers));
            let (map, table) = (harbour.map.borrow(), harbour.table.borrow());
            assert!(map.iter().all(|(key, value)| key == value));
            assert!(numbers.clone().zip(map.iter().map(|(key, _)| key)).all(is_number));
            assert!(numbers.clone().all(|number| table.get(&number) == Some(&Gc::new(number))));
            assert_eq!(numbers.end as usize * 2, map.len() + table.len());
        }
    }

    /// Miri takes some thousand times as long: it gets so many times less of everything.
    pub const LESS: usize = if cfg!(miri) { 500 } else { 1 };

    /// Numbers that look random, the same each time.
    pub struct Random(pub u64);

    impl Random {
        pub fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (self.0 >> 33) % end
        }
    }
}
