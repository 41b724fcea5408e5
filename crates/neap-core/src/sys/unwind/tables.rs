//! Unwind tables, read by the crate `gimli`: from an address to the rules that restore its caller's
//! registers, and the expressions that some rules are.
//!
//! The search in `.eh_frame_hdr` is our own: gimli decodes every pointer that it compares, and a
//! walk took 2.4 times as many instructions with it.
//!
//! Invariant: what is not understood gives no row, never a wrong one. Reading stays within the
//! lengths that the search table of `.eh_frame_hdr` and an entry of `.eh_frame` give themselves.
//! What `gimli` needs room for lies in [`OnStack`] and never on a heap. Called by the walk, on any
//! thread.
//!
//! # Safety
//! The loader says where a search table is; the search table says where entries are, and an entry
//! where the one is that it has in common with others. All of them stay mapped with their object.

#![allow(unsafe_code)]

use gimli::{
    BaseAddresses, EhFrame, Encoding, EndianSlice, Evaluation, EvaluationResult, EvaluationStorage,
    Location, NativeEndian, Piece, Register, RegisterRule, UnwindContext, UnwindContextStorage,
    UnwindExpression, UnwindSection, UnwindTableRow, Value,
};

type Bytes = EndianSlice<'static, NativeEndian>;
/// The room in which rows are made, for one walk.
pub type Context = UnwindContext<usize, OnStack>;

const WORD_BYTES: u8 = size_of::<usize>() as u8;
/// Of the header's table: a version, three encodings, the address of `.eh_frame`, a count.
const HEADER_BYTES: usize = 12;
/// The version, and the encodings that every linker writes: relative, 32 bits; a count of 32 bits;
/// pairs relative to the header, of 32 bits.
const HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
/// An entry longer than this is none. Lengths of 64 bits are, too: they begin with 32 set ones.
const LONGEST_ENTRY: usize = 1 << 20;
/// Operations of an expression carried out at most: an end for what goes in circles.
const MOST_OPERATIONS: u32 = 256;

/// Room in the value itself. Larger: rules of more registers, states that instructions put aside,
/// operands; smaller: less of the stack of the thread that is sampled.
pub struct OnStack;
const _: () = assert!(size_of::<Context>() < 4608);

impl UnwindContextStorage<usize> for OnStack {
    type Rules = [(Register, RegisterRule<usize>); 32];
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

impl EvaluationStorage<Bytes> for OnStack {
    type Stack = [Value; 16];
    type ExpressionStack = [(Bytes, Bytes); 1];
    type Result = [Piece<Bytes>; 1];
}

/// The rules that hold at an address, and the entry that they are of.
pub struct Row<'context> {
    pub rules: &'context UnwindTableRow<usize, OnStack>,
    /// Where the function begins.
    pub function: usize,
    /// The frame is one that the kernel made for a signal's handler.
    pub is_signal: bool,
    section: EhFrame<Bytes>,
    encoding: Encoding,
}

impl Row<'_> {
    /// What `expression` comes to. `base` is its first operand, where there is one.
    pub fn evaluate(
        &self,
        expression: UnwindExpression<usize>,
        base: Option<usize>,
        register: impl Fn(Register) -> Option<usize>,
        memory: impl Fn(usize) -> Option<usize>,
    ) -> Option<usize> {
        let code = expression.get(&self.section).ok()?.0;
        let mut evaluation = Evaluation::<_, OnStack>::new_in(code, self.encoding);
        evaluation.set_max_iterations(MOST_OPERATIONS);
        if let Some(base) = base {
            evaluation.set_initial_value(base as u64);
        }
        let mut state = evaluation.evaluate().ok()?;
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register: asked, .. } => {
                    evaluation.resume_with_register(Value::Generic(register(asked)? as u64)).ok()?
                }
                EvaluationResult::RequiresMemory { address, size: WORD_BYTES, .. } => {
                    let value = memory(address as usize)?;
                    evaluation.resume_with_memory(Value::Generic(value as u64)).ok()?
                }
                _ => return None,
            }
        }
        match evaluation.as_result() {
            [Piece { location: Location::Address { address }, .. }] => Some(*address as usize),
            _ => None,
        }
    }
}

/// The rules for `address`, by the tables of its object.
///
/// # Safety
/// `tables` is 0 or the address of the `.eh_frame_hdr` of an object that stays loaded.
pub unsafe fn row(context: &mut Context, tables: usize, address: usize) -> Option<Row<'_>> {
    if tables == 0 {
        return None;
    }
    // SAFETY: the caller's promise.
    let entry = unsafe { entry_for(tables, address) }?;
    // SAFETY: the search table has the addresses of entries.
    let (common, bytes) = unsafe { entries(entry) }?;
    let section = EhFrame::new(bytes.slice(), NativeEndian);
    let bases = BaseAddresses::default().set_eh_frame(common as u64);
    let function = section
        .fde_from_offset(&bases, (entry - common).into(), EhFrame::cie_from_offset)
        .ok()
        .filter(|function| function.contains(address as u64))?;
    let begins = function.initial_address() as usize;
    let rules = function.unwind_info_for_address(&section, &bases, context, address as u64).ok()?;
    let (is_signal, encoding) = (function.is_signal_trampoline(), function.cie().encoding());
    Some(Row { rules, function: begins, is_signal, section, encoding })
}

/// The last entry that begins at `address` or before, by the search table.
///
/// # Safety
/// `tables` is the address of the `.eh_frame_hdr` of an object that stays loaded.
unsafe fn entry_for(tables: usize, address: usize) -> Option<usize> {
    // SAFETY: the caller's promise.
    let head = unsafe { bytes(tables, HEADER_BYTES) };
    let (encodings, count) = (&head[..4], u32::from_ne_bytes(head[8..].try_into().ok()?));
    if encodings != HEADER {
        return None;
    }
    // SAFETY: so many pairs follow, relative to the header: where a function begins, and its entry.
    let pairs = unsafe {
        core::slice::from_raw_parts((tables + HEADER_BYTES) as *const [i32; 2], count as usize)
    };
    let begins = |pair: &[i32; 2]| tables.wrapping_add_signed(pair[0] as isize) <= address;
    let [_, entry] = *pairs.get(pairs.partition_point(begins).checked_sub(1)?)?;
    Some(tables.wrapping_add_signed(entry as isize))
}

/// Where the entry is that the one at `entry` has in common with others, and the bytes from there
/// to this entry's end.
///
/// # Safety
/// `entry` is an entry in the `.eh_frame` of an object that stays loaded.
unsafe fn entries(entry: usize) -> Option<(usize, Bytes)> {
    // SAFETY: an entry begins with its length and the way back.
    let [length, back] = unsafe { (entry as *const [u32; 2]).read_unaligned() };
    let common = (entry + 4).checked_sub(back as usize)?;
    if length as usize >= LONGEST_ENTRY || back == 0 || common >= entry {
        return None;
    }
    // SAFETY: both lie in one section, this one behind the other.
    Some((common, unsafe { bytes(common, entry + 4 + length as usize - common) }))
}

/// # Safety
/// So many bytes can be read from there on, and stay as they are.
unsafe fn bytes(from: usize, length: usize) -> Bytes {
    // SAFETY: the caller's promise.
    let slice = unsafe { core::slice::from_raw_parts(from as *const u8, length) };
    EndianSlice::new(slice, NativeEndian)
}
