//! Unwind tables: from an address to the rules that restore its caller's registers. The search table of `.eh_frame_hdr`, the entries of `.eh_frame`, the instructions in them.
//!
//! Invariant: what is not understood gives no row, never a wrong one; reading stays within an entry's own length. Pure functions of memory that the loader mapped. Called by the walk, on any thread.
//!
//! # Safety
//!
//! Reads unwind tables in memory that the loader mapped. Each reader is made for a range and reads
//! nothing beyond it; the lengths in the tables only make it shorter.

#![allow(unsafe_code)]

use super::{REGISTERS, RETURN};

/// How encoded addresses are stored, as these tables do nearly always.
const RELATIVE_I32: u8 = 0x1b;
const PLAIN_U32: u8 = 0x03;
const TABLE_RELATIVE_I32: u8 = 0x3b;
/// An entry longer than this is none.
const LONGEST_ENTRY: usize = 1 << 20;
/// States that instructions may put aside at once.
const MOST_ASIDE: usize = 4;

/// A register and an offset, or what lies there.
#[derive(Clone, Copy)]
pub struct Place {
    pub register: usize,
    pub offset: isize,
    pub is_loaded: bool,
}

/// Where a caller's register is.
#[derive(Clone, Copy)]
pub enum Rule {
    /// Where it was.
    Same,
    /// Nowhere.
    Undefined,
    /// In memory, so far from the frame's base.
    Saved(isize),
    /// The frame's base and so much.
    Is(isize),
    /// In memory at a place.
    SavedAt(Place),
    /// In another register.
    Register(usize),
}

/// The rules that hold at an address.
#[derive(Clone, Copy)]
pub struct Row {
    /// The frame's base: the stack position before the call.
    pub base: Place,
    pub rules: [Rule; REGISTERS],
    /// The frame is one that the kernel made for a signal's handler.
    pub is_signal: bool,
}

/// Memory from one address up to another.
#[derive(Clone, Copy)]
struct Reader {
    at: usize,
    end: usize,
}

impl Reader {
    fn take<T: Copy>(&mut self) -> Option<T> {
        let at = self.at;
        if self.end.checked_sub(at)? < size_of::<T>() {
            return None;
        }
        self.at += size_of::<T>();
        // SAFETY: inside the memory that the reader was made for.
        Some(unsafe { (at as *const T).read_unaligned() })
    }

    /// Unsigned, seven bits to a byte.
    fn unsigned(&mut self) -> Option<usize> {
        let (mut value, mut shift) = (0_usize, 0);
        loop {
            let byte = self.take::<u8>()?;
            value |= usize::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }

    /// The same with a sign.
    fn signed(&mut self) -> Option<isize> {
        let (mut value, mut shift) = (0_isize, 0);
        loop {
            let byte = self.take::<u8>()?;
            value |= isize::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                let is_negative = byte & 0x40 != 0 && shift < 64;
                return Some(if is_negative { value | -1 << shift } else { value });
            }
        }
    }

    /// An address in the encoding that the entry says, as far as it is used for code.
    fn encoded(&mut self, encoding: u8) -> Option<usize> {
        let at = self.at;
        let value = match encoding & 0x0f {
            0x00 | 0x04 | 0x0c => self.take::<usize>()?,
            0x02 => usize::from(self.take::<u16>()?),
            0x03 => self.take::<u32>()? as usize,
            0x0a => self.take::<i16>()? as usize,
            0x0b => self.take::<i32>()? as usize,
            _ => return None,
        };
        match encoding & 0x70 {
            0x00 => Some(value),
            0x10 => Some(at.wrapping_add(value)),
            _ => None,
        }
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        let at = self.at.checked_add(bytes)?;
        (at <= self.end).then(|| self.at = at)
    }

    /// A part of so many bytes, which is passed.
    fn part(&mut self, bytes: usize) -> Option<Reader> {
        let at = self.at;
        self.skip(bytes)?;
        Some(Reader { at, end: self.at })
    }
}

