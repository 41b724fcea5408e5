//! Threads as the kernel and glibc see them: ids, processors, the thread control block, where
//! stacks end.
//!
//! Assumes x86-64 and glibc ≥ 2.34: `fs:0` holds the address of the thread control block, whose
//! second word is the vector of thread-local blocks (`dtv`); a pthread's control block lies at the
//! top of its stack's mapping. Called from any thread.
//!
//! # Safety
//!
//! Assembly that reads the thread pointer and registers, and reads of glibc's thread control block
//! as the psABI and the tests of this file have it. The blocks are the calling thread's, or those
//! of one that stands.

#![allow(unsafe_code)]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
compile_error!(
    "neap-core knows registers and thread control blocks of x86-64 Linux with glibc only; see \
     docs/porting.md"
);

pub mod barrier;
pub mod instructions;

use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Whether the process has rights that its starter has not, as a set-user-id program has.
pub fn is_privileged() -> bool {
    // SAFETY: reads a value that the kernel gave the process at its start.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The kernel's id of the calling thread. 0 where the kernel refuses to tell and glibc does not say
/// either.
pub fn current() -> i32 {
    // SAFETY: no arguments.
    match unsafe { libc::syscall(libc::SYS_gettid) } {
        id if id > 0 => id as i32,
        _ => id_by_glibc(),
    }
}

/// The same from glibc's `struct pthread`, by the place that it tells debuggers: bits, number,
/// offset.
#[cold]
fn id_by_glibc() -> i32 {
    // SAFETY: looks a data symbol up, which glibc defines as three 32-bit words; the field lies in
    // the calling thread's own control block.
    unsafe {
        let symbol = libc::dlsym(libc::RTLD_DEFAULT, c"_thread_db_pthread_tid".as_ptr());
        match symbol.cast::<[u32; 3]>().as_ref() {
            Some([32, 1, offset]) => *((control_block() + *offset as usize) as *const i32),
            _ => 0,
        }
    }
}

/// The calling thread's control block.
#[inline(always)]
pub fn control_block() -> usize {
    let block: usize;
    // SAFETY: reads the first word of the control block, which is its own address (the psABI's TLS
    // variant II).
    unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) block, options(nostack, pure, readonly, preserves_flags))
    };
    block
}

/// The processor that the calling thread runs on, at this moment. By libc, which can do without the
/// kernel's page of functions; rustix reads that page wherever it is announced, and dies where it
/// is hidden, as under valgrind.
pub fn processor() -> usize {
    // SAFETY: no arguments; -1 where the kernel does not tell.
    unsafe { libc::sched_getcpu() as usize }
}

/// The processors that this process may run on, at least 1, as when it was first asked.
pub fn processors() -> usize {
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    match KNOWN.load(Relaxed) {
        0 => {
            let set = rustix::thread::sched_getaffinity(None);
            let processors = set.map_or(1, |set| set.count().max(1) as usize);
            KNOWN.store(processors, Relaxed);
            processors
        }
        known => known,
    }
}

/// Bytes of glibc's `struct pthread`, which holds the first pthread_setspecific(3) values; what
/// debuggers read, or a safe minimum.
pub fn control_block_bytes() -> usize {
    static BYTES: AtomicUsize = AtomicUsize::new(0);
    const AT_LEAST: usize = 0x700;
    match BYTES.load(Relaxed) {
        0 => {
            // SAFETY: looks a data symbol up; glibc defines it as a 32-bit size.
            let bytes = unsafe {
                let symbol = libc::dlsym(libc::RTLD_DEFAULT, c"_thread_db_sizeof_pthread".as_ptr())
                    as *const u32;
                if symbol.is_null() { AT_LEAST } else { *symbol as usize }
            };
            BYTES.store(bytes, Relaxed);
            bytes
        }
        bytes => bytes,
    }
}

/// Bytes of what each thread has from its static thread-local storage to the end of its `struct
/// pthread`, the same for all threads and from the start on. 0 where libc does not tell, as in a
/// program that has it linked in.
pub fn static_storage_bytes() -> usize {
    static BYTES: AtomicUsize = AtomicUsize::new(UNKNOWN);
    const UNKNOWN: usize = usize::MAX;
    type Information = unsafe extern "C" fn(*mut usize, *mut usize);
    match BYTES.load(Relaxed) {
        UNKNOWN => {
            let (mut bytes, mut alignment) = (0, 0);
            // SAFETY: looks a function of ld.so up, which other libraries of libc's and sanitizers
            // call; it stores two sizes.
            unsafe {
                let name = c"_dl_get_tls_static_info";
                let function = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
                if !function.is_null() {
                    let function = core::mem::transmute::<*mut c_void, Information>(function);
                    function(&mut bytes, &mut alignment);
                }
            }
            BYTES.store(bytes, Relaxed);
            bytes
        }
        bytes => bytes,
    }
}

unsafe extern "C" {
    /// Where ld.so found the main thread's stack to begin.
    static __libc_stack_end: *const c_void;
}

