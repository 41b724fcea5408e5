//! Who called: the calling thread's return addresses, innermost first, by the unwind tables
//! (`.eh_frame`) of loaded objects, and by frame pointers where there are none.
//!
//! Invariant `[stats.inv.walk]`: takes no lock, allocates nothing, reads of the stack only what
//! lies between here and the end that it is given, and ends: the stack position grows with every
//! frame. So it may be called anywhere in the program where that range is readable. Assumes glibc:
//! `_dl_find_object` (2.35 and later) finds an address's object without a lock; before that there
//! are frame pointers only.
//!
//! # Safety
//! Unwind tables are read where the loader says they are, and within the lengths that they give
//! themselves.

#![allow(unsafe_code)]

mod tables;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::side_stack;
use crate::sync::function::AtomicFunction;
use gimli::{CfaRule, Register, RegisterRule};
use tables::{Context, Row};

/// Numbers of registers as the tables count them.
const RBP: usize = 6;
const RSP: usize = 7;
const RETURN: usize = 16;
/// Registers that the tables name: sixteen and the return address.
const REGISTERS: usize = 17;
/// Frames passed at most, those of the library itself included. Larger: deeper stacks; smaller: a
/// bound on what a sample costs.
const MOST_FRAMES: usize = 160;

/// glibc's `struct dl_find_object` on x86-64.
#[repr(C)]
struct Found {
    flags: u64,
    start: usize,
    end: usize,
    link_map: *const LinkMap,
    /// The object's `.eh_frame_hdr`.
    tables: usize,
    reserved: [u64; 7],
}

/// The part of `struct link_map` that is public.
#[repr(C)]
struct LinkMap {
    bias: usize,
    name: *const c_char,
}

type FindObject = unsafe extern "C" fn(*mut c_void, *mut Found) -> c_int;
/// `_dl_find_object`; none if libc has none or [`prepare`] was not called.
static FIND_OBJECT: AtomicFunction<FindObject> = AtomicFunction::none();

/// Looks up what [`walk`] needs. Called at start-up.
pub fn prepare() {
    // SAFETY: looks a symbol up; libc's function of this name has this type.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr());
        FIND_OBJECT.set_address(found);
    }
}

/// Where functions of the library begin that stand between libc and what a thread of the program
/// runs.
static LEFT_OUT: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

/// Leaves the function that begins there out of stacks: it tells nobody anything. Said again, it
/// changes nothing. From any thread.
pub fn leave_out(function: usize) {
    let is_or_becomes_it = |place: &AtomicUsize| {
        let known = place.compare_exchange(0, function, Relaxed, Relaxed);
        known.is_ok() || known == Err(function)
    };
    let has_room = LEFT_OUT.iter().any(is_or_becomes_it);
    debug_assert!(has_room, "a function that is left out has no place");
}

fn find(address: usize) -> Option<Found> {
    let function = FIND_OBJECT.get()?;
    let mut found = Found {
        flags: 0,
        start: 0,
        end: 0,
        link_map: core::ptr::null(),
        tables: 0,
        reserved: [0; 7],
    };
    // SAFETY: it takes any address.
    let status = unsafe { function(address as *mut c_void, &mut found) };
    (status == 0).then_some(found)
}

/// The library's own code, which nobody wants to see in a stack; empty where it is part of the
/// program itself.
fn own_code() -> Range<usize> {
    let Some(own) = find(own_code as *const () as usize) else { return 0..0 };
    // SAFETY: the loader's record of an object that stays loaded; the program's own name is empty.
    let is_program = unsafe {
        own.link_map.is_null()
            || (*own.link_map).name.is_null()
            || CStr::from_ptr((*own.link_map).name).is_empty()
    };
    if is_program { 0..0 } else { own.start..own.end }
}

/// What is known of one frame.
struct Frame {
    registers: [usize; REGISTERS],
    /// The address is of an instruction that was interrupted, not of one behind a call.
    is_exact: bool,
}