/// The rules for `address`, by the tables of its object.
///
/// # Safety
/// `tables` is 0 or the address of the `.eh_frame_hdr` of an object that stays loaded.
pub unsafe fn row(tables: usize, address: usize) -> Option<Row> {
    if tables == 0 {
        return None;
    }
    let mut head = Reader { at: tables, end: tables + 12 };
    let encodings: [u8; 4] = head.take()?;
    if encodings != [1, RELATIVE_I32, PLAIN_U32, TABLE_RELATIVE_I32] {
        return None;
    }
    head.skip(4)?;
    let count = head.take::<u32>()? as usize;
    // SAFETY: the caller's promise: so many pairs follow.
    let pairs = unsafe { core::slice::from_raw_parts((tables + 12) as *const [i32; 2], count) };
    let found =
        pairs.partition_point(|pair| tables.wrapping_add_signed(pair[0] as isize) <= address);
    let entry = tables.wrapping_add_signed(pairs.get(found.checked_sub(1)?)?[1] as isize);
    function_row(entry, address)
}

/// An entry from its length on: where its body is.
fn body(entry: usize) -> Option<Reader> {
    let mut head = Reader { at: entry, end: entry + 4 };
    let length = head.take::<u32>()? as usize;
    // Longer lengths are written otherwise; nobody needs them.
    (length > 4 && length < LONGEST_ENTRY)
        .then_some(Reader { at: entry + 4, end: entry + 4 + length })
}

/// What the entries of one compilation have in common.
struct Common {
    code_factor: usize,
    data_factor: isize,
    encoding: u8,
    has_augmentation: bool,
    is_signal: bool,
    instructions: Reader,
}

fn common(entry: usize) -> Option<Common> {
    let mut body = body(entry)?;
    if body.take::<u32>()? != 0 {
        return None;
    }
    let version = body.take::<u8>()?;
    let mut letters = body;
    while body.take::<u8>()? != 0 {}
    let (code_factor, data_factor) = (body.unsigned()?, body.signed()?);
    let register = if version == 1 { usize::from(body.take::<u8>()?) } else { body.unsigned()? };
    if register != RETURN || !(version == 1 || version == 3) {
        return None;
    }
    let mut common = Common {
        code_factor,
        data_factor,
        encoding: 0,
        has_augmentation: false,
        is_signal: false,
        instructions: body,
    };
    let mut augmentation = body;
    loop {
        match letters.take::<u8>()? {
            0 => break,
            b'z' => {
                let bytes = body.unsigned()?;
                augmentation = body.part(bytes)?;
                common.has_augmentation = true;
            }
            b'R' => common.encoding = augmentation.take()?,
            // The format alone decides how long it is.
            b'P' => {
                let encoding = augmentation.take::<u8>()?;
                augmentation.encoded(encoding & 0x0f)?;
            }
            b'L' => augmentation.skip(1)?,
            b'S' => common.is_signal = true,
            _ => return None,
        }
    }
    common.instructions = body;
    Some(common)
}

fn function_row(entry: usize, address: usize) -> Option<Row> {
    let mut body = body(entry)?;
    let from = body.at;
    let back = body.take::<u32>()? as usize;
    let common = common(from.checked_sub(back)?)?;
    let start = body.encoded(common.encoding)?;
    let length = body.encoded(common.encoding & 0x0f)?;
    if back == 0 || !(start..start.checked_add(length)?).contains(&address) {
        return None;
    }
    if common.has_augmentation {
        let bytes = body.unsigned()?;
        body.skip(bytes)?;
    }
    let nothing = Place { register: usize::MAX, offset: 0, is_loaded: false };
    let mut row =
        Row { base: nothing, rules: [Rule::Same; REGISTERS], is_signal: common.is_signal };
    let plain = row;
    execute(&common, common.instructions, &mut row, &plain, start, address)?;
    let initial = row;
    execute(&common, body, &mut row, &initial, start, address)?;
    Some(row)
}