/// The highest address of the main thread's stack that program code can use.
pub fn main_stack_base() -> usize {
    // SAFETY: ld.so sets it before any of our code runs and never changes it.
    unsafe { __libc_stack_end as usize }
}

/// No stack is larger.
pub const MOST_STACK_BYTES: usize = 1 << 30;

/// How far the main thread's stack may grow now.
pub fn most_stack_bytes() -> usize {
    limit(libc::RLIMIT_STACK).map_or(MOST_STACK_BYTES, |limit| limit as usize).min(MOST_STACK_BYTES)
}

/// What a limit of the process allows now; None for no limit, and where a filter refuses the
/// question, of which rustix believes that it always has an answer.
pub fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limits = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
    // SAFETY: the kernel fills a structure of ours.
    let answered = unsafe { libc::getrlimit(resource, &mut limits) } == 0;
    (answered && limits.rlim_cur != libc::RLIM_INFINITY).then_some(limits.rlim_cur)
}

/// Lets another thread have the processor.
pub fn yield_now() {
    rustix::thread::sched_yield();
}

/// The id of the process.
pub fn process() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get() as u32
}

/// Whether the thread of this [id](current) is the process's first to the kernel: in the child of a
/// fork whichever thread made it.
pub fn is_main(id: i32) -> bool {
    id as u32 == process()
}

/// The control block of the thread that the program began with; 0 while it is not known.
static FIRST_CONTROL_BLOCK: AtomicUsize = AtomicUsize::new(0);

/// The library is loaded by the calling thread: mostly the first, and then on its stack.
pub fn note_load() {
    // No other stack lies so near, and no system call is needed.
    const NEAR: usize = 8 << 20;
    if main_stack_base().wrapping_sub(stack_pointer()) < NEAR {
        FIRST_CONTROL_BLOCK.store(control_block(), Relaxed);
    }
}

/// Whether the calling thread, with this [id](current), is the one that the program began with, on
/// the stack that the system made for it. In the child of a fork by another thread none is, unless
/// the library was loaded elsewhere than on that stack: then the number decides.
pub fn is_first(id: i32) -> bool {
    match FIRST_CONTROL_BLOCK.load(Relaxed) {
        0 => is_main(id),
        known => known == control_block(),
    }
}

/// The address and length of the calling frame's stack position: an address no live frame of the
/// caller lies below.
#[inline(always)]
pub fn stack_pointer() -> usize {
    let pointer: usize;
    // SAFETY: copies a register.
    unsafe {
        core::arch::asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags))
    };
    pointer
}

/// The registers that a called function keeps for its caller.
pub type CalleeSaved = [usize; 6];

/// Stores them as they are now, right where they are wanted: who copies them has to wait until they
/// have reached the cache.
#[inline(always)]
pub fn store_callee_saved(saved: &mut CalleeSaved) {
    // SAFETY: writes six registers to six words.
    unsafe {
        core::arch::asm!(
            "mov [{0}], rbx", "mov [{0} + 8], rbp", "mov [{0} + 16], r12",
            "mov [{0} + 24], r13", "mov [{0} + 32], r14", "mov [{0} + 40], r15",
            in(reg) saved.as_mut_ptr(), options(nostack, preserves_flags)
        );
    }
}

/// Stores the callee-saved registers on the stack and calls `f` with the stack position below them.
#[inline(never)]
pub fn with_registers_spilled<R>(f: impl FnOnce(usize) -> R) -> R {
    let mut saved = CalleeSaved::default();
    store_callee_saved(&mut saved);
    let kept = core::hint::black_box(&saved);
    let result = f(stack_pointer().min(kept.as_ptr() as usize));
    core::hint::black_box(kept);
    result
}

/// Overwrites `BYTES` of the stack below the caller with zeros: what finished calls left there must
/// not look like pointers when later frames lie over it.
#[inline(never)]
pub fn clear_stack_below<const BYTES: usize>() {
    let mut below = [0_u8; BYTES];
    core::hint::black_box(below.as_mut_ptr());
}