/// The calling thread's return addresses into `frames`; says how many. The stack is readable from
/// here up to `end`.
#[inline(never)]
pub fn walk(end: usize, frames: &mut [usize]) -> usize {
    let mut now = [0_usize; 8];
    // SAFETY: writes eight words to as many.
    unsafe {
        core::arch::asm!(
            "lea {address}, [rip]", "mov [{now}], {address}",
            "mov [{now} + 8], rsp", "mov [{now} + 16], rbp", "mov [{now} + 24], rbx",
            "mov [{now} + 32], r12", "mov [{now} + 40], r13", "mov [{now} + 48], r14",
            "mov [{now} + 56], r15",
            address = out(reg) _, now = in(reg) now.as_mut_ptr(), options(nostack, preserves_flags)
        );
    }
    // Reading the tables takes more of a stack than a program's may have.
    side_stack::on_new(|| walk_from(&now, end, frames))
}

fn walk_from(now: &[usize; 8], end: usize, frames: &mut [usize]) -> usize {
    let [address, rsp, rbp, rbx, r12, r13, r14, r15] = *now;
    let registers = [0, 0, 0, rbx, 0, 0, rbp, rsp, 0, 0, 0, 0, r12, r13, r14, r15, address];
    let stack = rsp..end;
    let mut frame = Frame { registers, is_exact: true };
    let (own, mut depth, mut context) = (own_code(), 0_usize, Context::new_in());
    for _ in 0..MOST_FRAMES {
        let (function, caller) = frame.caller(&mut context, &stack);
        if function != 0 && LEFT_OUT.iter().any(|known| known.load(Relaxed) == function) {
            depth = depth.saturating_sub(1);
        }
        let Some(caller) = caller else { break };
        frame = caller;
        let address = frame.registers[RETURN];
        if depth == frames.len() || address < crate::addr::PAGE_BYTES {
            break;
        }
        if depth > 0 || !own.contains(&address) {
            frames[depth] = address;
            depth += 1;
        }
    }
    depth
}

impl Frame {
    /// Where the frame's function begins, 0 if that is not known, and who called it.
    fn caller(&self, context: &mut Context, stack: &Range<usize>) -> (usize, Option<Frame>) {
        let address = self.registers[RETURN] - usize::from(!self.is_exact);
        let row = find(address).and_then(|found| {
            // SAFETY: the loader gave these tables for this address.
            unsafe { tables::row(context, found.tables, address) }
        });
        let (function, caller) = match row {
            Some(row) => (row.function, self.caller_by(&row, stack)),
            None => (0, self.caller_by_frame_pointer(stack)),
        };
        let is_further = |caller: &Frame| {
            caller.registers[RSP] > self.registers[RSP] && caller.registers[RSP] <= stack.end
        };
        (function, caller.filter(is_further))
    }

    fn caller_by(&self, row: &Row, stack: &Range<usize>) -> Option<Frame> {
        let evaluate = |expression, base| {
            row.evaluate(expression, base, |of| self.register(of), |from| read(from, stack))
        };
        let base = match *row.rules.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                self.register(register)?.wrapping_add_signed(offset as isize)
            }
            CfaRule::Expression(expression) => evaluate(expression, None)?,
        };
        let mut registers = self.registers;
        registers[RSP] = base;
        // Where nothing says where the return address is, the frame is the outermost.
        registers[RETURN] = 0;
        for (register, rule) in row.rules.registers() {
            // Those of vectors are not followed.
            let Some(value) = registers.get_mut(usize::from(register.0)) else { continue };
            *value = match *rule {
                RegisterRule::Offset(offset) => {
                    read(base.wrapping_add_signed(offset as isize), stack)?
                }
                RegisterRule::ValOffset(offset) => base.wrapping_add_signed(offset as isize),
                RegisterRule::Register(other) => self.register(other)?,
                RegisterRule::Expression(place) => read(evaluate(place, Some(base))?, stack)?,
                RegisterRule::ValExpression(value) => evaluate(value, Some(base))?,
                RegisterRule::SameValue => self.register(*register)?,
                _ => return None,
            };
        }
        Some(Frame { registers, is_exact: row.is_signal })
    }

    fn caller_by_frame_pointer(&self, stack: &Range<usize>) -> Option<Frame> {
        let base = self.registers[RBP];
        if base < self.registers[RSP] {
            return None;
        }
        let mut registers = self.registers;
        registers[RBP] = read(base, stack)?;
        registers[RETURN] = read(base.wrapping_add(8), stack)?;
        registers[RSP] = base + 16;
        Some(Frame { registers, is_exact: false })
    }

    fn register(&self, register: Register) -> Option<usize> {
        self.registers.get(usize::from(register.0)).copied()
    }
}

