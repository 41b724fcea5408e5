//! Names of D's functions, variables and tables of methods, from the symbols that D's compilers
//! make of them.
//!
//! Invariant: follows the grammar of D's ABI as far as names need it, and gives no name rather than
//! a wrong one. What a function takes and gives is left out, arguments of templates stay. A symbol
//! may be anybody's: it is followed for a limited number of steps. Pure. Called by `symbols`.

/// Steps of the grammar at most: back references could make a short symbol a very long name.
const MOST_STEPS: usize = 2000;
/// Types and names within others at most.
const MOST_DEPTH: usize = 100;
/// A longer symbol is left as it is.
const LONGEST: usize = 16 << 10;

/// The name that a symbol of D stands for; None for other symbols.
pub fn demangle(symbol: &str) -> Option<String> {
    if symbol == "_Dmain" {
        return Some("D main".to_owned());
    }
    if symbol.len() > LONGEST {
        return None;
    }
    let mut at = 2;
    let rest = symbol.strip_prefix("_D")?;
    // A thunk to a method of an interface has the method's name behind how far the object is off.
    if rest.starts_with("Th") {
        at += rest.find('_')? + 1;
    }
    let mut reader = Reader { symbol: symbol.as_bytes(), at, steps: 0, depth: 0 };
    let name = reader.qualified_name()?;
    (!name.is_empty()).then_some(name)
}

/// How far a symbol was read.
#[derive(Clone)]
struct Reader<'s> {
    symbol: &'s [u8],
    at: usize,
    steps: usize,
    depth: usize,
}