/// Overwrites the vector registers: copying a mark stack leaves its last 256 bytes there, the heads
/// of the program's lists for example, which would be roots of every later stop of a thread that
/// does not compute with such registers itself. Compilers expect nothing to be kept in them over a
/// call.
#[inline(never)]
pub fn clear_vector_registers() {
    // Both before: asking uses registers too.
    let (wide, widest) = (instructions::has_avx(), instructions::has_avx512f());
    // SAFETY: writes the registers that it says it writes, by instructions that the processor has.
    unsafe {
        if wide {
            core::arch::asm!(
                "vzeroall",
                clobber_abi("C"),
                options(nomem, nostack, preserves_flags)
            );
        } else {
            core::arch::asm!(
                "pxor xmm0, xmm0",
                "pxor xmm1, xmm1",
                "pxor xmm2, xmm2",
                "pxor xmm3, xmm3",
                "pxor xmm4, xmm4",
                "pxor xmm5, xmm5",
                "pxor xmm6, xmm6",
                "pxor xmm7, xmm7",
                "pxor xmm8, xmm8",
                "pxor xmm9, xmm9",
                "pxor xmm10, xmm10",
                "pxor xmm11, xmm11",
                "pxor xmm12, xmm12",
                "pxor xmm13, xmm13",
                "pxor xmm14, xmm14",
                "pxor xmm15, xmm15",
                clobber_abi("C"),
                options(nomem, nostack, preserves_flags)
            );
        }
        // The system's memmove uses these too.
        if widest {
            core::arch::asm!(
                "vpxord zmm16, zmm16, zmm16",
                "vpxord zmm17, zmm17, zmm17",
                "vpxord zmm18, zmm18, zmm18",
                "vpxord zmm19, zmm19, zmm19",
                "vpxord zmm20, zmm20, zmm20",
                "vpxord zmm21, zmm21, zmm21",
                "vpxord zmm22, zmm22, zmm22",
                "vpxord zmm23, zmm23, zmm23",
                "vpxord zmm24, zmm24, zmm24",
                "vpxord zmm25, zmm25, zmm25",
                "vpxord zmm26, zmm26, zmm26",
                "vpxord zmm27, zmm27, zmm27",
                "vpxord zmm28, zmm28, zmm28",
                "vpxord zmm29, zmm29, zmm29",
                "vpxord zmm30, zmm30, zmm30",
                "vpxord zmm31, zmm31, zmm31",
                clobber_abi("C"),
                options(nomem, nostack, preserves_flags)
            );
        }
    }
}

/// The thread-local block of module `module` (as `dl_iterate_phdr` numbers them) in the thread with
/// this control block, if it has one.
///
/// # Safety
/// The thread exists and is stopped, or is the caller.
pub unsafe fn thread_local_block(control_block: usize, module: usize) -> Option<usize> {
    const NOT_YET: usize = usize::MAX;
    // SAFETY: the second word of the control block points to the vector; the entry before it counts
    // the entries. Entries are two words.
    unsafe {
        let vector = *((control_block + 8) as *const *const [usize; 2]);
        let entries = (*vector.sub(1))[0];
        if module == 0 || module > entries {
            return None;
        }
        let block = (*vector.add(module))[0];
        (block != 0 && block != NOT_YET).then_some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_in_the_vector_registers() {
        let mut left = [0_u64; 4];
        // SAFETY: loads two registers, calls a function that takes and gives nothing, and stores
        // them.
        unsafe {
            core::arch::asm!(
                "movq xmm3, {value}", "movq xmm15, {value}",
                "call {clear}",
                "movdqu [{left}], xmm3", "movdqu [{left} + 16], xmm15",
                value = in(reg) 0x1234_5678_u64,
                clear = sym clear_for_test,
                left = in(reg) left.as_mut_ptr(),
                clobber_abi("C"),
            );
        }
        assert_eq!(left, [0; 4]);
    }

    extern "C" fn clear_for_test() {
        clear_vector_registers();
    }

    /// Has the kernel refuse a system call to the calling thread, as a filter of a container does.
    #[cfg(not(miri))]
    fn refuse_to_this_thread(call: libc::c_long) {
        let [load, same, is_call] = [0x20, 0x06, 0x15].map(|code| code as u16);
        let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let mut steps = [
            step(load, 0, 0, 0),
            step(is_call, 0, 1, call as u32),
            step(same, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            step(same, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: 4, filter: steps.as_mut_ptr() };
        // SAFETY: a filter for this thread, of four steps; the kernel copies it.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            let mode = libc::SECCOMP_MODE_FILTER;
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
        }
    }

    #[cfg(not(miri))]
    #[test]
    fn a_limit_that_may_not_be_asked_for_is_none() {
        let asked = std::thread::spawn(|| {
            let before = limit(libc::RLIMIT_NOFILE);
            refuse_to_this_thread(libc::SYS_prlimit64);
            (before, limit(libc::RLIMIT_NOFILE))
        });
        let (before, after) = asked.join().unwrap();
        assert!(before.is_some());
        assert_eq!(after, None);
    }

    #[test]
    fn glibc_knows_a_threads_id_as_well() {
        assert_eq!(id_by_glibc(), current());
        std::thread::spawn(|| assert_eq!(id_by_glibc(), current())).join().unwrap();
    }

    #[test]
    fn the_control_block_tops_a_pthreads_stack() {
        std::thread::spawn(|| {
            let here = stack_pointer();
            assert!(here < control_block() && control_block() - here < 64 << 20);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn registers_are_spilled_above_the_reported_position() {
        let marker = 0x1234_5678_9abc_usize;
        let found =
            with_registers_spilled(|position| position < core::ptr::from_ref(&marker) as usize);
        assert!(found);
    }

    #[test]
    fn processors_and_sizes_are_plausible() {
        assert!((1..100_000).contains(&processors()));
        assert!((0x400..0x4000).contains(&control_block_bytes()));
        let storage = static_storage_bytes();
        assert!(storage == 0 || storage > control_block_bytes() && storage < 1 << 20);
    }
}