/// Carries out instructions up to those for `address`; `initial` is what a rule is restored to.
fn execute(
    common: &Common,
    mut code: Reader,
    row: &mut Row,
    initial: &Row,
    start: usize,
    address: usize,
) -> Option<()> {
    let mut aside = [*row; MOST_ASIDE];
    let (mut put_aside, mut at) = (0, start);
    while code.at < code.end {
        let instruction = code.take::<u8>()?;
        let low = usize::from(instruction & 0x3f);
        let by = |factored: usize| (factored as isize).wrapping_mul(common.data_factor);
        match (instruction >> 6, low) {
            (1, _) => at += low * common.code_factor,
            (2, _) => set(row, low, Rule::Saved(by(code.unsigned()?))),
            (3, _) => set(row, low, *initial.rules.get(low)?),
            (_, 0x00) => {}
            (_, 0x01) => at = code.encoded(common.encoding)?,
            (_, 0x02) => at += usize::from(code.take::<u8>()?) * common.code_factor,
            (_, 0x03) => at += usize::from(code.take::<u16>()?) * common.code_factor,
            (_, 0x04) => at += code.take::<u32>()? as usize * common.code_factor,
            (_, 0x05) => {
                let register = code.unsigned()?;
                set(row, register, Rule::Saved(by(code.unsigned()?)));
            }
            (_, 0x06) => {
                let register = code.unsigned()?;
                set(row, register, initial.rules.get(register).copied().unwrap_or(Rule::Same));
            }
            (_, 0x07) => set(row, code.unsigned()?, Rule::Undefined),
            (_, 0x08) => set(row, code.unsigned()?, Rule::Same),
            (_, 0x09) => {
                let register = code.unsigned()?;
                set(row, register, Rule::Register(code.unsigned()?));
            }
            (_, 0x0a) => {
                *aside.get_mut(put_aside)? = *row;
                put_aside += 1;
            }
            (_, 0x0b) => {
                put_aside = put_aside.checked_sub(1)?;
                *row = aside[put_aside];
            }
            (_, 0x0c) => {
                row.base = Place {
                    register: code.unsigned()?,
                    offset: code.unsigned()? as isize,
                    is_loaded: false,
                };
            }
            (_, 0x0d) => row.base.register = code.unsigned()?,
            (_, 0x0e) => row.base.offset = code.unsigned()? as isize,
            (_, 0x0f) => row.base = expression(&mut code)?,
            (_, 0x10) => {
                let register = code.unsigned()?;
                set(row, register, Rule::SavedAt(expression(&mut code)?));
            }
            (_, 0x11) => {
                let register = code.unsigned()?;
                set(row, register, Rule::Saved(code.signed()?.wrapping_mul(common.data_factor)));
            }
            (_, 0x12) => {
                let register = code.unsigned()?;
                let offset = code.signed()?.wrapping_mul(common.data_factor);
                row.base = Place { register, offset, is_loaded: false };
            }
            (_, 0x13) => row.base.offset = code.signed()?.wrapping_mul(common.data_factor),
            (_, 0x14) => {
                let register = code.unsigned()?;
                set(row, register, Rule::Is(by(code.unsigned()?)));
            }
            // How many bytes of arguments are on the stack.
            (_, 0x2e) => {
                code.unsigned()?;
            }
            _ => return None,
        }
        if at > address {
            break;
        }
    }
    Some(())
}

/// Registers that are not followed, those of vectors, are left out.
fn set(row: &mut Row, register: usize, rule: Rule) {
    if let Some(place) = row.rules.get_mut(register) {
        *place = rule;
    }
}

/// An expression, if it is a register and an offset, and perhaps what lies there: those of signals' frames and of functions that align the stack.
fn expression(code: &mut Reader) -> Option<Place> {
    let bytes = code.unsigned()?;
    let mut expression = code.part(bytes)?;
    let register = usize::from(expression.take::<u8>()?.checked_sub(0x70)?);
    let offset = expression.signed()?;
    let is_loaded = match expression.take::<u8>() {
        None => false,
        Some(0x06) => true,
        Some(_) => return None,
    };
    (expression.at == expression.end && register < REGISTERS).then_some(Place {
        register,
        offset,
        is_loaded,
    })
}