/// A word of the stack; None for what is not in it.
fn read(address: usize, stack: &Range<usize>) -> Option<usize> {
    let inside = address.is_multiple_of(8)
        && address >= stack.start
        && address < stack.end
        && stack.end - address >= 8;
    // SAFETY: in the range that the caller of `walk` vouched for, and aligned.
    inside.then(|| unsafe { (address as *const usize).read_volatile() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::{GlobalAlloc, Layout, System};

    unsafe extern "C" {
        fn _Unwind_Backtrace(
            visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
            data: *mut c_void,
        ) -> c_int;
        fn _Unwind_GetIP(context: *mut c_void) -> usize;
    }

    extern "C" fn visit(context: *mut c_void, data: *mut c_void) -> c_int {
        // SAFETY: called by the system's unwinder with `both`'s vector.
        unsafe { (*data.cast::<Vec<usize>>()).push(_Unwind_GetIP(context)) };
        0
    }

    fn end_of_stack() -> usize {
        let here = super::super::thread::stack_pointer();
        crate::sys::process::mappings::mapping_of(here).map_or(0, |mapping| mapping.end)
    }

    /// What the system's unwinder and [`walk`] find, from here outwards.
    #[inline(never)]
    fn both(most: usize) -> (Vec<usize>, Vec<usize>) {
        prepare();
        let (mut theirs, mut ours) = (Vec::new(), vec![0; most]);
        // SAFETY: `visit` is given the vector it expects.
        unsafe { _Unwind_Backtrace(visit, (&raw mut theirs).cast()) };
        let depth = walk(end_of_stack(), &mut ours);
        ours.truncate(depth);
        // The innermost return address is where each of the two was called from.
        theirs.remove(0);
        ours.remove(0);
        (theirs, ours)
    }

    #[inline(never)]
    fn recurse(depth: usize, f: &mut dyn FnMut()) -> usize {
        let around = core::hint::black_box([depth; 5]);
        if depth == 0 {
            f()
        } else {
            core::hint::black_box(recurse(depth - 1, f));
        }
        core::hint::black_box(around)[depth % 5]
    }

    #[test]
    fn finds_what_the_systems_unwinder_finds() {
        for depth in [0, 3, 40] {
            let mut found = (Vec::new(), Vec::new());
            recurse(depth, &mut || found = both(100));
            let (theirs, ours) = found;
            assert!(ours.len() > depth + 3, "{} frames", ours.len());
            // Beyond the thread's first function the system's one may go on.
            assert_eq!(theirs[..ours.len()], ours[..]);
            assert!(theirs.len() - ours.len() <= 1, "{} and {}", theirs.len(), ours.len());
        }
    }

    #[inline(never)]
    fn between(f: &mut dyn FnMut()) -> usize {
        f();
        core::hint::black_box(1)
    }

    #[test]
    fn a_function_that_is_left_out_is_in_no_stack() {
        // Its callers and what it calls are, before and after.
        let walks = || {
            let mut found = Vec::new();
            for _ in 0..2 {
                let mut walked = (Vec::new(), Vec::new());
                core::hint::black_box(between(&mut || walked = both(100)));
                found.push(walked);
                leave_out(between as *const () as usize);
            }
            found
        };
        let found = walks();
        let [(theirs, all), (_, without)] = &found[..] else { unreachable!() };
        assert_eq!(theirs[..all.len()], all[..]);
        let frames = |stack: &[usize]| stack.iter().rev().take(all.len() - 3).copied().collect();
        let (outer, same): (Vec<_>, Vec<_>) = (frames(all), frames(without));
        assert_eq!(without.len() + 1, all.len());
        assert_eq!(outer[..outer.len() - 1], same[..outer.len() - 1]);
    }

    #[test]
    fn goes_on_through_an_interrupted_function() {
        static FOUND: crate::sync::Lock<Option<(Vec<usize>, Vec<usize>)>> =
            crate::sync::Lock::new(crate::rank::Rank::Test, None);
        extern "C" fn handler(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
            *FOUND.lock() = Some(both(100));
        }
        assert!(crate::sys::signal::install(libc::SIGUSR1, handler));
        // SAFETY: the handler above takes it.
        unsafe { libc::raise(libc::SIGUSR1) };
        let (theirs, ours) = FOUND.lock().take().unwrap();
        assert!(ours.len() > 5, "{} frames", ours.len());
        assert_eq!(theirs[..ours.len()], ours[..]);
    }

    #[test]
    fn reads_nothing_outside_the_stack_it_is_given() {
        prepare();
        let mut all = [0; 64];
        let most = walk(end_of_stack(), &mut all);
        for bytes in [0, 8, 64, 200, 500, 1000] {
            let mut frames = [0; 64];
            let here = super::super::thread::stack_pointer();
            let depth = walk(here + bytes, &mut frames);
            assert!(depth <= most, "[stats.inv.walk] {depth} frames in {bytes} bytes");
        }
        assert_eq!(walk(0, &mut all), 0);
        assert_eq!(walk(end_of_stack(), &mut all[..2]), 2, "no more than there is room for");
    }

    /// The tests' allocator: the system's, and none for a thread that says so.
    struct Refusable;

    #[global_allocator]
    static ALLOCATOR: Refusable = Refusable;

    std::thread_local! {
        static REFUSED: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
    }

    // SAFETY: the system's allocator, or null.
    unsafe impl GlobalAlloc for Refusable {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if REFUSED.get() {
                return core::ptr::null_mut();
            }
            // SAFETY: the caller's promise.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            // SAFETY: the caller's promise.
            unsafe { System.dealloc(block, layout) }
        }
    }

    /// Holds the loader's lock, which the system's unwinder takes, and the library's allocator's,
    /// while another thread walks.
    #[test]
    fn neither_allocates_nor_waits_for_the_loaders_lock() {
        unsafe extern "C" fn with_loaders_lock(
            _: *mut libc::dl_phdr_info,
            _: usize,
            result: *mut c_void,
        ) -> c_int {
            let walker = std::thread::spawn(|| {
                let (end, mut frames) = (end_of_stack(), [0; 64]);
                REFUSED.set(true);
                let mut depth = 0;
                recurse(10, &mut || depth = walk(end, &mut frames));
                REFUSED.set(false);
                depth
            });
            for _ in 0..500 {
                if walker.is_finished() {
                    // SAFETY: the caller's place for it.
                    unsafe { *result.cast::<usize>() = walker.join().unwrap() };
                    return 1;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            1
        }
        prepare();
        let mut depth = 0_usize;
        // SAFETY: the callback is given the place that it writes to.
        unsafe { libc::dl_iterate_phdr(Some(with_loaders_lock), (&raw mut depth).cast()) };
        assert!(depth > 10, "{depth} frames: 0 if the walk waited");
    }
}
