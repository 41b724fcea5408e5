//! A small Lisp: closures, tail calls and `call/cc`. Its continuations are frames on the collected
//! heap, so a tail call leaves none, and a captured continuation is a pointer to one.
//!
//! Runs the program in `lisp.scm` beside this file. Invariant: a `Value` is two words and copied;
//! symbols are the same object if they have the same name.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;

use neap::{Gc, Trace};

#[derive(Clone, Copy, Trace)]
enum Value {
    Nil,
    Bool(bool),
    Int(i64),
    Text(Gc<str>),
    Symbol(Gc<Symbol>),
    Pair(Gc<(Value, Value)>),
    Closure(Gc<Closure>),
    Builtin(Builtin),
    Continuation(Frames),
    CallCc,
}

#[derive(Clone, Copy, Trace)]
struct Builtin(#[trace(conservative)] Function);
type Function = fn(&[Value]) -> Result<Value, String>;

#[derive(Trace)]
struct Symbol {
    name: Gc<str>,
    global: Cell<Option<Value>>,
}

#[derive(Trace)]
struct Closure {
    parameters: Value,
    body: Value,
    environment: Environment,
}

#[derive(Trace)]
struct Binding {
    symbol: Gc<Symbol>,
    value: Cell<Value>,
    outer: Environment,
}
type Environment = Option<Gc<Binding>>;

/// What is to be done with a value, and what after that.
#[derive(Trace)]
struct Frame {
    step: Step,
    environment: Environment,
    next: Frames,
}
type Frames = Option<Gc<Frame>>;

#[derive(Trace)]
enum Step {
    If {
        then: Value,
        otherwise: Value,
    },
    Begin {
        rest: Value,
    },
    Define(Gc<Symbol>),
    Set(Gc<Symbol>),
    /// Function and arguments so far, last first, and what is still to be evaluated.
    Call {
        done: Value,
        rest: Value,
    },
}

fn cons(head: Value, tail: Value) -> Value {
    Value::Pair(Gc::new((head, tail)))
}

impl Value {
    fn pair(self) -> Result<(Value, Value), String> {
        match self {
            Value::Pair(pair) => Ok(*pair),
            other => Err(format!("{other} is no pair")),
        }
    }

    fn head(self) -> Result<Value, String> {
        Ok(self.pair()?.0)
    }

    fn tail(self) -> Result<Value, String> {
        Ok(self.pair()?.1)
    }

    fn int(self) -> Result<i64, String> {
        match self {
            Value::Int(number) => Ok(number),
            other => Err(format!("{other} is no number")),
        }
    }

    fn symbol(self) -> Result<Gc<Symbol>, String> {
        match self {
            Value::Symbol(symbol) => Ok(symbol),
            other => Err(format!("{other} is no symbol")),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::Nil => out.write_str("()"),
            Value::Bool(yes) => out.write_str(if yes { "#t" } else { "#f" }),
            Value::Int(number) => write!(out, "{number}"),
            Value::Text(text) => out.write_str(&text),
            Value::Symbol(symbol) => out.write_str(&symbol.name),
            Value::Closure(_) | Value::Builtin(_) | Value::Continuation(_) | Value::CallCc => {
                out.write_str("#<function>")
            }
            Value::Pair(pair) => {
                write!(out, "({}", pair.0)?;
                let mut rest = pair.1;
                while let Value::Pair(pair) = rest {
                    write!(out, " {}", pair.0)?;
                    rest = pair.1;
                }
                match rest {
                    Value::Nil => out.write_str(")"),
                    other => write!(out, " . {other})"),
                }
            }
        }
    }
}

/// Symbols by name, and those that have a meaning.
struct Lisp {
    symbols: HashMap<String, Gc<Symbol>>,
}

impl Lisp {
    fn new() -> Self {
        let mut lisp = Self { symbols: HashMap::new() };
        let builtins: [(&str, Function); 12] = [
            ("+", |all| all.iter().try_fold(0, |sum, one| Ok(sum + one.int()?)).map(Value::Int)),
            ("-", |all| Ok(Value::Int(all[0].int()? - all[1].int()?))),
            ("*", |all| all.iter().try_fold(1, |sum, one| Ok(sum * one.int()?)).map(Value::Int)),
            ("modulo", |all| Ok(Value::Int(all[0].int()?.rem_euclid(all[1].int()?)))),
            ("<", |all| Ok(Value::Bool(all[0].int()? < all[1].int()?))),
            ("=", |all| Ok(Value::Bool(all[0].int()? == all[1].int()?))),
            ("cons", |all| Ok(cons(all[0], all[1]))),
            ("car", |all| all[0].head()),
            ("cdr", |all| all[0].tail()),
            ("null?", |all| Ok(Value::Bool(matches!(all[0], Value::Nil)))),
            ("append-text", |all| {
                Ok(Value::Text(all.iter().map(Value::to_string).collect::<String>().into()))
            }),
            ("display", |all| {
                println!("{}", all[0]);
                Ok(Value::Nil)
            }),
        ];
        for (name, builtin) in builtins {
            lisp.intern(name).global.set(Some(Value::Builtin(Builtin(builtin))));
        }
        lisp.intern("call/cc").global.set(Some(Value::CallCc));
        lisp
    }

    fn intern(&mut self, name: &str) -> Gc<Symbol> {
        *self
            .symbols
            .entry(name.into())
            .or_insert_with(|| Gc::new(Symbol { name: name.into(), global: Cell::new(None) }))
    }

    fn read(&mut self, tokens: &mut dyn Iterator<Item = String>) -> Result<Option<Value>, String> {
        let Some(token) = tokens.next() else { return Ok(None) };
        Ok(Some(match token.as_str() {
            "(" => {
                let mut items = Vec::new();
                while let Some(item) = self.read(tokens)? {
                    items.push(item);
                }
                items.into_iter().rev().fold(Value::Nil, |list, item| cons(item, list))
            }
            ")" => return Ok(None),
            "#t" => Value::Bool(true),
            "#f" => Value::Bool(false),
            text if text.starts_with('"') => Value::Text(text.trim_matches('"').into()),
            name => match name.parse() {
                Ok(number) => Value::Int(number),
                Err(_) => Value::Symbol(self.intern(name)),
            },
        }))
    }
}

fn tokens(text: &str) -> impl Iterator<Item = String> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    spaced.split_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

fn find(symbol: Gc<Symbol>, mut environment: Environment) -> Option<Gc<Binding>> {
    while let Some(binding) = environment {
        if Gc::ptr_eq(binding.symbol, symbol) {
            return Some(binding);
        }
        environment = binding.outer;
    }
    None
}

fn push(step: Step, environment: Environment, next: Frames) -> Frames {
    Some(Gc::new(Frame { step, environment, next }))
}

/// What the machine does next.
enum State {
    Evaluate(Value, Environment),
    Return(Value),
}

fn run(program: Value) -> Result<Value, String> {
    let mut frames: Frames = None;
    let mut state = State::Evaluate(program, None);
    loop {
        state = match state {
            State::Evaluate(expression, environment) => {
                evaluate(expression, environment, &mut frames)?
            }
            State::Return(value) => match frames {
                None => return Ok(value),
                Some(frame) => {
                    frames = frame.next;
                    go_on(&frame, value, &mut frames)?
                }
            },
        };
    }
}

fn evaluate(
    expression: Value,
    environment: Environment,
    frames: &mut Frames,
) -> Result<State, String> {
    let (head, tail) = match expression {
        Value::Pair(pair) => *pair,
        Value::Symbol(symbol) => {
            let value = match find(symbol, environment) {
                Some(binding) => Some(binding.value.get()),
                None => symbol.global.get(),
            };
            return value.map(State::Return).ok_or_else(|| format!("{} is unknown", symbol.name));
        }
        value => return Ok(State::Return(value)),
    };
    let name = match head {
        Value::Symbol(symbol) => symbol.name,
        _ => "".into(),
    };
    Ok(match &*name {
        "quote" => State::Return(tail.head()?),
        "if" => {
            let (then, rest) = tail.tail()?.pair()?;
            let otherwise = rest.head().unwrap_or(Value::Nil);
            *frames = push(Step::If { then, otherwise }, environment, *frames);
            State::Evaluate(tail.head()?, environment)
        }
        "lambda" => {
            let (parameters, body) = tail.pair()?;
            State::Return(Value::Closure(Gc::new(Closure { parameters, body, environment })))
        }
        "define" | "set!" => {
            let symbol = tail.head()?.symbol()?;
            let step = if &*name == "define" { Step::Define(symbol) } else { Step::Set(symbol) };
            *frames = push(step, environment, *frames);
            State::Evaluate(tail.tail()?.head()?, environment)
        }
        "begin" => begin(tail, environment, frames)?,
        _ => {
            *frames = push(Step::Call { done: Value::Nil, rest: tail }, environment, *frames);
            State::Evaluate(head, environment)
        }
    })
}

/// The last expression of a body is evaluated without a frame: a tail call.
fn begin(body: Value, environment: Environment, frames: &mut Frames) -> Result<State, String> {
    let (first, rest) = body.pair()?;
    if let Value::Pair(_) = rest {
        *frames = push(Step::Begin { rest }, environment, *frames);
    }
    Ok(State::Evaluate(first, environment))
}

fn go_on(frame: &Frame, value: Value, frames: &mut Frames) -> Result<State, String> {
    Ok(match frame.step {
        Step::If { then, otherwise } => {
            let taken = if matches!(value, Value::Bool(false)) { otherwise } else { then };
            State::Evaluate(taken, frame.environment)
        }
        Step::Begin { rest } => begin(rest, frame.environment, frames)?,
        Step::Define(symbol) => {
            symbol.global.set(Some(value));
            State::Return(Value::Nil)
        }
        Step::Set(symbol) => {
            match find(symbol, frame.environment) {
                Some(binding) => binding.value.set(value),
                None => symbol.global.set(Some(value)),
            }
            State::Return(Value::Nil)
        }
        Step::Call { done, rest } => {
            let done = cons(value, done);
            match rest {
                Value::Pair(pair) => {
                    let step = Step::Call { done, rest: pair.1 };
                    *frames = push(step, frame.environment, *frames);
                    State::Evaluate(pair.0, frame.environment)
                }
                _ => apply(done, frames)?,
            }
        }
    })
}

/// Calls a function with its arguments, which come last first, the function behind them.
fn apply(mut reversed: Value, frames: &mut Frames) -> Result<State, String> {
    let mut all = Vec::new();
    while let Value::Pair(pair) = reversed {
        all.push(pair.0);
        reversed = pair.1;
    }
    let function = all.pop().ok_or("nothing to call")?;
    all.reverse();
    match function {
        Value::Builtin(builtin) => builtin.0(&all).map(State::Return),
        Value::Closure(closure) => {
            let (mut environment, mut parameters) = (closure.environment, closure.parameters);
            for argument in all {
                let (symbol, rest) = parameters.pair()?;
                let (symbol, value) = (symbol.symbol()?, Cell::new(argument));
                environment = Some(Gc::new(Binding { symbol, value, outer: environment }));
                parameters = rest;
            }
            begin(closure.body, environment, frames)
        }
        Value::CallCc => {
            apply(cons(Value::Continuation(*frames), cons(all[0], Value::Nil)), frames)
        }
        Value::Continuation(continuation) => {
            *frames = continuation;
            Ok(State::Return(all[0]))
        }
        other => Err(format!("{other} is no function")),
    }
}

fn main() -> Result<(), String> {
    let mut lisp = Lisp::new();
    let tokens = &mut tokens(include_str!("lisp.scm"));
    while let Some(expression) = lisp.read(tokens)? {
        run(expression)?;
    }
    Ok(())
}