impl Reader<'_> {
    fn step(&mut self) -> Option<()> {
        self.steps += 1;
        (self.steps < MOST_STEPS).then_some(())
    }

    /// What `read` finds one level further in.
    fn within<R>(&mut self, read: impl FnOnce(&mut Self) -> Option<R>) -> Option<R> {
        self.step()?;
        if self.depth == MOST_DEPTH {
            return None;
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    fn peek(&self) -> Option<u8> {
        self.symbol.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        self.step()?;
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn takes(&mut self, text: &str) -> bool {
        let found =
            self.symbol.get(self.at..).is_some_and(|rest| rest.starts_with(text.as_bytes()));
        self.at += if found { text.len() } else { 0 };
        found
    }

    fn number(&mut self) -> Option<usize> {
        let digits = self.symbol[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = str::from_utf8(&self.symbol[self.at..self.at + digits]).ok()?;
        self.at += digits;
        text.parse().ok()
    }

    /// Where a back reference, which begins here, leads to.
    fn back_reference(&mut self) -> Option<usize> {
        let from = self.at;
        self.at += 1;
        let mut distance: usize = 0;
        loop {
            let byte = self.next()?;
            let (digit, is_last) = match byte {
                b'A'..=b'Z' => (byte - b'A', false),
                b'a'..=b'z' => (byte - b'a', true),
                _ => return None,
            };
            distance = distance.checked_mul(26)?.checked_add(usize::from(digit))?;
            if is_last {
                return from.checked_sub(distance).filter(|to| *to < from);
            }
        }
    }

    /// What `read` finds where the back reference that begins here leads to: it ends before this.
    fn referred<R>(&mut self, read: impl FnOnce(&mut Self) -> Option<R>) -> Option<R> {
        let symbol = &self.symbol[..self.at];
        let at = self.back_reference()?;
        let mut there = Self { symbol, at, ..self.clone() };
        let found = read(&mut there);
        self.steps = there.steps;
        found
    }

    fn is_at_name(&self) -> bool {
        match self.peek() {
            Some(b'0'..=b'9') => true,
            Some(b'_') => self.symbol[self.at..].starts_with(b"__"),
            Some(b'Q') => {
                let to = self.clone().back_reference();
                to.is_some_and(|to| self.symbol[to].is_ascii_digit())
            }
            _ => false,
        }
    }

    /// Names one within the other, with points between.
    fn qualified_name(&mut self) -> Option<String> {
        let mut names: Vec<String> = Vec::new();
        while self.is_at_name() {
            let name = self.name()?;
            // What a template stands for often has the template's name; and places that several
            // functions of one name share have numbers.
            let has_name = |of: &String| of.split_once("!(").is_some_and(|(of, _)| of == name);
            if !name.is_empty() && !name.starts_with("__S") && !names.last().is_some_and(has_name) {
                names.push(name);
            }
            // What is named next may be within a function, whose parameters come first.
            let mut behind = self.clone();
            let is_function = behind.function_without_result().is_some();
            // Also what it tried in vain, which may try things itself.
            self.steps = behind.steps;
            self.step()?;
            if is_function && behind.is_at_name() {
                *self = behind;
            }
        }
        Some(names.join("."))
    }

    fn name(&mut self) -> Option<String> {
        self.within(Self::name_here)
    }

    fn name_here(&mut self) -> Option<String> {
        match self.peek()? {
            b'Q' => self.referred(Self::name),
            b'_' => self.template(),
            _ => {
                let length = self.number()?;
                if self.symbol[self.at..].starts_with(b"__T")
                    || self.symbol[self.at..].starts_with(b"__U")
                {
                    return self.template();
                }
                let text = self.symbol.get(self.at..self.at.checked_add(length)?)?;
                self.at += length;
                Some(str::from_utf8(text).ok()?.to_owned())
            }
        }
    }

    fn template(&mut self) -> Option<String> {
        if !self.takes("__T") && !self.takes("__U") {
            return None;
        }
        let name = self.name()?;
        let mut arguments = Vec::new();
        while !self.takes("Z") {
            self.takes("H");
            arguments.push(match self.next()? {
                b'T' => self.of_type()?,
                b'V' => {
                    let of = self.of_type()?;
                    self.value(&of)?
                }
                b'S' => self.qualified_name()?,
                _ => return None,
            });
        }
        Some(format!("{name}!({})", arguments.join(", ")))
    }

    fn value(&mut self, of: &str) -> Option<String> {
        self.within(|reader| reader.value_here(of))
    }

    fn value_here(&mut self, of: &str) -> Option<String> {
        match self.peek()? {
            b'n' => self.next().map(|_| "null".to_owned()),
            b'i' | b'0'..=b'9' => {
                self.takes("i");
                let value = self.number()?;
                Some(match (of, value) {
                    ("bool", 0) => "false".to_owned(),
                    ("bool", _) => "true".to_owned(),
                    _ => value.to_string(),
                })
            }
            b'N' => {
                self.next()?;
                self.number().map(|value| format!("-{value}"))
            }
            b'a' | b'w' | b'd' => {
                self.next()?;
                let length = self.number()?;
                let digits = if self.takes("_") { length.checked_mul(2)? } else { return None };
                let text = self.symbol.get(self.at..self.at.checked_add(digits)?)?;
                self.at += digits;
                let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
                let bytes: Vec<u8> = text.chunks(2).map(byte).collect::<Option<_>>()?;
                Some(format!("{:?}", String::from_utf8_lossy(&bytes)))
            }
            b'A' | b'S' => {
                self.next()?;
                let count = self.number()?;
                let values: Vec<String> =
                    (0..count).map(|_| self.value("")).collect::<Option<_>>()?;
                Some(format!("[{}]", values.join(", ")))
            }
            _ => None,
        }
    }

    fn of_type(&mut self) -> Option<String> {
        self.within(Self::type_here)
    }

    fn type_here(&mut self) -> Option<String> {
        let first = self.peek()?;
        if first == b'Q' {
            return self.referred(Self::of_type);
        }
        let start = self.at;
        self.next()?;
        let around = |word: &str, inner: String| format!("{word}({inner})");
        Some(match first {
            b'x' => around("const", self.of_type()?),
            b'y' => around("immutable", self.of_type()?),
            b'O' => around("shared", self.of_type()?),
            b'N' => match self.next()? {
                b'g' => around("inout", self.of_type()?),
                b'h' => around("__vector", self.of_type()?),
                b'n' => "noreturn".to_owned(),
                _ => return None,
            },
            b'A' => self.of_type()? + "[]",
            b'G' => {
                let count = self.number()?;
                format!("{}[{count}]", self.of_type()?)
            }
            b'H' => {
                let key = self.of_type()?;
                format!("{}[{key}]", self.of_type()?)
            }
            b'P' if self.peek().is_some_and(is_convention) => self.function("function")?,
            b'P' => self.of_type()? + "*",
            b'C' | b'S' | b'E' | b'T' | b'I' => self.qualified_name()?,
            b'D' => {
                self.modifiers();
                self.function("delegate")?
            }
            b'B' => {
                let count = self.number()?;
                let types: Vec<String> =
                    (0..count).map(|_| self.of_type()).collect::<Option<_>>()?;
                format!("({})", types.join(", "))
            }
            _ if is_convention(first) => {
                self.at = start;
                self.function("function")?
            }
            _ => basic(first)?.to_owned(),
        })
    }

    /// Of an object that a method is called for.
    fn modifiers(&mut self) {
        while ["x", "y", "O", "Ng"].into_iter().any(|modifier| self.takes(modifier)) {}
    }

    fn function(&mut self, word: &str) -> Option<String> {
        let parameters = self.parameters()?;
        Some(format!("{} {word}({parameters})", self.of_type()?))
    }

    /// The type of a function that something is named in.
    fn function_without_result(&mut self) -> Option<()> {
        if self.takes("M") {
            self.modifiers();
        }
        self.parameters().map(|_| ())
    }

    /// The convention of calls, attributes and parameters.
    fn parameters(&mut self) -> Option<String> {
        self.next().filter(|byte| is_convention(*byte))?;
        while self.peek() == Some(b'N')
            && let Some(b'a'..=b'f' | b'i' | b'j' | b'l' | b'm') = self.symbol.get(self.at + 1)
        {
            self.at += 2;
        }
        let mut parameters = Vec::new();
        loop {
            match self.peek()? {
                b'X' | b'Y' | b'Z' => {
                    self.at += 1;
                    return Some(parameters.join(", "));
                }
                b'I' | b'J' | b'K' | b'L' | b'M' => self.at += 1,
                b'N' if self.takes("Nk") => {}
                _ => parameters.push(self.of_type()?),
            }
            self.step()?;
        }
    }
}

fn is_convention(byte: u8) -> bool {
    matches!(byte, b'F' | b'U' | b'W' | b'V' | b'R' | b'Y')
}

fn basic(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'v' => "void",
        b'g' => "byte",
        b'h' => "ubyte",
        b's' => "short",
        b't' => "ushort",
        b'i' => "int",
        b'k' => "uint",
        b'l' => "long",
        b'm' => "ulong",
        b'f' => "float",
        b'd' => "double",
        b'e' => "real",
        b'b' => "bool",
        b'a' => "char",
        b'u' => "wchar",
        b'w' => "dchar",
        b'n' => "typeof(null)",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_table() {
        for (symbol, name) in [
            ("_Dmain", "D main"),
            ("_D5alloc4workFZv", "alloc.work"),
            ("_D5alloc5Store3addMFZv", "alloc.Store.add"),
            ("_D5asked4Node6__vtblZ", "asked.Node.__vtbl"),
            ("_D5alloc__T4manyTdZQiFNaNbNfmZAd", "alloc.many!(double)"),
            (
                "_D3std5array__T18uninitializedArrayTAiTxmZQBbFNaNbNexmZQt",
                "std.array.uninitializedArray!(int[], const(ulong))",
            ),
            (
                "_D3std5array__T14arrayAllocImplVbi0TAiTmZQBaFNaNbmZQp",
                "std.array.arrayAllocImpl!(false, int[], ulong)",
            ),
            (
                "_DThn16_4neap6plugin6NeapGC6qallocMFNbmkMxC8TypeInfoZS4core6memory8BlkInfo_",
                "neap.plugin.NeapGC.qalloc",
            ),
            ("_D2rt6dmain212_d_run_main2UAAamPUQgZiZ6runAllMFZv", "rt.dmain2._d_run_main2.runAll"),
            (
                "_D3std5array__TQjTSQr9algorithm9iteration__T9MapResultS5alloc4workFZ9__lambda5TSQDa5range__T4iotaTiTiZQkFiiZ6ResultZQCuZQEkFNaNbNfQEiZAi",
                "std.array.array!(std.algorithm.iteration.MapResult!(alloc.work.__lambda5, std.range.iota!(int, int).Result))",
            ),
        ] {
            assert_eq!(demangle(symbol).as_deref(), Some(name), "{symbol}");
        }
    }

    #[test]
    fn other_symbols_and_broken_ones_have_no_name() {
        for symbol in
            ["", "_D", "_ZN4core3fmtE", "main", "_DT", "_D99x", "_D1a__T", "_DQa", "_D1a__TQb"]
        {
            let name = demangle(symbol);
            assert!(name.as_deref().is_none_or(|name| name == "a"), "{symbol} {name:?}");
        }
        // References to references: as long as a name may be, and no longer.
        let doubled: String = (0..200).map(|_| "TB2QbQc").collect();
        let long = demangle(&format!("_D1a__T1bTi{doubled}Z"));
        assert!(long.is_none_or(|name| name.len() < 100_000));
        assert_eq!(demangle(&format!("_D1a__T1bT{}iZv", "P".repeat(5000))), None);
        let pointers = format!("_D1a__T1bT{}iZv", "P".repeat(50));
        assert_eq!(demangle(&pointers), Some(format!("a.b!(int{})", "*".repeat(50))));
    }

    #[test]
    fn what_is_tried_in_vain_comes_to_an_end() {
        // Its last reference leads to what it is part of; a fuzzer found it.
        let symbol = "_D3std5V5VVVRT3s_D3std5V5VVVVTQsVVt3VdtdVVQVVVVVV";
        let mut reader = Reader { symbol: symbol.as_bytes(), at: 2, steps: 0, depth: 0 };
        assert_eq!(reader.qualified_name().as_deref(), Some("std.V5VVV"));
        assert!(reader.steps < 200, "{}", reader.steps);
        // Each name may be one within a function, of which that shows at the end alone.
        let functions = format!("_D{}1a", "1aFS".repeat(60));
        assert_eq!(demangle(&functions), None);
    }
}
