//! A loop for byte code in the manner of WebAssembly with references: locals, an operand stack,
//! branches and calls. The operand stack is a `Vec`, which the collector reads as it is.
//!
//! Invariant: code is checked by running it: a wrong operand ends the program with a message.

use std::cell::Cell;

use neap::{Gc, Trace};

#[derive(Clone, Copy, Trace)]
enum Value {
    Int(i64),
    Object(Option<Gc<Object>>),
}

/// A structure with two fields.
#[derive(Trace)]
struct Object {
    fields: [Cell<Value>; 2],
}

#[derive(Clone, Copy)]
enum Code {
    Const(i64),
    Null,
    Get(usize),
    Set(usize),
    Add,
    Sub,
    /// Takes two values, gives a structure of them.
    New,
    Field(usize),
    IsNull,
    /// Goes on at an instruction if the operand is not 0.
    BranchIf(usize),
    Branch(usize),
    Call(usize),
    Return,
}

struct Function {
    parameters: usize,
    locals: usize,
    code: &'static [Code],
}

struct Machine<'a> {
    functions: &'a [Function],
    /// Locals and operands of all calls under way.
    operands: Vec<Value>,
}

impl Machine<'_> {
    fn pop(&mut self) -> Value {
        self.operands.pop().expect("code that takes no more than it gave")
    }

    fn int(&mut self) -> i64 {
        match self.pop() {
            Value::Int(number) => number,
            Value::Object(_) => panic!("a number was wanted"),
        }
    }

    fn object(&mut self) -> Option<Gc<Object>> {
        match self.pop() {
            Value::Object(object) => object,
            Value::Int(_) => panic!("a reference was wanted"),
        }
    }

    fn call(&mut self, index: usize) {
        let function = &self.functions[index];
        let base = self.operands.len() - function.parameters;
        self.operands.resize(base + function.parameters + function.locals, Value::Int(0));
        let mut at = 0;
        loop {
            let code = function.code[at];
            at += 1;
            match code {
                Code::Const(number) => self.operands.push(Value::Int(number)),
                Code::Null => self.operands.push(Value::Object(None)),
                Code::Get(local) => self.operands.push(self.operands[base + local]),
                Code::Set(local) => self.operands[base + local] = self.pop(),
                Code::Add | Code::Sub => {
                    let (right, left) = (self.int(), self.int());
                    let right = if matches!(code, Code::Add) { right } else { -right };
                    self.operands.push(Value::Int(left.wrapping_add(right)));
                }
                Code::New => {
                    let (second, first) = (self.pop(), self.pop());
                    let object = Object { fields: [Cell::new(first), Cell::new(second)] };
                    self.operands.push(Value::Object(Some(Gc::new(object))));
                }
                Code::Field(field) => {
                    let object = self.object().expect("a structure");
                    self.operands.push(object.fields[field].get());
                }
                Code::IsNull => {
                    let null = self.object().is_none();
                    self.operands.push(Value::Int(null.into()));
                }
                Code::BranchIf(target) if self.int() != 0 => at = target,
                Code::BranchIf(_) => {}
                Code::Branch(target) => at = target,
                Code::Call(index) => self.call(index),
                Code::Return => {
                    let result = self.pop();
                    self.operands.truncate(base);
                    self.operands.push(result);
                    return;
                }
            }
        }
    }
}

/// A list of the numbers up to the argument, made anew: local 1 is the list.
const NUMBERS: &[Code] = &[
    Code::Null,
    Code::Set(1),
    Code::Get(0),
    Code::BranchIf(6),
    Code::Get(1),
    Code::Return,
    Code::Get(0),
    Code::Get(1),
    Code::New,
    Code::Set(1),
    Code::Get(0),
    Code::Const(1),
    Code::Sub,
    Code::Set(0),
    Code::Branch(2),
];
/// The sum of a list: local 1 is the sum.
const SUM: &[Code] = &[
    Code::Get(0),
    Code::IsNull,
    Code::BranchIf(12),
    Code::Get(1),
    Code::Get(0),
    Code::Field(0),
    Code::Add,
    Code::Set(1),
    Code::Get(0),
    Code::Field(1),
    Code::Set(0),
    Code::Branch(0),
    Code::Get(1),
    Code::Return,
];
/// So many times the sum of a list of a thousand, minus what it was before: local 1 is the total.
const MANY: &[Code] = &[
    Code::Get(0),
    Code::BranchIf(4),
    Code::Get(1),
    Code::Return,
    Code::Const(1000),
    Code::Call(0),
    Code::Call(1),
    Code::Get(1),
    Code::Sub,
    Code::Set(1),
    Code::Get(0),
    Code::Const(1),
    Code::Sub,
    Code::Set(0),
    Code::Branch(0),
];

fn main() {
    let functions = [
        Function { parameters: 1, locals: 1, code: NUMBERS },
        Function { parameters: 1, locals: 1, code: SUM },
        Function { parameters: 1, locals: 1, code: MANY },
    ];
    let mut machine = Machine { functions: &functions, operands: vec![Value::Int(1001)] };
    machine.call(2);
    println!("{}", machine.int());
}
